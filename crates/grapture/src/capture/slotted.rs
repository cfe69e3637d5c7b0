//! Operations with slots in a capture.

use std::sync::Arc;

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUgraphNode, CUresult,
    CUstream, Function, Functions,
};

use crate::capture::child::invalidate;
use crate::error::{CudaError, CudaResult};
use crate::operation::Operation;
use crate::retain::Owners;
use crate::slot::SlotNode;
use crate::stream::Stream;

impl Stream {
    /// Has the stream's capture record an operation with slots, and note the node that it became.
    /// None, and no call, if no capture records the stream.
    ///
    /// The node is what the stream's next operation waits for. It is asked for with the other
    /// threads kept out, so that none of them submits in between.
    #[cold]
    pub(crate) fn submit_slotted(
        &self,
        operation: Operation,
        node: &Arc<SlotNode>,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce(&Functions, CUstream) -> CUresult,
    ) -> Option<CudaResult<()>> {
        let log = self.capture_log()?;
        let names = log.names()?;
        if !self.driver().has(Function::cuStreamGetCaptureInfo_v2) {
            return Some(Err(CudaError::NotSupported));
        }
        let recorded = log.record_alone(
            self,
            operation,
            |owners| {
                retain(owners);
                owners.retain_slots(node);
            },
            || {
                self.with(call)?;
                // It cannot be taken out of the capture again, and would not follow its slots.
                let raw = self.last_captured().inspect_err(|_| invalidate(self))?;
                node.name(names.id(raw));
                Ok(())
            },
        );
        Some(recorded.unwrap_or_else(|| Err(log.elsewhere())))
    }

    /// The one node that the stream's next operation waits for, while nobody else submits to its
    /// capture.
    fn last_captured(&self) -> CudaResult<CUgraphNode> {
        let info = self.raw_capture_info().unwrap_or(Err(CudaError::NotSupported))?;
        // SAFETY: this thread, which began the capture, has made no call on it since, and keeps the
        // others out.
        match unsafe { info.nodes() } {
            [node] if info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(*node),
            _ => Err(CudaError::from(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)),
        }
    }
}
