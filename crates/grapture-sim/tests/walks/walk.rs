//! [`Walk`]: a driver, what a walk has made on it, and what was answered.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use grapture_sys::*;

use crate::source::Source;

/// Calls a function of the driver and gives the number that it answers.
#[macro_export]
macro_rules! call {
    ($driver:expr, $function:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$function;
        // SAFETY: the arguments are handles that live, values, null where the driver looks at what
        // it is given, and pointers to locals that outlive the call, or to what the walk keeps.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the arguments are plain")]
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

/// Calls a function that writes its first argument, and gives that.
#[macro_export]
macro_rules! make {
    ($driver:expr, $function:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: handles, numbers and plain structs may be all zeros.
        let mut out = unsafe { std::mem::zeroed() };
        assert_eq!($crate::call!($driver, $function(&mut out, $($arg),*)), 0, stringify!($function));
        out
    }};
}

/// Has a walk print its steps as it takes them.
pub const SHOW: &str = "GRAPTURE_WALKS_SHOW";

/// What is sent to another thread and back.
struct Carried<T>(T);

// SAFETY: the handles in it are numbers here; the driver lets any thread use them, and the thread
// that sends waits until the other is done.
unsafe impl<T> Send for Carried<T> {}

impl<T> Carried<T> {
    fn take(self) -> T {
        self.0
    }
}

type Job = Box<dyn FnOnce(&Driver) + Send>;

/// A graph of the program's.
#[derive(Clone, Copy)]
pub struct Graph {
    pub number: usize,
    pub raw: CUgraph,
}

/// An executable, with the number of the graph that it was made of.
#[derive(Clone, Copy)]
pub struct Exec {
    pub number: usize,
    pub source: usize,
    pub raw: CUgraphExec,
}

/// Memory of the walk's own.
#[derive(Clone, Copy)]
pub struct Memory {
    pub number: usize,
    pub address: CUdeviceptr,
    pub kind: usize,
}

/// A call as text, and its answer.
pub struct Step {
    pub call: String,
    pub answer: String,
}

pub struct Walk {
    pub driver: Driver,
    pub source: Source,
    pub steps: Vec<Step>,
    pub context: CUcontext,
    pub module: CUmodule,
    pub kernels: [CUfunction; 3],
    /// Two that are not ordered with the legacy stream, one that is, the thread's, the legacy one.
    pub streams: [CUstream; 5],
    pub events: Vec<CUevent>,
    pub graphs: Vec<Graph>,
    /// The bodies of conditional nodes, with the number of the graph that has the node.
    pub bodies: Vec<(usize, Graph)>,
    /// The streams whose captures fill graphs of the walk, with the numbers of these.
    pub filled: Vec<((usize, bool), usize)>,
    pub execs: Vec<Exec>,
    /// Counted up by kernels, then written by whoever comes.
    pub buffer: CUdeviceptr,
    /// Memory of a pool, and what the host shares.
    pub pooled: CUdeviceptr,
    pub managed: CUdeviceptr,
    pub pinned: *mut std::ffi::c_void,
    pub own: Box<[u8; 256]>,
    pub memory: Vec<Memory>,
    /// The addresses of allocation nodes.
    pub planned: Vec<(usize, CUdeviceptr)>,
    pub pool: CUmemoryPool,
    last: usize,
    jobs: Option<Sender<Job>>,
    other: Option<std::thread::JoinHandle<()>>,
    statuses: String,
    shows: bool,
    pub called: &'static AtomicU32,
}

const PTX: &std::ffi::CStr = c"
.version 6.4
.target sm_50
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; cvta.to.global.u64 %rd2,%rd1;
 red.global.add.u32 [%rd2],%r1; ret;}
.visible .entry other(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; cvta.to.global.u64 %rd2,%rd1;
 red.global.add.u32 [%rd2+4],%r1; ret;}
.visible .entry none(){ ret;}
";

impl Walk {
    pub fn new(driver: Driver, seed: u64) -> Walk {
        let context: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        let module: CUmodule = make!(driver, cuModuleLoadData(PTX.as_ptr().cast()));
        let kernels = [c"add", c"other", c"none"]
            .map(|name| make!(driver, cuModuleGetFunction(module, name.as_ptr())));
        let [a, b, blocking] = [1, 1, 0].map(|flags| make!(driver, cuStreamCreate(flags)));
        let streams = [a, b, blocking, std::ptr::without_provenance_mut(2), std::ptr::null_mut()];
        let buffer: CUdeviceptr = make!(driver, cuMemAlloc_v2(4096));
        assert_eq!(call!(driver, cuMemsetD8_v2(buffer, 0, 4096)), 0);
        let pooled: CUdeviceptr = make!(driver, cuMemAllocAsync(4096, a));
        let managed = make!(driver, cuMemAllocManaged(4096, 1));
        let pinned = make!(driver, cuMemHostAlloc(4096, 0));
        let mut props =
            CUmemPoolProps_v1 { allocType: CU_MEM_ALLOCATION_TYPE_PINNED, ..Default::default() };
        props.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let pool: CUmemoryPool = make!(driver, cuMemPoolCreate(&props));
        let events = (0..4).map(|n| make!(driver, cuEventCreate(if n == 0 { 0 } else { 2 })));
        let events = events.collect();
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        let (jobs, taken) = channel();
        let there = Carried((driver.clone(), context));
        let other = std::thread::spawn(move || {
            let (driver, context) = there.take();
            other_thread(&driver, context, &taken);
        });
        Walk {
            driver,
            source: Source::new(seed),
            steps: Vec::new(),
            context,
            module,
            kernels,
            streams,
            events,
            graphs: Vec::new(),
            bodies: Vec::new(),
            filled: Vec::new(),
            execs: Vec::new(),
            buffer,
            pooled,
            managed,
            pinned,
            own: Box::new([0; 256]),
            memory: Vec::new(),
            planned: Vec::new(),
            pool,
            last: 0,
            jobs: Some(jobs),
            other: Some(other),
            statuses: String::new(),
            shows: std::env::var_os(SHOW).is_some(),
            called: Box::leak(Box::default()),
        }
    }

    /// Runs on the walk's thread or on the other one.
    pub fn on<R: 'static>(&self, there: bool, run: impl FnOnce(&Driver) -> R + 'static) -> R {
        if !there {
            return run(&self.driver);
        }
        let (done, result) = channel();
        let carried = Carried((run, done));
        let job: Job = Box::new(move |driver| {
            let (run, done) = carried.take();
            done.send(Carried(run(driver))).expect("the thread that waits");
        });
        self.jobs.as_ref().expect("a walk that goes on").send(job).expect("the other thread");
        result.recv().expect("an answer").take()
    }

    pub fn number(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// Whether a call is made by the other thread: one in three.
    pub fn there(&mut self) -> bool {
        self.source.chance(3)
    }

    /// Writes down a call and its answer.
    pub fn step(&mut self, call: String, answer: impl Into<String>) {
        let statuses = self.look();
        let mut answer = answer.into();
        if statuses != self.statuses {
            answer += "/";
            answer += &statuses;
            self.statuses = statuses;
        }
        if self.shows {
            eprintln!("  {call} = {answer}");
        }
        self.steps.push(Step { call, answer });
    }

    /// Whether each stream captures, as both threads see it.
    fn look(&self) -> String {
        let streams = self.streams;
        let ask = move |driver: &Driver, stream: CUstream| {
            let mut status = CUstreamCaptureStatus(0);
            match call!(driver, cuStreamIsCapturing(stream, &mut status)) {
                0 => status.0.to_string(),
                code => format!("({code})"),
            }
        };
        let here: String = streams.iter().map(|stream| ask(&self.driver, *stream)).collect();
        here + &self.on(true, move |driver| ask(driver, streams[3]))
    }

    /// Whether any stream captured after the last step.
    pub fn captures(&self) -> bool {
        self.statuses.contains(['1', '2'])
    }

    /// Takes one of the graphs.
    pub fn graph(&mut self) -> Option<Graph> {
        let graphs = self.graphs.clone();
        self.source.of(&graphs)
    }

    pub fn exec(&mut self) -> Option<Exec> {
        let execs = self.execs.clone();
        self.source.of(&execs)
    }

    /// One of the streams, by its place. The legacy stream comes less often.
    pub fn stream(&mut self) -> usize {
        [0, 0, 1, 1, 2, 2, 3, 3, 4][self.source.below(9)]
    }

    /// What tells streams apart: each thread has its own default stream.
    pub fn place(&self, stream: usize, there: bool) -> (usize, bool) {
        (stream, there && stream == 3)
    }

    pub fn event(&mut self) -> usize {
        self.source.below(self.events.len())
    }

    /// Ends what is open, gives everything back, and tells what ran.
    pub fn finish(mut self) -> Vec<Step> {
        for stream in 0..4 {
            crate::streams::end_on(&mut self, stream, false);
            crate::streams::end_on(&mut self, stream, true);
        }
        for there in [false, true] {
            let mode = self.on(there, |driver| {
                let mut mode = CUstreamCaptureMode(0);
                (call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode)), mode.0)
            });
            self.step(format!("mode there {there}"), format!("{mode:?}"));
        }
        let waited = call!(self.driver, cuCtxSynchronize());
        let mut words = [0_u32; 2];
        let at = words.as_mut_ptr().cast();
        let code = call!(self.driver, cuMemcpyDtoH_v2(at, self.buffer, 8));
        let called = self.called.load(Ordering::SeqCst);
        self.step("what ran".to_owned(), format!("{waited} {code} {words:?} {called}"));
        self.release();
        std::mem::take(&mut self.steps)
    }

    fn release(&mut self) {
        let driver = self.driver.clone();
        for exec in &self.execs {
            call!(driver, cuGraphExecDestroy(exec.raw));
        }
        for graph in &self.graphs {
            call!(driver, cuGraphDestroy(graph.raw));
        }
        for event in &self.events {
            call!(driver, cuEventDestroy_v2(*event));
        }
        for stream in &self.streams[..3] {
            call!(driver, cuStreamDestroy_v2(*stream));
        }
        // What a launch allocated and nothing freed.
        for (_, address) in &self.planned {
            call!(driver, cuMemFree_v2(*address));
        }
        for memory in &self.memory {
            if memory.kind == 6 {
                let host = std::ptr::with_exposed_provenance_mut(memory.address as usize);
                call!(driver, cuMemFreeHost(host));
            } else {
                call!(driver, cuMemFree_v2(memory.address));
            }
        }
        call!(driver, cuMemPoolDestroy(self.pool));
        call!(driver, cuMemFree_v2(self.buffer));
        call!(driver, cuMemFree_v2(self.pooled));
        call!(driver, cuMemFree_v2(self.managed));
        call!(driver, cuMemFreeHost(self.pinned));
        call!(driver, cuModuleUnload(self.module));
        self.jobs = None;
        if let Some(other) = self.other.take() {
            other.join().expect("the other thread");
        }
        call!(driver, cuCtxSetCurrent(std::ptr::null_mut()));
        call!(driver, cuDevicePrimaryCtxRelease_v2(0));
    }
}

fn other_thread(driver: &Driver, context: CUcontext, jobs: &Receiver<Job>) {
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    for job in jobs {
        job(driver);
    }
}
