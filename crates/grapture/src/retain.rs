//! What a capture retains, and how a graph comes to own it (O2, O3, O5).

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_USER_OBJECT_MOVE, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CUgraph, Function,
};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaResult, check};
use crate::kernel::KernelInner;
use crate::memory::BufferInner;
use crate::pinned::PinnedInner;
use crate::reclaim::{ReclaimHandle, drop_contained};

/// A share in something that a graph's nodes use.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

/// How many of the last owners are compared before one is added again: a chain of operations on
/// the same few buffers then costs no memory for each.
const RECENT: usize = 8;

/// The owners that a capture has gathered.
#[derive(Default)]
pub(crate) struct Owners {
    list: Vec<Owner>,
    recent: [usize; RECENT],
    next: usize,
    /// Host memory that the graph's copies read or write: each launch marks it as in use (O6).
    pinned: Vec<PinnedUse>,
}

/// Pinned host memory that a graph uses, and whether the graph writes it.
#[derive(Clone)]
pub(crate) struct PinnedUse {
    pub(crate) memory: Arc<PinnedInner>,
    pub(crate) written: bool,
}

impl Owners {
    /// Keeps `owner` alive.
    #[inline]
    pub(crate) fn retain<T: Any + Send + Sync>(&mut self, owner: &Arc<T>) {
        let address = Arc::as_ptr(owner) as usize;
        if self.recent.contains(&address) {
            return;
        }
        // INVARIANT: `next` is below `RECENT`.
        self.recent[self.next] = address;
        self.next = (self.next + 1) % RECENT;
        self.list.push(owner.clone());
    }

    /// Keeps a value alive that nothing else shares.
    pub(crate) fn retain_value<T: Any + Send + Sync>(&mut self, value: T) {
        self.list.push(Arc::new(value));
    }

    /// Keeps pinned memory alive, and has every launch mark it as in use.
    pub(crate) fn retain_pinned(&mut self, memory: &Arc<PinnedInner>, written: bool) {
        if let Some(used) = self.pinned.iter_mut().find(|used| Arc::ptr_eq(&used.memory, memory)) {
            used.written |= written;
            return;
        }
        self.list.push(memory.clone());
        self.pinned.push(PinnedUse { memory: memory.clone(), written });
    }

    pub(crate) fn take_pinned(&mut self) -> Vec<PinnedUse> {
        std::mem::take(&mut self.pinned)
    }

    /// The kernels among the owners.
    pub(crate) fn kernels(&self) -> Vec<Arc<KernelInner>> {
        self.list.iter().filter_map(|owner| owner.clone().downcast().ok()).collect()
    }

    /// Blocks until the memory among the owners is there: a graph may be launched on any stream,
    /// and what was in the order of another one when it was recorded is not in that stream's.
    pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
        self.list
            .iter()
            .filter_map(|owner| owner.downcast_ref::<BufferInner>())
            .try_for_each(BufferInner::wait_until_ready)
    }

    pub(crate) fn into_list(self) -> Vec<Owner> {
        self.list
    }
}

/// Who holds the owners of a graph.
#[derive(Clone)]
pub(crate) enum Keep {
    /// The driver's graph, through a user object, and so every clone, exec and launch of it.
    Driver,
    /// This library: the driver has no user objects (before 11.3). Whoever launches must wait for
    /// the last launch before it lets go (O5).
    Library(Arc<Vec<Owner>>),
}

/// What the user object's destructor gets.
struct Parcel {
    owners: Vec<Owner>,
    /// The destructor can be all that is left of the program's use of the driver: with it, neither
    /// the context nor the driver's library goes before it has run (O1).
    context: Context,
    reclaimer: ReclaimHandle,
}

/// Gives the owners to the driver's graph.
///
/// # Safety
///
/// `graph` is a live graph of the context's driver that no other thread uses meanwhile.
pub(crate) unsafe fn attach(
    context: &Context,
    graph: CUgraph,
    owners: Vec<Owner>,
) -> CudaResult<Keep> {
    if owners.is_empty() {
        return Ok(Keep::Driver);
    }
    let driver = context.driver();
    if !driver.has(Function::cuUserObjectCreate) || !driver.has(Function::cuGraphRetainUserObject) {
        return Ok(Keep::Library(Arc::new(owners)));
    }
    let functions = driver.functions();
    let (context, reclaimer) = (context.clone(), driver.reclaimer().handle());
    let parcel = Box::into_raw(Box::new(Parcel { owners, context, reclaimer }));
    let mut object = std::ptr::null_mut();
    let flags = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
    // SAFETY: the out-pointer is a live local; `release_parcel` has the callback's signature, takes
    // the ownership of `parcel` and calls no CUDA function.
    let created = check(unsafe {
        (functions.cuUserObjectCreate)(&mut object, parcel.cast(), Some(release_parcel), 1, flags)
    });
    if let Err(error) = created {
        // SAFETY: the driver refused it, so the parcel is still ours alone.
        drop_contained(unsafe { Box::from_raw(parcel) });
        return Err(error);
    }
    // SAFETY: the graph is live (the caller's promise); MOVE gives it the one reference.
    let moved = check(unsafe {
        (functions.cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE.0)
    });
    if let Err(error) = moved {
        // SAFETY: the reference was not moved, so it is ours to give back; that runs the
        // destructor, which frees the parcel.
        let code = unsafe { (functions.cuUserObjectRelease)(object, 1) };
        report("cuUserObjectRelease", check(code));
        return Err(error);
    }
    Ok(Keep::Driver)
}

/// The destructor of the user object. CUDA calls are forbidden here (O3): it only hands over.
unsafe extern "C" fn release_parcel(parcel: *mut c_void) {
    // SAFETY: `attach` made the pointer with `Box::into_raw`, and the driver runs the destructor
    // once, when the last reference is gone.
    let parcel = unsafe { Box::from_raw(parcel.cast::<Parcel>()) };
    let Parcel { owners, context, reclaimer } = *parcel;
    reclaimer.release(Box::new((owners, context)));
}
