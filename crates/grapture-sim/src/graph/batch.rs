//! Nodes of batched memory operations.

use std::fmt;
use std::sync::Arc;

use grapture_sys::{
    CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_64,
    CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_64, CUstreamBatchMemOpParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st as BarrierParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as WaitParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as WriteParams,
};

use super::params::Placed;
use crate::context::ContextCore;
use crate::work::MemOp;

/// The operations of a node, with the array of them that a program can ask back.
#[derive(Clone, Debug)]
pub(crate) struct BatchNode {
    /// The operations.
    pub(crate) batch: Placed<Arc<[MemOp]>>,
    /// As a program is told them; good as long as the node has these parameters.
    pub(crate) params: BatchParams,
}

/// Operations in their C form.
#[derive(Clone)]
pub(crate) struct BatchParams(Arc<[CUstreamBatchMemOpParams]>);

impl fmt::Debug for BatchParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations", self.0.len())
    }
}

impl BatchParams {
    /// Where they are.
    pub(crate) fn as_ptr(&self) -> *const CUstreamBatchMemOpParams {
        self.0.as_ptr()
    }
}

impl BatchNode {
    /// The node of a batch.
    pub(crate) fn new(context: Arc<ContextCore>, work: Arc<[MemOp]>) -> BatchNode {
        let params = BatchParams(work.iter().map(params_of).collect());
        BatchNode { batch: Placed { context, work }, params }
    }
}

/// An operation in its C form.
fn params_of(op: &MemOp) -> CUstreamBatchMemOpParams {
    let mut params = CUstreamBatchMemOpParams::default();
    match *op {
        MemOp::Wait { address, value, bytes, flags } => {
            let mut wait = WaitParams { address, flags, ..WaitParams::default() };
            wait.operation = match bytes {
                4 => CU_STREAM_MEM_OP_WAIT_VALUE_32,
                _ => CU_STREAM_MEM_OP_WAIT_VALUE_64,
            };
            wait.__bindgen_anon_1.value64 = value;
            params.waitValue = wait;
        }
        MemOp::Write { address, value, bytes, flags } => {
            let mut write = WriteParams { address, flags, ..WriteParams::default() };
            write.operation = match bytes {
                4 => CU_STREAM_MEM_OP_WRITE_VALUE_32,
                _ => CU_STREAM_MEM_OP_WRITE_VALUE_64,
            };
            write.__bindgen_anon_1.value64 = value;
            params.writeValue = write;
        }
        MemOp::Barrier { flags } => {
            params.memoryBarrier = BarrierParams { operation: CU_STREAM_MEM_OP_BARRIER, flags };
        }
    }
    params
}
