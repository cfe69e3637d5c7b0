//! Every function of the table with any arguments that its types allow: null and stale handles,
//! handles of other kinds, counts that are too large, structs of zeros. Where the driver's
//! documentation demands that a pointer lead somewhere, it leads to a large piece of zeros.

use core::ffi::{c_char, c_void};
use std::any::TypeId;
use std::sync::atomic::{AtomicU8, Ordering};

use grapture_sys::*;

use crate::common::{PTX, Setup};
use crate::source::Source;
use crate::{call, make};

const STEPS: usize = 400;
/// Longer than any struct or list that a call with small counts reads or writes.
const SCRATCH: usize = 1 << 16;

/// What arguments are made of.
struct Pool {
    source: Source,
    handles: Vec<(TypeId, usize)>,
    addresses: Vec<CUdeviceptr>,
    scratch: *mut c_void,
}

/// Runs the sequence of a seed.
pub fn sequence_holds(seed: u64) {
    let t = Setup::new();
    let mut pool = Pool::new(&t, seed);
    for _ in 0..STEPS {
        let function = pool.source.of(Function::ALL).unwrap();
        if waits_for_ever(function) || writes_a_file(function) {
            continue;
        }
        let code = call_any(&t.driver, function, &mut pool);
        pool.take_result(code);
        // Zeros again, whatever the call wrote.
        // SAFETY: the piece is this pool's alone, and has this size.
        unsafe { pool.scratch.cast::<u8>().write_bytes(0, SCRATCH) };
        assert_eq!(call!(t, cuDriverGetVersion(&mut 0)), 0, "after {function:?}");
    }
    // What the program made goes with the contexts; the simulation must still end.
    drop(t);
    // SAFETY: the simulation that knew the piece is over.
    drop(unsafe { Box::from_raw(pool.scratch.cast::<[u64; SCRATCH / 8]>()) });
}

/// A wait for a word that nothing writes holds its stream for ever, as on a GPU.
fn waits_for_ever(function: Function) -> bool {
    use Function::*;
    matches!(function, cuStreamWaitValue32_v2 | cuStreamWaitValue64_v2)
}

/// The name of a kernel would be a file's.
fn writes_a_file(function: Function) -> bool {
    function == Function::cuGraphDebugDotPrint
}

impl Pool {
    fn new(t: &Setup, seed: u64) -> Pool {
        let (stream, event, module) = (t.stream(), t.event(), t.module(PTX));
        let function = t.function(module, "noarg");
        let graph: CUgraph = make!(t, cuGraphCreate(0));
        let node: CUgraphNode = make!(t, cuGraphAddEmptyNode(graph, std::ptr::null(), 0));
        let exec: CUgraphExec = make!(t, cuGraphInstantiateWithFlags(graph, 0));
        let gone = t.stream();
        assert_eq!(call!(t, cuStreamDestroy_v2(gone)), 0);
        let handles = vec![
            (TypeId::of::<CUctx_st>(), t.context.addr()),
            (TypeId::of::<CUstream_st>(), stream.addr()),
            (TypeId::of::<CUstream_st>(), gone.addr()),
            (TypeId::of::<CUstream_st>(), 1),
            (TypeId::of::<CUstream_st>(), 2),
            (TypeId::of::<CUevent_st>(), event.addr()),
            (TypeId::of::<CUmod_st>(), module.addr()),
            (TypeId::of::<CUfunc_st>(), function.addr()),
            (TypeId::of::<CUgraph_st>(), graph.addr()),
            (TypeId::of::<CUgraphNode_st>(), node.addr()),
            (TypeId::of::<CUgraphExec_st>(), exec.addr()),
        ];
        let buffer = t.alloc(4096);
        let freed = t.alloc(64);
        assert_eq!(call!(t, cuMemFree_v2(freed)), 0);
        let scratch: Box<[u64; SCRATCH / 8]> = Box::new([0; SCRATCH / 8]);
        Pool {
            source: Source::new(seed),
            handles,
            addresses: vec![0, 64, buffer, buffer + 4, buffer + 4000, freed],
            scratch: Box::into_raw(scratch).cast(),
        }
    }

    /// A handle that a call gave out may be an argument from now on.
    fn take_result(&mut self, code: CUresult) {
        let byte = |index| {
            let byte = self.scratch.cast::<u8>().wrapping_add(index);
            // SAFETY: within the piece, which is this pool's. A copy that a call began may still
            // write there, with atomic operations.
            unsafe { AtomicU8::from_ptr(byte) }.load(Ordering::Relaxed)
        };
        let word = usize::from_ne_bytes(std::array::from_fn(byte));
        let is_handle = (0x21..0x2d).contains(&(word >> 56)) && word & 0xf == 0;
        if code == CUDA_SUCCESS && is_handle && self.handles.len() < 200 {
            // Its kind does not matter: every handle is tried as every other.
            self.handles.push((TypeId::of::<c_void>(), word));
        }
    }

    /// A handle, most often of the right kind.
    fn handle<T: 'static>(&mut self) -> *mut T {
        let right: Vec<usize> = self
            .handles
            .iter()
            .filter(|(kind, _)| *kind == TypeId::of::<T>() || *kind == TypeId::of::<c_void>())
            .map(|(_, handle)| *handle)
            .collect();
        let any: Vec<usize> = self.handles.iter().map(|(_, handle)| *handle).collect();
        let value = match self.source.below(8) {
            0 => 0,
            1 => 0x1230,
            2 => self.source.of(&any).unwrap(),
            _ => self.source.of(&right).unwrap_or(0),
        };
        std::ptr::without_provenance_mut(value)
    }
}

/// An argument of this type.
trait Any {
    fn any(pool: &mut Pool) -> Self;
}

/// Whether a C handle points to this.
fn is_handle(kind: TypeId) -> bool {
    let kinds = [
        TypeId::of::<CUctx_st>(),
        TypeId::of::<CUstream_st>(),
        TypeId::of::<CUevent_st>(),
        TypeId::of::<CUmod_st>(),
        TypeId::of::<CUfunc_st>(),
        TypeId::of::<CUlib_st>(),
        TypeId::of::<CUkern_st>(),
        TypeId::of::<CUmemPoolHandle_st>(),
        TypeId::of::<CUgraph_st>(),
        TypeId::of::<CUgraphNode_st>(),
        TypeId::of::<CUgraphExec_st>(),
        TypeId::of::<CUuserObject_st>(),
    ];
    kinds.contains(&kind)
}

impl<T: 'static> Any for *mut T {
    fn any(pool: &mut Pool) -> *mut T {
        if is_handle(TypeId::of::<T>()) {
            return pool.handle();
        }
        if pool.source.chance(6) { std::ptr::null_mut() } else { pool.scratch.cast() }
    }
}

impl<T: 'static> Any for *const T {
    fn any(pool: &mut Pool) -> *const T {
        let texts = [c"", c"noarg", c"cuInit", c"/nonexistent"];
        if TypeId::of::<T>() == TypeId::of::<c_char>() {
            return pool.source.of(&texts).unwrap().as_ptr().cast();
        }
        <*mut T>::any(pool)
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Any for $ty {
            fn any(pool: &mut Pool) -> $ty {
                let small = pool.source.below(5) as $ty;
                let some = [small, small, 16, 1 << 5, 64];
                pool.source.of(&some).unwrap()
            }
        }
    )*};
}

numbers!(u8, u16, u32, i32, usize);

/// A device address, a value, or flags.
impl Any for u64 {
    fn any(pool: &mut Pool) -> u64 {
        let addresses = pool.addresses.clone();
        pool.source.of(&addresses).unwrap()
    }
}

macro_rules! enumerations {
    ($($ty:ty),* $(,)?) => {$(
        impl Any for $ty {
            fn any(pool: &mut Pool) -> $ty {
                let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 40, 999];
                // SAFETY: a number, which may be zero.
                let mut value: $ty = unsafe { std::mem::zeroed() };
                value.0 = pool.source.of(&numbers).unwrap();
                value
            }
        }
    )*};
}

enumerations! {
    CUresult, CUstreamCaptureMode, CUdevice_attribute, CUfunction_attribute,
    CUpointer_attribute, CUlimit, CUmemPool_attribute, CUgraphMem_attribute, CUlaunchAttributeID,
    CUfunc_cache, CUsharedconfig, CUexecAffinityType, CUdevice_P2PAttribute, CUarray_format,
    CUmem_advise, CUmem_range_attribute, CUjitInputType, CUmemAllocationType,
}

impl Any for CUmemLocation {
    fn any(pool: &mut Pool) -> CUmemLocation {
        // SAFETY: all bytes of the struct may be zero.
        let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
        location.type_.0 = pool.source.below(5) as u32;
        location
    }
}

macro_rules! callbacks {
    ($($ty:ty = $function:expr),* $(,)?) => {$(
        impl Any for $ty {
            fn any(pool: &mut Pool) -> $ty {
                if pool.source.chance(3) { None } else { Some($function) }
            }
        }
    )*};
}

callbacks! {
    CUhostFn = host,
    CUstreamCallback = callback,
    CUoccupancyB2DSize = shared_bytes,
    CUgraphRecaptureCallback = recapture,
}

unsafe extern "C" fn host(_: *mut c_void) {}
unsafe extern "C" fn callback(_: CUstream, _: CUresult, _: *mut c_void) {}
unsafe extern "C" fn recapture(
    _: *mut c_void,
    _: CUgraphNode,
    _: *const CUgraphNodeParams,
    _: *const CUgraphNodeParams,
    _: CUgraphRecaptureStatus,
) -> CUresult {
    CUDA_SUCCESS
}
unsafe extern "C" fn shared_bytes(_: i32) -> usize {
    0
}

macro_rules! define {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// Calls a function with some arguments.
        fn call_any(driver: &Driver, function: Function, pool: &mut Pool) -> CUresult {
            let _ = &pool;
            match function {
                $(Function::$symbol => {
                    $(let $arg = <$ty as Any>::any(pool);)*
                    // SAFETY: handles and device addresses are compared by the simulated driver;
                    // every other pointer is null or leads to zeros that are larger than what the
                    // function reads or writes with counts as small as these.
                    unsafe { (driver.functions().$symbol)($($arg),*) }
                })*
            }
        }
    };
}

driver_functions!(define);
