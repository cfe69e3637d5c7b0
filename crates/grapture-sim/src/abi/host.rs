//! Host functions, callbacks, and waits for and writes of memory words in stream order.

use core::ffi::c_void;
use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::memory::AllocationKind;
use crate::sim::{Answer, Sim};
use crate::stream;
use crate::work::{CallbackWork, HostWork, MemOp, Work};

/// The flags of a wait that say how to compare.
const COMPARE: u32 = 3;
/// The flags of a write.
const WRITE_FLAGS: u32 = 1;
/// The most operations in a batch.
const MOST_OPS: u32 = 256;

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
    _length: usize,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(&mut state, id)?;
    let managed = sim.memory.find(address).is_some_and(|a| a.kind == AllocationKind::Managed);
    if !managed || !matches!(flags, 1 | 2 | 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    stream::run_now(sim, &mut state, id, Work::Empty).map(drop)
}

/// A checked operation on a word.
fn wait_op(
    sim: &Sim,
    address: u64,
    value: u64,
    bytes: usize,
    flags: u32,
) -> Result<MemOp, CUresult> {
    check_word(sim, address, bytes)?;
    if flags & CU_STREAM_WAIT_VALUE_FLUSH.0 != 0 {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    if flags & !COMPARE != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(MemOp::Wait { address, value, bytes, flags })
}

fn write_op(
    sim: &Sim,
    address: u64,
    value: u64,
    bytes: usize,
    flags: u32,
) -> Result<MemOp, CUresult> {
    check_word(sim, address, bytes)?;
    if flags & !WRITE_FLAGS != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(MemOp::Write { address, value, bytes, flags })
}

fn check_word(sim: &Sim, address: u64, bytes: usize) -> Answer {
    let good = address.is_multiple_of(bytes as u64) && sim.memory.covers(address, bytes);
    if good { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

fn submit(sim: &Sim, stream: Ptr<CUstream_st>, ops: Vec<MemOp>) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    stream::submit(sim, &mut state, id, Work::MemOps(Arc::from(ops)))
}

pub(crate) fn cuStreamWaitValue32_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    let op = wait_op(sim, address, value.into(), 4, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWriteValue32_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    let op = write_op(sim, address, value.into(), 4, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWaitValue64_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    let op = wait_op(sim, address, value, 8, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamWriteValue64_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    let op = write_op(sim, address, value, 8, flags)?;
    submit(sim, stream, vec![op])
}

pub(crate) fn cuStreamBatchMemOp_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    count: u32,
    params: Ptr<CUstreamBatchMemOpParams>,
    flags: u32,
) -> Answer {
    if flags != 0 || count == 0 || count > MOST_OPS {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let ops = mem_ops(sim, count, params)?;
    submit(sim, stream, ops)
}

/// The checked operations of a batch.
pub(crate) fn mem_ops(
    sim: &Sim,
    count: u32,
    params: Ptr<CUstreamBatchMemOpParams>,
) -> Result<Vec<MemOp>, CUresult> {
    (0..count as usize).map(|index| mem_op(sim, params.at(index)?)).collect()
}

fn mem_op(sim: &Sim, params: Ptr<CUstreamBatchMemOpParams>) -> Result<MemOp, CUresult> {
    // All members of the union begin with the operation; waits and writes go on with an address,
    // a value of 8 bytes of which 4 may be used, and flags.
    type Word = CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;
    let word: Word = params.cast().read()?;
    let wide: u64 = params.cast::<u64>().at(2)?.read()?;
    let narrow = wide & u64::from(u32::MAX);
    match word.operation {
        CU_STREAM_MEM_OP_WAIT_VALUE_32 => wait_op(sim, word.address, narrow, 4, word.flags),
        CU_STREAM_MEM_OP_WAIT_VALUE_64 => wait_op(sim, word.address, wide, 8, word.flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_32 => write_op(sim, word.address, narrow, 4, word.flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_64 => write_op(sim, word.address, wide, 8, word.flags),
        CU_STREAM_MEM_OP_BARRIER => {
            let flags = params.cast::<u32>().at(1)?.read()?;
            Ok(MemOp::Barrier { flags })
        }
        _ => Err(CUDA_ERROR_NOT_SUPPORTED),
    }
}
