//! Host functions, callbacks, and waits for and writes of memory words in stream order.

use core::ffi::c_void;
use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::memory::{Allocation, AllocationKind};
use crate::sim::{Answer, Sim};
use crate::stream::{self, StreamKind};
use crate::work::{CallbackWork, HostWork, MemOp, Work};

/// The flags of a wait that say how to compare.
const COMPARE: u32 = 3;
/// The most operations in a batch.
pub(super) const MOST_OPS: u32 = 255;

pub(crate) fn cuLaunchHostFunc(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    function: CUhostFn,
    user_data: Ptr<c_void>,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    let function = function.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let work = HostWork { function, user_data: user_data.address() };
    stream::submit(sim, &mut state, id, Work::Host(work))
}

pub(crate) fn cuStreamAddCallback(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    callback: CUstreamCallback,
    user_data: Ptr<c_void>,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    let function = callback.filter(|_| flags == 0).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    capture::check_uncapturable(&mut state, id)?;
    let work = CallbackWork { function, stream: stream.address(), user_data: user_data.address() };
    stream::run_now(sim, &mut state, id, Work::Callback(work)).map(drop)
}

/// Says which stream uses managed memory. All memory is reachable from everywhere here, so only
/// the arguments are checked.
pub(crate) fn cuStreamAttachMemAsync(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    length: usize,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_stream_wait(&mut state, id)?;
    let whole =
        |found: &Allocation| found.start == address && (length == 0 || length == found.len());
    let managed = |found: &Allocation| found.kind == AllocationKind::Managed && whole(found);
    let found = sim.memory.find(address).is_some_and(|found| managed(&found));
    // The legacy stream is no single stream.
    let single = CUmemAttach_flags(flags) == CU_MEM_ATTACH_SINGLE;
    let legacy = state.stream(id)?.kind == StreamKind::Legacy;
    if !found || !matches!(flags, 1 | 2 | 4) || (single && legacy) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    stream::run_now(sim, &mut state, id, Work::Empty).map(drop)
}

/// A checked operation on a word.
fn wait_op(address: u64, value: u64, bytes: usize, flags: u32) -> Result<MemOp, CUresult> {
    check_alignment(address, bytes)?;
    if flags & CU_STREAM_WAIT_VALUE_FLUSH.0 != 0 {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    if flags & !COMPARE != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(MemOp::Wait { address, value, bytes, flags })
}

fn write_op(address: u64, value: u64, bytes: usize, flags: u32) -> Result<MemOp, CUresult> {
    check_alignment(address, bytes)?;
    // The device cannot leave the barrier out.
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(MemOp::Write { address, value, bytes, flags })
}

fn check_alignment(address: u64, bytes: usize) -> Answer {
    let good = address.is_multiple_of(bytes as u64);
    if good { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// Refuses words that are not there, or that move. Only what runs now is held against this.
fn check_memory(sim: &Sim, op: &MemOp) -> Answer {
    let Some((address, bytes)) = op.word() else { return Ok(()) };
    let found = sim.memory.find(address).filter(|found| found.covers(address, bytes));
    let good = found.is_some_and(|found| found.kind != AllocationKind::Managed);
    if good { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

fn submit(sim: &Sim, stream: Ptr<CUstream_st>, ops: Vec<MemOp>) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    if !capture::is_capturing(&state, id) {
        ops.iter().try_for_each(|op| check_memory(sim, op))?;
    }
    stream::submit(sim, &mut state, id, Work::MemOps(Arc::from(ops)))
}

pub(crate) fn cuStreamWaitValue32_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    let op = wait_op(address, value.into(), 4, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWriteValue32_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    let op = write_op(address, value.into(), 4, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWaitValue64_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    let op = wait_op(address, value, 8, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWriteValue64_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    let op = write_op(address, value, 8, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamBatchMemOp_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    count: u32,
    params: Ptr<CUstreamBatchMemOpParams>,
    flags: u32,
) -> Answer {
    if flags != 0 || count > MOST_OPS {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let ops = mem_ops(count, params)?;
    submit(sim, stream, ops)
}

/// The checked operations of a batch.
pub(crate) fn mem_ops(
    count: u32,
    params: Ptr<CUstreamBatchMemOpParams>,
) -> Result<Vec<MemOp>, CUresult> {
    (0..count as usize).map(|index| mem_op(params.at(index)?)).collect()
}

fn mem_op(params: Ptr<CUstreamBatchMemOpParams>) -> Result<MemOp, CUresult> {
    // All members of the union begin with the operation; waits and writes go on with an address,
    // a value of 8 bytes of which 4 may be used, and flags.
    type Word = CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;
    let word: Word = params.cast().read()?;
    let wide: u64 = params.cast::<u64>().at(2)?.read()?;
    let narrow = wide & u64::from(u32::MAX);
    match word.operation {
        CU_STREAM_MEM_OP_WAIT_VALUE_32 => wait_op(word.address, narrow, 4, word.flags),
        CU_STREAM_MEM_OP_WAIT_VALUE_64 => wait_op(word.address, wide, 8, word.flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_32 => write_op(word.address, narrow, 4, word.flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_64 => write_op(word.address, wide, 8, word.flags),
        CU_STREAM_MEM_OP_BARRIER => {
            let flags = params.cast::<u32>().at(1)?.read()?;
            if flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU.0 {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            Ok(MemOp::Barrier { flags })
        }
        CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => Err(CUDA_ERROR_NOT_SUPPORTED),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}
