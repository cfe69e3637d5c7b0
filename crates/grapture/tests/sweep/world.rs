//! [`World`]: a simulated driver with what the operations of the rows work on.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grapture::{
    CaptureMode, Context, CudaError, CudaResult, DeviceBuffer, Driver, Event, EventOptions, Graph,
    GraphExec, Kernel, Module, PinnedBuffer, Stream, StreamGraphCapture, set_drop_error_hook,
};
use grapture_sim::{LiveObjects, SimConfig, Simulation};
use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_STATUS_NONE, CUcontext, CUstreamCaptureMode,
    CUstreamCaptureStatus,
};

use crate::common::Setup;
use crate::engine::{Attempt, Plan};

/// What the drop error hook was told.
pub type Reports = Arc<Mutex<Vec<(&'static str, CudaError)>>>;

/// What a row works on. What it makes itself it drops at its end.
pub struct World {
    pub sim: Simulation,
    pub driver: Driver,
    pub context: Context,
    pub module: Module,
    /// `*word += value`
    pub add: Kernel,
    pub stream: Stream,
    pub side: Stream,
    pub reports: Reports,
    pub(crate) plan: Cell<Plan>,
    pub(crate) attempt: RefCell<Option<Attempt>>,
    /// What is alive between the runs of rows.
    pub(crate) alive: Cell<LiveObjects>,
    word: RefCell<DeviceBuffer<u32>>,
}

impl World {
    pub fn new() -> World {
        let reports = Reports::default();
        let hook = reports.clone();
        set_drop_error_hook(Some(Box::new(move |function, error| {
            hook.lock().unwrap().push((function, error.clone()));
        })));
        let sim = Simulation::new(SimConfig::default().devices(2).workers(2));
        let Setup { driver, context, module } = Setup::on(Driver::from(sim.driver()));
        let stream = Stream::new(&context).unwrap();
        let world = World {
            add: module.kernel("add").unwrap(),
            word: RefCell::new(DeviceBuffer::zeroed(&context, 1).unwrap()),
            side: Stream::new(&context).unwrap(),
            plan: Cell::new(Plan::None),
            attempt: RefCell::new(None),
            alive: Cell::default(),
            sim,
            driver,
            context,
            module,
            stream,
            reports,
        };
        // What the library sets up at its first use is there from now on.
        world.assert_usable();
        world.alive.set(world.settled());
        world
    }

    /// A context of another device.
    pub fn peer(&self) -> Context {
        Context::new(&self.driver.device(1).unwrap()).unwrap()
    }

    pub fn buffer(&self) -> DeviceBuffer<u32> {
        DeviceBuffer::from_slice(&self.context, &[1, 2, 3, 4]).unwrap()
    }

    pub fn bytes(&self) -> DeviceBuffer<u8> {
        DeviceBuffer::zeroed(&self.context, 4).unwrap()
    }

    pub fn shorts(&self) -> DeviceBuffer<u16> {
        DeviceBuffer::zeroed(&self.context, 4).unwrap()
    }

    pub fn ordered(&self) -> DeviceBuffer<u32> {
        DeviceBuffer::alloc_async(&self.stream, 4).unwrap()
    }

    pub fn pinned(&self) -> PinnedBuffer<u32> {
        PinnedBuffer::from_slice(&self.context, &[5, 6, 7, 8]).unwrap()
    }

    pub fn event(&self) -> Event {
        Event::with_options(&self.context, EventOptions::new().timing(true)).unwrap()
    }

    /// `word += 1` on a stream.
    pub fn launch(&self, word: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { self.add.launch_builder(1, 1).arg_mut(word).value(1u32).launch(stream) }
    }

    /// A graph with a node of every kind that a stream records.
    pub fn graph(&self) -> Graph {
        let (mut words, pinned, event) = (self.buffer(), self.pinned(), self.event());
        let side = &self.side;
        let record = |capture: &StreamGraphCapture<'_>| {
            let stream = capture.stream();
            self.launch(&mut words, stream)?;
            words.copy_from_pinned(&pinned, stream)?;
            words.view_mut(1..)?.fill(7, stream)?;
            stream.host_function(|| {})?;
            let fork = self.event();
            fork.record(stream)?;
            fork.wait(side)?;
            self.launch(&mut words, side)?;
            fork.record(side)?;
            fork.wait(stream)?;
            event.record_external(stream)?;
            event.wait_external(stream)
        };
        self.stream.capture(CaptureMode::Relaxed, record).unwrap()
    }

    /// A graph that uses a buffer and nothing else.
    pub fn small_graph(&self) -> Graph {
        let mut words = self.buffer();
        self.stream
            .capture(CaptureMode::Relaxed, |capture| self.launch(&mut words, capture.stream()))
            .unwrap()
    }

    pub fn exec(&self) -> GraphExec {
        self.graph().instantiate().unwrap()
    }

    /// Records in a capture of the stream, which is then ended whether that worked or not.
    pub fn captured(&self, record: impl FnOnce(&Stream) -> CudaResult<()>) -> CudaResult<Graph> {
        let capture = StreamGraphCapture::begin(&self.stream, CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        let recorded = record(&self.stream);
        let graph = capture.end_graph();
        recorded.and(graph)
    }

    /// Runs work on the stream, captured and not.
    pub fn assert_usable(&self) {
        let stream = &self.stream;
        let mut word = self.word.borrow_mut();
        word.fill(1, stream).unwrap();
        let graph =
            stream.capture(CaptureMode::Global, |_| self.launch(&mut word, stream)).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(stream).unwrap();
        self.launch(&mut word, stream).unwrap();
        assert_eq!(word.to_vec(stream).unwrap(), [3]);
    }

    /// What the driver says of the stream.
    pub fn status(&self, stream: &Stream) -> CUstreamCaptureStatus {
        let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
        let functions = self.driver.as_raw().functions();
        // SAFETY: a live stream, and a live out-pointer.
        let code = unsafe { (functions.cuStreamIsCapturing)(stream.as_raw(), &mut status) };
        assert_eq!(code.0, 0, "the status of a stream");
        status
    }

    /// Waits for all work, and for what the library releases later.
    pub fn idle(&self) {
        self.driver.reclaim();
        for stream in [&self.stream, &self.side, &Stream::per_thread(&self.context)] {
            stream.synchronize().unwrap();
        }
    }

    /// Whether the driver has one of the streams in a capture.
    pub fn captures(&self) -> bool {
        self.sim.live().captures > 0
    }

    /// The thread's capture mode.
    pub fn mode(&self) -> CUstreamCaptureMode {
        let functions = self.driver.as_raw().functions();
        let mut mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: a live out-pointer.
        let first = unsafe { (functions.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        let found = mode;
        // SAFETY: as above.
        let second = unsafe { (functions.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        assert_eq!((first.0, second.0), (0, 0), "the thread's mode");
        found
    }

    /// What is current on the thread.
    pub fn current(&self) -> CUcontext {
        let mut current = std::ptr::null_mut();
        // SAFETY: a live out-pointer.
        let code = unsafe { (self.driver.as_raw().functions().cuCtxGetCurrent)(&mut current) };
        assert_eq!(code.0, 0, "the current context");
        current
    }

    /// Takes a context off the thread's stack.
    pub fn pop(&self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: a live out-pointer.
        let code = unsafe { (self.driver.as_raw().functions().cuCtxPopCurrent_v2)(&mut popped) };
        assert_eq!(code.0, 0, "a pop");
    }

    /// Loses the context: a kernel writes where nothing is.
    pub fn lose(&self) {
        let launch = self.add.launch_builder(1, 1).address(8).value(1u32);
        // SAFETY: not sound, which is the point: on the simulated driver it is a fault of the
        // kernel.
        unsafe { launch.launch(&self.side) }.unwrap();
        assert!(self.side.synchronize().is_err());
    }

    /// What is alive when nothing is in flight any more, nor anything about to be released.
    pub fn settled(&self) -> LiveObjects {
        let mut before = LiveObjects::default();
        let mut same = 0;
        while same < 5 {
            self.idle();
            std::thread::sleep(Duration::from_millis(1));
            let live = self.sim.live();
            same = if live == before { same + 1 } else { 0 };
            before = live;
        }
        before
    }

    /// Waits until what is alive is as `expected` says.
    pub fn settle(&self, expected: &LiveObjects) -> Result<(), String> {
        let limit = Instant::now() + Duration::from_secs(1);
        loop {
            self.driver.reclaim();
            let live = self.sim.live();
            if counts(&live) == counts(expected) {
                return Ok(());
            }
            if Instant::now() > limit {
                let leaks = self.sim.leaks();
                return Err(format!("alive: {leaks}\n  expected: {expected}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// All counts but the bytes, and the operations that are not done.
fn counts(live: &LiveObjects) -> LiveObjects {
    let mut live = *live;
    (live.device_bytes, live.pinned_bytes, live.pending) = (0, 0, 0);
    live
}
