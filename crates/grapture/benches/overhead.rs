//! What the library adds to a driver call, in nanoseconds: the calls of the hot paths go to
//! functions that do nothing, all others to the simulated driver.
//!
//! `cargo bench -p grapture --bench overhead`, with words of a line's name for that line alone.

use std::ffi::{c_uint, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use grapture::sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMSET_NODE_PARAMS,
    CUDA_SUCCESS, CUcontext, CUdeviceptr, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUresult,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, Function, FunctionInfo, Functions,
};
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CacheLimits, Context, DeviceBuffer, Driver, FillNode, Graph,
    GraphCache, Kernel, Stream, StreamGraphCapture,
};
use grapture_sim::{SimConfig, Simulation};

const KERNELS: &str = include_str!("../fixtures/kernels.ptx");

unsafe extern "C" fn launch_kernel(
    _: CUfunction,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: CUstream,
    _: *mut *mut c_void,
    _: *mut *mut c_void,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn launch_graph(_: CUgraphExec, _: CUstream) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn fill(_: CUdeviceptr, _: c_uint, _: usize, _: CUstream) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn begin(_: CUstream, _: CUstreamCaptureMode) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn end(_: CUstream, graph: *mut CUgraph) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *graph = std::ptr::dangling_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn nodes(_: CUgraph, _: *mut CUgraphNode, count: *mut usize) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *count = 1 };
    CUDA_SUCCESS
}

unsafe extern "C" fn instantiate(exec: *mut CUgraphExec, _: CUgraph, _: u64) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *exec = std::ptr::dangling_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn destroy_graph(_: CUgraph) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn destroy_exec(_: CUgraphExec) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn info(
    _: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *status = CU_STREAM_CAPTURE_STATUS_ACTIVE };
    // SAFETY: as above.
    unsafe { *id = 1 };
    CUDA_SUCCESS
}

unsafe extern "C" fn current(context: *mut CUcontext) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *context = std::ptr::null_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn push(_: CUcontext) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn set_kernel(
    _: CUgraphExec,
    _: CUgraphNode,
    _: *const CUDA_KERNEL_NODE_PARAMS_v2,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn set_fill(
    _: CUgraphExec,
    _: CUgraphNode,
    _: *const CUDA_MEMSET_NODE_PARAMS,
    _: CUcontext,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn exchange(_: *mut CUstreamCaptureMode) -> CUresult {
    CUDA_SUCCESS
}

macro_rules! addresses {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// The address of a function of a table.
        fn address(functions: &Functions, symbol: &str) -> *const c_void {
            match symbol {
                "cuLaunchKernel" => launch_kernel as *const c_void,
                "cuGraphLaunch" | "cuGraphUpload" => launch_graph as *const c_void,
                "cuMemsetD32Async" => fill as *const c_void,
                "cuStreamBeginCapture_v2" => begin as *const c_void,
                "cuStreamEndCapture" => end as *const c_void,
                "cuStreamGetCaptureInfo" => info as *const c_void,
                "cuGraphGetNodes" => nodes as *const c_void,
                "cuGraphInstantiateWithFlags" => instantiate as *const c_void,
                "cuGraphExecKernelNodeSetParams_v2" => set_kernel as *const c_void,
                "cuGraphExecMemsetNodeSetParams" => set_fill as *const c_void,
                "cuGraphDestroy" => destroy_graph as *const c_void,
                "cuGraphExecDestroy" => destroy_exec as *const c_void,
                "cuCtxGetCurrent" | "cuCtxPopCurrent_v2" => current as *const c_void,
                "cuCtxPushCurrent_v2" => push as *const c_void,
                "cuThreadExchangeStreamCaptureMode" => exchange as *const c_void,
                $(stringify!($symbol) => functions.$symbol as *const c_void,)*
                _ => std::ptr::null(),
            }
        }
    };
}
grapture::sys::driver_functions!(addresses);

fn main() {
    let simulated = Simulation::new(SimConfig::default()).driver();
    // It stays current: the functions that would make it so do nothing.
    let (functions, mut context) = (simulated.functions(), std::ptr::null_mut());
    // SAFETY: a live out-pointer, and the first device.
    assert_eq!(unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, 0) }, CUDA_SUCCESS);
    // SAFETY: a live context.
    assert_eq!(unsafe { (functions.cuCtxSetCurrent)(context) }, CUDA_SUCCESS);
    let resolver = move |info: &'static FunctionInfo| match Function::from_symbol(info.symbol) {
        Some(function) if simulated.has(function) => address(simulated.functions(), info.symbol),
        _ => std::ptr::null(),
    };
    // SAFETY: the addresses are those of the simulated driver's table, and of the functions above
    // with the signatures of their lines.
    let driver = unsafe { Driver::from_resolver("a driver that does nothing", resolver) };
    measure(&driver.expect("the driver starts"));
}

/// Changes of executables, and the cache of them.
fn changes(context: &Context, kernel: &Kernel, word: &mut DeviceBuffer<u32>, stream: &Stream) {
    let mut graph = Graph::new(context).unwrap();
    let launch = kernel.launch_builder(1, 32).arg_mut(word).value(1u32);
    // SAFETY: `add` takes the address of a word and a value.
    let add = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    let fill = graph.add_fill(FillNode::new(word, 1).unwrap(), &[add]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    report("ExecNode::set_kernel", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(word).value(1u32);
        // SAFETY: as above.
        unsafe { exec.node(add).unwrap().set_kernel(launch) }.unwrap();
    });
    report("ExecNode::set_fill", || {
        let fill_node = FillNode::new(word, 1).unwrap();
        exec.node(fill).unwrap().set_fill(fill_node).unwrap();
    });
    let cache = GraphCache::new(context, CacheLimits::new().entries(64));
    for batch in 0..64_u32 {
        cache.get_or_capture((batch, 4096_u32), stream, |_| Ok(())).unwrap();
    }
    let mut batch = 0;
    report("GraphCache::get, a hit", || {
        batch = (batch + 1) % 64;
        black_box(cache.get(&(black_box(batch), 4096)));
    });
}

fn measure(driver: &Driver) {
    let context = Context::new(&driver.device(0).unwrap()).unwrap();
    let stream = Stream::new(&context).unwrap();
    let kernel = context.load_ptx(KERNELS).unwrap().kernel("add").unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let raw = driver.as_raw().functions();
    let empty = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let exec = empty.end().unwrap();

    report("bare call of a function that does nothing", || {
        let (exec, stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: it does nothing. Nobody is given the raw handle of the stream: whoever has one
        // may set launch attributes, and the library would look for them.
        black_box(unsafe { (raw.cuGraphLaunch)(black_box(exec), black_box(stream)) });
    });
    report("GraphExec::launch", || exec.launch(black_box(&stream)).unwrap());
    report("fill", || word.fill(1, black_box(&stream)).unwrap());
    report("kernel launch", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
    });
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    report("captured fill", || word.fill(1, black_box(&stream)).unwrap());
    report("captured kernel launch", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
    });
    drop(capture);
    changes(&context, &kernel, &mut word, &stream);
    let begin = || StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    report("capture begun and dropped", || drop(begin()));
    report("capture begun and ended, and all dropped", || drop(begin().end().unwrap()));
    report("capture of a kernel launch, ended and dropped", || {
        let capture = begin();
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
        drop(capture.end().unwrap());
    });
    for part in ["first captured kernel launch", "end and instantiation"] {
        report_part(part, || {
            let capture = begin();
            let start = Instant::now();
            let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { launch.launch(black_box(&stream)) }.unwrap();
            let launched = start.elapsed();
            let exec = capture.end().unwrap();
            let ended = start.elapsed();
            drop(exec);
            if part.starts_with("first") { launched } else { ended - launched }
        });
    }
}

/// How often something is done in a round.
const CALLS: u32 = 1_000;

/// Whether the name has the words of the command line in it.
fn is_asked_for(name: &str) -> bool {
    std::env::args().skip(1).all(|word| word.starts_with('-') || name.contains(&word))
}

/// Prints the least mean over many rounds of the time that `part` gives, less what it takes to
/// read the clock.
fn report_part(name: &str, mut part: impl FnMut() -> Duration) {
    if !is_asked_for(name) {
        return;
    }
    let least = |part: &mut dyn FnMut() -> Duration| {
        let mean = |_| (0..CALLS).map(|_| part()).sum::<Duration>().as_nanos() as f64 / 1e3;
        (0..300).map(mean).fold(f64::INFINITY, f64::min)
    };
    let clock = least(&mut || {
        let start = Instant::now();
        start.elapsed()
    });
    println!("{name:<50} {:>7.1} ns", least(&mut part) - clock);
}

/// Prints the least time of one call over many rounds.
fn report(name: &str, mut call: impl FnMut()) {
    if !is_asked_for(name) {
        return;
    }
    let round = |call: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        call(CALLS);
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let mut calls = |count| (0..count).for_each(|_| call());
    let least = (0..1_000).map(|_| round(&mut calls)).fold(f64::INFINITY, f64::min);
    println!("{name:<50} {least:>7.1} ns");
}
