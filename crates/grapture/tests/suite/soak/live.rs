//! What is alive in a driver, counted call by call: whatever else runs on the device, and whatever the
//! driver keeps for itself, has no part in it.

use std::collections::HashSet;
use std::ffi::{c_uint, c_void};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};

use grapture::Driver;
use grapture_sys::*;

/// The driver that is counted.
static COUNTED: OnceLock<grapture_sys::Driver> = OnceLock::new();

fn counted() -> &'static grapture_sys::Driver {
    COUNTED.get_or_init(|| grapture_sys::Driver::load().expect("the gpu tier needs a driver"))
}

/// The system's driver, with what it makes and destroys counted.
pub fn driver() -> Driver {
    let resolver = |info: &'static FunctionInfo| {
        let known = Function::from_symbol(info.symbol).filter(|symbol| counted().has(*symbol));
        known.map_or(std::ptr::null(), |_| address(counted().functions(), info.symbol))
    };
    // SAFETY: the addresses are those of the system driver's table, which is never unloaded, and of
    // the functions below, which have the signatures of their lines.
    unsafe { Driver::from_resolver("the system's driver, counted", resolver) }.unwrap()
}

macro_rules! counted {
    ($($field:ident $change:ident $symbol:ident($($arg:ident: $ty:ty),*);)*) => {
        $(
            #[allow(non_snake_case, reason = "the driver's name")]
            unsafe extern "C" fn $symbol($($arg: $ty),*) -> CUresult {
                // SAFETY: the caller's promise to the driver's function of the same signature.
                let code = unsafe { (counted().functions().$symbol)($($arg),*) };
                if code == CUDA_SUCCESS {
                    LIVE.$field.$change(1, Ordering::SeqCst);
                }
                code
            }
        )*

        fn counting(symbol: &str) -> Option<*const c_void> {
            match symbol {
                $(stringify!($symbol) => Some($symbol as *const c_void),)*
                "cuMemAllocAsync" => Some(allocate as *const c_void),
                "cuMemFreeAsync" => Some(free as *const c_void),
                "cuStreamBeginCaptureToGraph" => Some(begin_into as *const c_void),
                "cuStreamEndCapture" => Some(end as *const c_void),
                _ => None,
            }
        }
    };
}

counted! {
    streams fetch_add cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: i32);
    streams fetch_sub cuStreamDestroy_v2(stream: CUstream);
    events fetch_add cuEventCreate(event: *mut CUevent, flags: c_uint);
    events fetch_sub cuEventDestroy_v2(event: CUevent);
    graphs fetch_add cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    graphs fetch_add cuGraphClone(clone: *mut CUgraph, graph: CUgraph);
    graphs fetch_sub cuGraphDestroy(graph: CUgraph);
    executables fetch_add cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
    executables fetch_sub cuGraphExecDestroy(exec: CUgraphExec);
    allocations fetch_add cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    allocations fetch_sub cuMemFree_v2(address: CUdeviceptr);
    pinned fetch_add cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    pinned fetch_sub cuMemFreeHost(address: *mut c_void);
    modules fetch_add cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void
    );
    modules fetch_sub cuModuleUnload(module: CUmodule);
}

/// What is allocated in the order of a stream. What graphs allocate is made by their launches, and is
/// not here.
static ORDERED: LazyLock<Mutex<HashSet<CUdeviceptr>>> = LazyLock::new(Mutex::default);

unsafe extern "C" fn allocate(to: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    let functions = counted().functions();
    // SAFETY: the caller's live stream, and a live out-pointer.
    unsafe { (functions.cuStreamIsCapturing)(stream, &mut status) };
    // SAFETY: the caller's promise.
    let code = unsafe { (functions.cuMemAllocAsync)(to, bytes, stream) };
    if code == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE {
        // SAFETY: written by the call.
        ORDERED.lock().unwrap().insert(unsafe { to.read() });
    }
    code
}

unsafe extern "C" fn free(address: CUdeviceptr, stream: CUstream) -> CUresult {
    // Before the driver gives the address to somebody else.
    ORDERED.lock().unwrap().remove(&address);
    // SAFETY: the caller's promise.
    unsafe { (counted().functions().cuMemFreeAsync)(address, stream) }
}

/// The streams that are captured into a graph that there is.
static INTO: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

unsafe extern "C" fn begin_into(
    stream: CUstream,
    graph: CUgraph,
    after: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
    mode: CUstreamCaptureMode,
) -> CUresult {
    let functions = counted().functions();
    // SAFETY: the caller's promise.
    let code =
        unsafe { (functions.cuStreamBeginCaptureToGraph)(stream, graph, after, data, count, mode) };
    if code == CUDA_SUCCESS {
        INTO.lock().unwrap().insert(stream.addr());
    }
    code
}

unsafe extern "C" fn end(stream: CUstream, graph: *mut CUgraph) -> CUresult {
    let into = INTO.lock().unwrap().remove(&stream.addr());
    // SAFETY: the caller's promise.
    let code = unsafe { (counted().functions().cuStreamEndCapture)(stream, graph) };
    if code == CUDA_SUCCESS && !into {
        LIVE.graphs.fetch_add(1, Ordering::SeqCst);
    }
    code
}

macro_rules! addresses {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        fn address(functions: &Functions, symbol: &str) -> *const c_void {
            counting(symbol).unwrap_or_else(|| match symbol {
                $(stringify!($symbol) => functions.$symbol as *const c_void,)*
                _ => std::ptr::null(),
            })
        }
    };
}
driver_functions!(addresses);

static LIVE: Counters = Counters {
    streams: AtomicUsize::new(0),
    events: AtomicUsize::new(0),
    graphs: AtomicUsize::new(0),
    executables: AtomicUsize::new(0),
    allocations: AtomicUsize::new(0),
    pinned: AtomicUsize::new(0),
    modules: AtomicUsize::new(0),
};

struct Counters {
    streams: AtomicUsize,
    events: AtomicUsize,
    graphs: AtomicUsize,
    executables: AtomicUsize,
    allocations: AtomicUsize,
    pinned: AtomicUsize,
    modules: AtomicUsize,
}

/// How many of each kind are alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Live([(&'static str, usize); 8]);

impl Live {
    /// All are 0 unless [`driver`] is the driver.
    pub fn now() -> Live {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        Live([
            ("streams", of(&LIVE.streams)),
            ("events", of(&LIVE.events)),
            ("graphs", of(&LIVE.graphs)),
            ("executables", of(&LIVE.executables)),
            ("allocations", of(&LIVE.allocations)),
            ("ordered allocations", ORDERED.lock().unwrap().len()),
            ("pinned", of(&LIVE.pinned)),
            ("modules", of(&LIVE.modules)),
        ])
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("alive:")?;
        let mut kinds = self.0.iter().filter(|(_, count)| *count > 0);
        kinds.try_for_each(|(kind, count)| write!(f, " {count} {kind}"))
    }
}
