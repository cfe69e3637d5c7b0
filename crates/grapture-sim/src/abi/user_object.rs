//! User objects.
//!
//! The driver's lock is never held where a destructor can run.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use crate::graph::UserObject;
use crate::sim::{Answer, Sim, State};

/// The one flag of a user object: its destructor synchronizes nothing.
const NO_SYNC: u32 = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
/// The one flag of a graph's retain: it takes the caller's references.
const MOVE: u32 = CU_GRAPH_USER_OBJECT_MOVE.0;

pub(crate) fn cuUserObjectCreate(
    sim: &Sim,
    out: Ptr<CUuserObject>,
    argument: Ptr<c_void>,
    destroy: CUhostFn,
    references: u32,
    flags: u32,
) -> Answer {
    out.required()?;
    let destroy = destroy.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if references == 0 || flags != NO_SYNC {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let object = UserObject::new(destroy, argument.address(), references);
    let handle = sim.lock().graphs.add_object(object);
    out.write(handle.raw())
}

fn check_count(count: u32) -> Result<u64, CUresult> {
    let good = count != 0 && count <= i32::MAX as u32;
    if good { Ok(count.into()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// The living object that a handle names.
fn named(state: &State, object: Ptr<CUuserObject_st>) -> Result<UserObject, CUresult> {
    let objects = &state.graphs.objects;
    let found = objects.find(object.address()).and_then(|id| objects.get(id));
    found.filter(|object| object.is_alive()).cloned().ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuUserObjectRetain(sim: &Sim, object: Ptr<CUuserObject_st>, count: u32) -> Answer {
    let count = check_count(count)?;
    named(&sim.lock(), object)?.retain(count);
    Ok(())
}

pub(crate) fn cuUserObjectRelease(sim: &Sim, object: Ptr<CUuserObject_st>, count: u32) -> Answer {
    let count = check_count(count)?;
    let object = named(&sim.lock(), object)?;
    object.release(count);
    Ok(())
}

pub(crate) fn cuGraphRetainUserObject(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    object: Ptr<CUuserObject_st>,
    count: u32,
    flags: u32,
) -> Answer {
    let count = check_count(count)?;
    if flags & !MOVE != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = sim.lock();
    let object = named(&state, object)?;
    let graph = state.graphs.find_graph(graph.raw())?;
    let graph = state.graphs.graph_mut(graph)?;
    let references = if flags == MOVE { object.adopt(count) } else { object.share(count) };
    graph.users.add(references);
    Ok(())
}

pub(crate) fn cuGraphReleaseUserObject(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    object: Ptr<CUuserObject_st>,
    count: u32,
) -> Answer {
    let count = check_count(count)?;
    let mut state = sim.lock();
    let object = named(&state, object)?;
    let graph = state.graphs.find_graph(graph.raw())?;
    let taken = state.graphs.graph_mut(graph)?.users.take(&object, count)?;
    drop(state);
    drop(taken);
    Ok(())
}
