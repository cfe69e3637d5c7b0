//! [`Rig`]: a driver with the primary context of device 0 and a few objects.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ops::Deref;

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

use crate::host::{Gate, run_boxed, wait_for};
use crate::subject::Subject;
use crate::transcript::{self, quietly, saw};

pub const NULL_STREAM: CUstream = std::ptr::null_mut();
pub const GLOBAL: u32 = 0;
pub const THREAD_LOCAL: u32 = 1;
pub const RELAXED: u32 = 2;

/// The stream that is the calling thread's own.
pub fn per_thread() -> CUstream {
    std::ptr::without_provenance_mut(2)
}

/// What a call during a capture came to: its code, the status of the stream after it, the code of
/// the end of the capture and the number of nodes.
pub type Outcome = (u32, u32, u32, usize);

pub const BUFFER_BYTES: usize = 1 << 20;

/// A driver with its primary context current.
pub struct Rig {
    pub driver: Driver,
    /// The controls of the driver, where it is the simulated one.
    sim: Option<Simulation>,
    pub context: CUcontext,
    /// A stream that is not ordered with the legacy stream, and another one.
    pub stream: CUstream,
    pub other: CUstream,
    /// A stream that is ordered with the legacy stream.
    pub blocking: CUstream,
    /// An event without a time.
    pub event: CUevent,
    /// Device memory, all zeros.
    pub buffer: CUdeviceptr,
    closed: Cell<bool>,
}

// SAFETY: the handles are numbers here; the driver lets any thread use them, and the tests make
// the context current on it first.
unsafe impl Send for Rig {}
// SAFETY: as above: a reference gives no more than the handles.
unsafe impl Sync for Rig {}

impl Deref for Rig {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

/// Runs a case on a simulated driver of its own.
pub fn simulated(body: impl FnOnce(&Rig)) {
    run(Subject::simulated(), body);
}

/// Runs a case on the driver of the system.
pub fn real(body: impl FnOnce(&Rig)) {
    run(Subject::real(), body);
}

/// As [`simulated`], for a case that breaks the context.
pub fn simulated_ruin(body: impl FnOnce(&Rig)) {
    ruin(Subject::simulated(), body);
}

/// As [`real`], for a case that breaks the context of its process.
pub fn real_ruin(body: impl FnOnce(&Rig)) {
    ruin(Subject::real(), body);
}

fn ruin(subject: Subject, body: impl FnOnce(&Rig)) {
    let rig = quietly(|| Rig::on(subject));
    body(&rig);
    rig.closed.set(true);
}

fn run(subject: Subject, body: impl FnOnce(&Rig)) {
    let rig = quietly(|| Rig::on(subject));
    body(&rig);
    quietly(|| rig.close());
}

impl Rig {
    pub fn with(config: SimConfig) -> Rig {
        Rig::on(Subject::with(config))
    }

    pub fn on(subject: Subject) -> Rig {
        let Subject { driver, sim } = subject;
        let context = make!(driver, cuDevicePrimaryCtxRetain(0));
        ok!(driver, cuCtxSetCurrent(context));
        let null = std::ptr::null_mut::<u8>();
        let mut rig = Rig {
            driver,
            sim,
            context,
            stream: null.cast(),
            other: null.cast(),
            blocking: null.cast(),
            event: null.cast(),
            buffer: 0,
            closed: Cell::new(false),
        };
        rig.stream = rig.new_stream(1);
        rig.other = rig.new_stream(1);
        rig.blocking = rig.new_stream(0);
        rig.event = rig.new_event();
        rig.buffer = rig.zeroed(BUFFER_BYTES);
        rig
    }

    /// Gives everything back that [`Rig::on`] made; then nothing may be alive, no stream capturing
    /// and the thread as it was.
    pub fn close(self) {
        let mut current = std::ptr::null_mut();
        ok!(self, cuCtxGetCurrent(&mut current));
        assert_eq!(current, self.context, "the current context is restored");
        assert_eq!(self.exchange(GLOBAL), GLOBAL, "the mode of the thread is restored");
        for stream in [self.stream, self.other, self.blocking] {
            assert_eq!(self.status(stream), 0, "no capture is open");
            ok!(self, cuStreamDestroy_v2(stream));
        }
        ok!(self, cuEventDestroy_v2(self.event));
        ok!(self, cuMemFree_v2(self.buffer));
        ok!(self, cuCtxPopCurrent_v2(&mut current));
        ok!(self, cuCtxGetCurrent(&mut current));
        assert!(current.is_null(), "there was one context on the stack");
        ok!(self, cuDevicePrimaryCtxRelease_v2(0));
        self.closed.set(true);
        let (mut flags, mut active) = (0, 9);
        ok!(self, cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
        assert_eq!(active, 0, "nothing holds the primary context");
        self.on_simulation(|sim| {
            wait_for(|| sim.live().is_clean());
            assert!(sim.live().is_clean(), "left: {}", sim.live());
        });
    }

    /// What only the simulated driver can tell, or be asked.
    pub fn on_simulation(&self, check: impl FnOnce(&Simulation)) {
        if let Some(sim) = &self.sim {
            quietly(|| check(sim));
        }
    }

    pub fn new_stream(&self, flags: u32) -> CUstream {
        make!(self, cuStreamCreate(flags))
    }

    /// An event without a time.
    pub fn new_event(&self) -> CUevent {
        make!(self, cuEventCreate(2))
    }

    pub fn timed_event(&self) -> CUevent {
        make!(self, cuEventCreate(0))
    }

    pub fn new_graph(&self) -> CUgraph {
        make!(self, cuGraphCreate(0))
    }

    pub fn alloc(&self, bytes: usize) -> CUdeviceptr {
        make!(self, cuMemAlloc_v2(bytes))
    }

    /// Device memory of zeros.
    pub fn zeroed(&self, bytes: usize) -> CUdeviceptr {
        let address = self.alloc(bytes);
        ok!(self, cuMemsetD8_v2(address, 0, bytes));
        ok!(self, cuStreamSynchronize(NULL_STREAM));
        address
    }

    pub fn pinned(&self, bytes: usize) -> *mut c_void {
        make!(self, cuMemHostAlloc(bytes, 0))
    }

    /// A context of the program's own; the rig's stays current.
    pub fn new_context(&self) -> CUcontext {
        let context = make!(self, cuCtxCreate_v2(0, 0));
        ok!(self, cuCtxPopCurrent_v2(&mut std::ptr::null_mut()));
        context
    }

    /// Runs with this context current, or with none.
    pub fn in_context<R>(&self, context: CUcontext, run: impl FnOnce() -> R) -> R {
        ok!(self, cuCtxSetCurrent(context));
        let result = run();
        ok!(self, cuCtxSetCurrent(self.context));
        result
    }

    pub fn module(&self, ptx: &str) -> CUmodule {
        let text = CString::new(ptx).expect("no NUL");
        make!(self, cuModuleLoadData(text.as_ptr().cast()))
    }

    pub fn function(&self, module: CUmodule, name: &str) -> CUfunction {
        let name = CString::new(name).expect("no NUL");
        make!(self, cuModuleGetFunction(module, name.as_ptr()))
    }

    /// Launches one block of one thread.
    pub fn launch(
        &self,
        function: CUfunction,
        stream: CUstream,
        params: &mut [*mut c_void],
    ) -> u32 {
        let params = params.as_mut_ptr();
        let none = std::ptr::null_mut();
        cu!(self, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, none))
    }

    pub fn begin(&self, stream: CUstream, mode: u32) {
        ok!(self, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode)));
    }

    /// The status of a stream, by its number.
    pub fn status(&self, stream: CUstream) -> u32 {
        let mut status = CUstreamCaptureStatus(99);
        ok!(self, cuStreamIsCapturing(stream, &mut status));
        saw("status", status.0)
    }

    /// Ends a capture: the code and the graph.
    pub fn end(&self, stream: CUstream) -> (u32, CUgraph) {
        let mut graph = std::ptr::null_mut();
        let code = cu!(self, cuStreamEndCapture(stream, &mut graph));
        assert_eq!(graph.is_null(), code != 0, "a graph comes with success alone");
        (code, graph)
    }

    /// Calls something during a capture.
    pub fn during(&self, stream: CUstream, mode: u32, call: impl FnOnce() -> u32) -> Outcome {
        self.begin(stream, mode);
        let code = call();
        let status = self.status(stream);
        let (end, nodes) = self.end_and_count(stream);
        assert_eq!(self.status(stream), 0, "the stream is out of the capture");
        (code, status, end, nodes)
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
        let count = saw("nodes", self.nodes(graph).len());
        ok!(self, cuGraphDestroy(graph));
        (code, count)
    }

    pub fn nodes(&self, graph: CUgraph) -> Vec<CUgraphNode> {
        let mut count = 0;
        ok!(self, cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count));
        let mut nodes = vec![std::ptr::null_mut(); count];
        if count > 0 {
            ok!(self, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
        }
        nodes
    }

    pub fn kind(&self, node: CUgraphNode) -> u32 {
        let mut kind = CUgraphNodeType(99);
        ok!(self, cuGraphNodeGetType(node, &mut kind));
        kind.0
    }

    /// The edges of a graph.
    pub fn edges(&self, graph: CUgraph) -> Vec<(CUgraphNode, CUgraphNode, CUgraphEdgeData)> {
        let null = std::ptr::null_mut();
        let mut count = 0;
        ok!(self, cuGraphGetEdges_v2(graph, null, null, std::ptr::null_mut(), &mut count));
        if count == 0 {
            return Vec::new();
        }
        let (mut from, mut to) = (vec![null.cast(); count], vec![null.cast(); count]);
        let mut data = vec![CUgraphEdgeData::default(); count];
        let (from_at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
        ok!(self, cuGraphGetEdges_v2(graph, from_at, to_at, data.as_mut_ptr(), &mut count));
        from.into_iter().zip(to).zip(data).map(|((from, to), data)| (from, to, data)).collect()
    }

    /// The shape of a graph as text: `kinds | from>to(port,type) …`, nodes and edges in the order
    /// that the driver gives them.
    pub fn shape(&self, graph: CUgraph) -> String {
        let nodes = self.nodes(graph);
        let place = |node| nodes.iter().position(|n| *n == node).expect("a node of the graph");
        let kinds = nodes.iter().map(|node| self.kind(*node).to_string());
        let mut text = kinds.collect::<Vec<_>>().join(" ");
        text.push_str(" |");
        for (from, to, data) in self.edges(graph) {
            text += &format!(" {}>{}", place(from), place(to));
            if (data.from_port, data.to_port, data.type_) != (0, 0, 0) {
                text += &format!("({},{})", data.from_port, data.type_);
            }
        }
        saw("shape", text)
    }

    pub fn instantiate(&self, graph: CUgraph) -> CUgraphExec {
        make!(self, cuGraphInstantiateWithFlags(graph, 0))
    }

    /// Destroys a graph and an executable.
    pub fn release(&self, graph: CUgraph, exec: CUgraphExec) {
        ok!(self, cuGraphExecDestroy(exec));
        ok!(self, cuGraphDestroy(graph));
    }

    /// A graph that a capture of one fill makes.
    pub fn new_graph_of_one_fill(&self) -> CUgraph {
        self.begin(self.other, RELAXED);
        assert_eq!(self.fill(self.other), 0);
        self.end_good(self.other)
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

    pub fn query(&self, stream: CUstream) -> u32 {
        cu!(self, cuStreamQuery(stream))
    }

    pub fn read<T: Copy + Default>(&self, address: CUdeviceptr, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let bytes = count * size_of::<T>();
        ok!(self, cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, bytes));
        values
    }

    pub fn read_word(&self, word: usize) -> u32 {
        self.read(self.buffer + 4 * word as u64, 1)[0]
    }

    pub fn sync(&self, stream: CUstream) {
        ok!(self, cuStreamSynchronize(stream));
    }

    /// Puts a gate on a stream: what comes behind it waits until the gate opens. A real driver may
    /// run no other host function meanwhile.
    pub fn hold(&self, stream: CUstream) -> Gate {
        let gate = Gate::new();
        gate.put_on(self, stream);
        gate
    }

    /// Runs a closure in stream order.
    pub fn host(&self, stream: CUstream, f: impl FnOnce() + Send + 'static) {
        let boxed: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(f));
        let data = Box::into_raw(boxed).cast();
        ok!(self, cuLaunchHostFunc(stream, Some(run_boxed), data));
    }

    /// Runs on another thread, with the context current there and the thread in a capture mode.
    pub fn elsewhere<R: Send>(&self, mode: u32, run: impl FnOnce() -> R + Send) -> R {
        let transcript = transcript::current();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                ok!(self, cuCtxSetCurrent(self.context));
                self.exchange(mode);
                transcript::writing_to(transcript, run)
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

impl Drop for Rig {
    /// A case failed on a driver that others share: what it left open must not fail them.
    fn drop(&mut self) {
        if self.closed.get() || self.sim.is_some() {
            return;
        }
        quietly(|| self.abandon());
    }
}

impl Rig {
    fn abandon(&self) {
        let mut mode = CUstreamCaptureMode(GLOBAL);
        cu!(self, cuThreadExchangeStreamCaptureMode(&mut mode));
        cu!(self, cuCtxSetCurrent(self.context));
        for stream in [self.stream, self.other, self.blocking, per_thread()] {
            cu!(self, cuStreamEndCapture(stream, &mut std::ptr::null_mut()));
        }
        // No case leaves more contexts on the stack, or more retains of the primary one.
        for _ in 0..8 {
            cu!(self, cuCtxPopCurrent_v2(&mut std::ptr::null_mut()));
            cu!(self, cuDevicePrimaryCtxRelease_v2(0));
        }
    }
}

/// Kernels much as those of the probe that the real driver answered.
pub const PTX: &str = "\
.version 6.4
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry k(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; cvta.to.global.u64 %rd2,%rd1;
 red.global.add.u32 [%rd2],%r1; ret;}
.visible .entry spin(.param .u64 p){
 .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
 ld.param.u64 %rd1,[p]; cvta.to.global.u64 %rd2,%rd1;
L: ld.volatile.global.u32 %r1,[%rd2]; setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;}
.visible .entry sm(.param .u64 p){
 .shared .align 4 .b8 buf[1024]; .reg .b64 %rd<4>; ret;}
.visible .entry noarg(){ ret;}
.visible .entry dyn(.param .u64 p, .param .align 8 .b8 q[24], .param .f32 f){ ret;}
";
