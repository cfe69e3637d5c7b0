//! What the tests of captures and graphs share: a simulated driver with a context and a few
//! objects, and calls that give back the number that the driver answers.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

/// Calls a function of the driver and gives its code as a number.
#[macro_export]
macro_rules! cu {
    ($rig:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $rig.driver.functions().$name;
        // SAFETY: the pointers among the arguments are to live locals or buffers of the test, and
        // the simulated driver checks handles itself.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "plain values and pointers")]
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

/// As [`cu!`], and the call must succeed.
#[macro_export]
macro_rules! ok {
    ($rig:expr, $name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!($crate::cu!($rig, $name($($arg),*)), 0, stringify!($name))
    };
}

pub const NULL_STREAM: CUstream = std::ptr::null_mut();
pub const GLOBAL: u32 = 0;
pub const THREAD_LOCAL: u32 = 1;
pub const RELAXED: u32 = 2;

/// A driver with its primary context current.
pub struct Rig {
    pub sim: Simulation,
    pub driver: Driver,
    pub context: CUcontext,
    /// A stream that is not ordered with the legacy stream, and another one.
    pub stream: CUstream,
    pub other: CUstream,
    /// A stream that is ordered with the legacy stream.
    pub blocking: CUstream,
    /// An event without a time.
    pub event: CUevent,
    /// 64 KiB of device memory.
    pub buffer: CUdeviceptr,
}

// SAFETY: the handles are numbers to the simulated driver, which any thread may use.
unsafe impl Send for Rig {}
// SAFETY: as above: a reference gives no more than the handles.
unsafe impl Sync for Rig {}

pub const BUFFER_BYTES: usize = 64 << 10;

impl Rig {
    pub fn new() -> Rig {
        Rig::with(SimConfig::default())
    }

    pub fn with(config: SimConfig) -> Rig {
        let sim = Simulation::new(config);
        let driver = sim.driver();
        let null = std::ptr::null_mut::<u8>();
        let mut rig = Rig {
            sim,
            driver,
            context: null.cast(),
            stream: null.cast(),
            other: null.cast(),
            blocking: null.cast(),
            event: null.cast(),
            buffer: 0,
        };
        let mut context = std::ptr::null_mut();
        ok!(rig, cuDevicePrimaryCtxRetain(&mut context, 0));
        rig.context = context;
        ok!(rig, cuCtxSetCurrent(context));
        rig.stream = rig.new_stream(1);
        rig.other = rig.new_stream(1);
        rig.blocking = rig.new_stream(0);
        rig.event = rig.new_event();
        let mut buffer = 0;
        ok!(rig, cuMemAlloc_v2(&mut buffer, BUFFER_BYTES));
        rig.buffer = buffer;
        rig
    }

    pub fn new_stream(&self, flags: u32) -> CUstream {
        let mut stream = std::ptr::null_mut();
        ok!(self, cuStreamCreate(&mut stream, flags));
        stream
    }

    pub fn new_event(&self) -> CUevent {
        let mut event = std::ptr::null_mut();
        ok!(self, cuEventCreate(&mut event, 2));
        event
    }

    pub fn new_graph(&self) -> CUgraph {
        let mut graph = std::ptr::null_mut();
        ok!(self, cuGraphCreate(&mut graph, 0));
        graph
    }

    /// Gives everything back that [`Rig::with`] made; then nothing may be alive.
    pub fn close(self) {
        for stream in [self.stream, self.other, self.blocking] {
            ok!(self, cuStreamDestroy_v2(stream));
        }
        ok!(self, cuEventDestroy_v2(self.event));
        ok!(self, cuMemFree_v2(self.buffer));
        ok!(self, cuDevicePrimaryCtxRelease_v2(0));
        wait_for(|| self.sim.live().is_clean());
        assert!(self.sim.live().is_clean(), "{}", self.sim.live());
    }

    pub fn begin(&self, stream: CUstream, mode: u32) {
        ok!(self, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode)));
    }

    /// The status of a stream, by its number.
    pub fn status(&self, stream: CUstream) -> u32 {
        let mut status = CUstreamCaptureStatus(99);
        ok!(self, cuStreamIsCapturing(stream, &mut status));
        status.0
    }

    /// Ends a capture: the code and the graph.
    pub fn end(&self, stream: CUstream) -> (u32, CUgraph) {
        let mut graph = std::ptr::dangling_mut();
        let code = cu!(self, cuStreamEndCapture(stream, &mut graph));
        assert_eq!(graph.is_null(), code != 0, "a graph comes with success alone");
        (code, graph)
    }

    /// Ends a capture that must be good.
    pub fn end_good(&self, stream: CUstream) -> CUgraph {
        let (code, graph) = self.end(stream);
        assert_eq!(code, 0, "cuStreamEndCapture");
        graph
    }

    /// Ends a capture and destroys what it yields: the code and the number of nodes.
    pub fn end_and_count(&self, stream: CUstream) -> (u32, usize) {
        let (code, graph) = self.end(stream);
        if graph.is_null() {
            return (code, 0);
        }
        let count = self.nodes(graph).len();
        ok!(self, cuGraphDestroy(graph));
        (code, count)
    }

    pub fn nodes(&self, graph: CUgraph) -> Vec<CUgraphNode> {
        let mut count = 0;
        ok!(self, cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count));
        let mut nodes = vec![std::ptr::null_mut(); count];
        ok!(self, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
        nodes
    }

    pub fn kind(&self, node: CUgraphNode) -> u32 {
        let mut kind = CUgraphNodeType(99);
        ok!(self, cuGraphNodeGetType(node, &mut kind));
        kind.0
    }

    /// The shape of a graph as text: `kinds | from>to(port,type) …`, nodes by their order.
    pub fn shape(&self, graph: CUgraph) -> String {
        let nodes = self.nodes(graph);
        let null = std::ptr::null_mut();
        let mut count = 0;
        ok!(self, cuGraphGetEdges_v2(graph, null, null, std::ptr::null_mut(), &mut count));
        let (mut from, mut to) = (vec![null.cast(); count], vec![null.cast(); count]);
        let mut data = vec![CUgraphEdgeData::default(); count];
        let (from_at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
        ok!(self, cuGraphGetEdges_v2(graph, from_at, to_at, data.as_mut_ptr(), &mut count));
        let place = |node| nodes.iter().position(|n| *n == node).expect("a node of the graph");
        let kinds = nodes.iter().map(|node| self.kind(*node).to_string());
        let mut text = kinds.collect::<Vec<_>>().join(" ");
        text.push_str(" |");
        for ((from, to), data) in from.into_iter().zip(to).zip(data) {
            text += &format!(" {}>{}", place(from), place(to));
            if (data.from_port, data.to_port, data.type_) != (0, 0, 0) {
                text += &format!("({},{})", data.from_port, data.type_);
            }
        }
        text
    }

    pub fn instantiate(&self, graph: CUgraph) -> CUgraphExec {
        let mut exec = std::ptr::null_mut();
        ok!(self, cuGraphInstantiateWithFlags(&mut exec, graph, 0));
        exec
    }

    /// A fill of one word on a stream.
    pub fn fill(&self, stream: CUstream) -> u32 {
        cu!(self, cuMemsetD32Async(self.buffer, 7, 1, stream))
    }

    pub fn fill_word(&self, word: usize, value: u32, stream: CUstream) {
        let at = self.buffer + 4 * word as u64;
        ok!(self, cuMemsetD32Async(at, value, 1, stream));
    }

    pub fn record(&self, event: CUevent, stream: CUstream) -> u32 {
        cu!(self, cuEventRecord(event, stream))
    }

    pub fn wait(&self, stream: CUstream, event: CUevent) -> u32 {
        cu!(self, cuStreamWaitEvent(stream, event, 0))
    }

    /// Makes `to` depend on what `from` has done so far.
    pub fn link(&self, from: CUstream, to: CUstream) {
        assert_eq!(self.record(self.event, from), 0);
        assert_eq!(self.wait(to, self.event), 0);
    }

    pub fn read_word(&self, word: usize) -> u32 {
        let mut value = 0u32;
        let at = self.buffer + 4 * word as u64;
        ok!(self, cuMemcpyDtoH_v2((&raw mut value).cast(), at, 4));
        value
    }

    pub fn sync(&self, stream: CUstream) {
        ok!(self, cuStreamSynchronize(stream));
    }

    /// Runs on another thread, with the context current there and the thread in a capture mode.
    pub fn elsewhere<R: Send>(&self, mode: u32, run: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                ok!(self, cuCtxSetCurrent(self.context));
                self.exchange(mode);
                run()
            });
            thread.join().expect("the other thread")
        })
    }

    /// Sets the mode of the calling thread and gives the one before.
    pub fn exchange(&self, mode: u32) -> u32 {
        let mut mode = CUstreamCaptureMode(mode);
        ok!(self, cuThreadExchangeStreamCaptureMode(&mut mode));
        mode.0
    }
}

/// Waits, within limits, until something holds.
pub fn wait_for(holds: impl Fn() -> bool) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds() {
        if Instant::now() > limit {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Holds a stream until it is opened.
#[derive(Default)]
pub struct Gate {
    open: AtomicBool,
    reached: AtomicBool,
}

impl Gate {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub unsafe extern "C" fn pass(argument: *mut c_void) {
        // SAFETY: the tests pass a gate that outlives the work that it holds.
        let gate = unsafe { &*argument.cast::<Gate>() };
        gate.reached.store(true, Ordering::SeqCst);
        assert!(wait_for(|| gate.open.load(Ordering::SeqCst)), "the gate was never opened");
    }

    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    pub fn is_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }
}

/// Counts the calls of a host function.
#[derive(Default)]
pub struct Counter(AtomicUsize);

impl Counter {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub unsafe extern "C" fn count(argument: *mut c_void) {
        // SAFETY: the tests pass a counter that outlives the work that counts.
        let counter = unsafe { &*argument.cast::<Counter>() };
        counter.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Notes in which order host functions ran.
#[derive(Default)]
pub struct Journal {
    entries: Mutex<Vec<usize>>,
}

/// One line of a journal, to be written when a host function runs.
pub struct Line<'a> {
    pub journal: &'a Journal,
    pub number: usize,
}

impl Line<'_> {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub unsafe extern "C" fn write(argument: *mut c_void) {
        // SAFETY: the tests pass a line that outlives the work that writes it.
        let line = unsafe { &*argument.cast::<Line<'_>>() };
        line.journal.entries.lock().expect("the journal").push(line.number);
    }
}

impl Journal {
    /// What was written so far; it starts anew.
    pub fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.entries.lock().expect("the journal"))
    }
}
