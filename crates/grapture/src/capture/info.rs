//! What the driver says of a stream's capture.

use std::ptr;

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    CU_STREAM_CAPTURE_STATUS_NONE, CUgraph, CUgraphEdgeData, CUgraphNode, CUstreamCaptureStatus,
    Function,
};

use crate::error::CudaResult;
use crate::graph::{NodeId, NodeNames};
use crate::stream::Stream;

/// Whether a stream captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// The stream does not capture.
    None,
    /// The stream captures.
    Active,
    /// The stream's capture was invalidated, and must be ended.
    Invalidated,
    /// A status that this version of the library does not know.
    Other(u32),
}

impl From<CUstreamCaptureStatus> for CaptureStatus {
    fn from(raw: CUstreamCaptureStatus) -> CaptureStatus {
        match raw {
            CU_STREAM_CAPTURE_STATUS_NONE => CaptureStatus::None,
            CU_STREAM_CAPTURE_STATUS_ACTIVE => CaptureStatus::Active,
            CU_STREAM_CAPTURE_STATUS_INVALIDATED => CaptureStatus::Invalidated,
            other => CaptureStatus::Other(other.0),
        }
    }
}

/// What the driver says of a stream's capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    status: CaptureStatus,
    id: Option<u64>,
    dependencies: Option<Vec<NodeId>>,
}

impl CaptureInfo {
    /// Whether the stream captures.
    pub fn status(&self) -> CaptureStatus {
        self.status
    }

    /// The capture's number, unique in the process; the streams of one capture share it. None if
    /// the stream does not capture actively.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The nodes that the next operation on the stream will depend on. None if the stream does not
    /// capture actively, if other hands than this thread's and this library's began the capture, or
    /// if the driver is older than 11.3 and cannot tell.
    pub fn dependencies(&self) -> Option<&[NodeId]> {
        self.dependencies.as_deref()
    }
}

impl Stream {
    /// What the driver says of the stream's capture, also of one that other hands began.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for the legacy stream while a blocking stream of the
    /// context captures. [`NotSupported`](crate::CudaError::NotSupported):
    /// the driver is older than 10.1.
    #[doc(alias = "cuStreamGetCaptureInfo")]
    pub fn capture_info(&self) -> CudaResult<CaptureInfo> {
        self.with_gate(|gate| {
            // With the gate's lock held no other capture begins on the stream, and in the pause
            // nothing is submitted to this one.
            gate.look(|log| match log {
                Some(log) => log
                    .paused(|names| self.read_capture_info(Some(names)))
                    .unwrap_or_else(|| self.read_capture_info(None)),
                None => self.read_capture_info(None),
            })
        })
    }

    /// With names: the capture is this library's, and nothing is submitted to it meanwhile.
    fn read_capture_info(&self, names: Option<&NodeNames>) -> CudaResult<CaptureInfo> {
        let whole = names.and_then(|names| Some((names, self.raw_capture_info()?)));
        match whole {
            Some((names, raw)) => Ok(raw?.into_info(Some(names))),
            None => {
                let (status, id) = self.capture_id()?;
                Ok(RawInfo { status, id, ..RawInfo::default() }.into_info(None))
            }
        }
    }

    /// All that the driver says of the stream's capture; none from a driver before 11.3.
    pub(super) fn raw_capture_info(&self) -> Option<CudaResult<RawInfo>> {
        let mut raw = RawInfo::default();
        let driver = self.driver();
        let told = if driver.has(Function::cuStreamGetCaptureInfo_v3) {
            self.with(|functions, stream| {
                // SAFETY: a live stream, and every out-pointer is a live field.
                unsafe {
                    (functions.cuStreamGetCaptureInfo_v3)(
                        stream,
                        &mut raw.status,
                        &mut raw.id,
                        &mut raw.graph,
                        &mut raw.dependencies,
                        &mut raw.edges,
                        &mut raw.count,
                    )
                }
            })
        } else if driver.has(Function::cuStreamGetCaptureInfo_v2) {
            self.with(|functions, stream| {
                // SAFETY: a live stream, and every out-pointer is a live field.
                unsafe {
                    (functions.cuStreamGetCaptureInfo_v2)(
                        stream,
                        &mut raw.status,
                        &mut raw.id,
                        &mut raw.graph,
                        &mut raw.dependencies,
                        &mut raw.count,
                    )
                }
            })
        } else {
            return None;
        };
        Some(told.map(|()| raw))
    }

    /// The status and the number of the stream's capture, by the cheapest call that tells.
    pub(crate) fn capture_id(&self) -> CudaResult<(CUstreamCaptureStatus, u64)> {
        let (mut status, mut id) = (CU_STREAM_CAPTURE_STATUS_NONE, 0);
        self.with(|functions, stream| {
            // SAFETY: a live stream, and both out-pointers are live locals.
            unsafe { (functions.cuStreamGetCaptureInfo)(stream, &mut status, &mut id) }
        })?;
        Ok((status, id))
    }
}

/// What the driver says of a stream's capture. The handles and arrays are valid until the next call
/// on the capture.
pub(super) struct RawInfo {
    pub(super) status: CUstreamCaptureStatus,
    id: u64,
    pub(super) graph: CUgraph,
    pub(super) dependencies: *const CUgraphNode,
    /// Null from a driver before 12.3: all of them are full ones.
    pub(super) edges: *const CUgraphEdgeData,
    pub(super) count: usize,
}

impl Default for RawInfo {
    fn default() -> RawInfo {
        RawInfo {
            status: CU_STREAM_CAPTURE_STATUS_NONE,
            id: 0,
            graph: ptr::null_mut(),
            dependencies: ptr::null(),
            edges: ptr::null(),
            count: 0,
        }
    }
}

impl RawInfo {
    /// The nodes that what is recorded next waits for.
    ///
    /// # Safety
    ///
    /// There was no call on the capture since this was told, and there is none meanwhile.
    pub(super) unsafe fn nodes(&self) -> &[CUgraphNode] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: NVIDIA: the array has `count` entries and stays valid until the next call on the
        // stream; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.dependencies, self.count) }
    }

    fn into_info(self, names: Option<&NodeNames>) -> CaptureInfo {
        let active = self.status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
        let dependencies = names.filter(|_| active).map(|names| {
            // SAFETY: with names, this thread began the capture and makes no other call, and the
            // lock of its log keeps the others out.
            let nodes = unsafe { self.nodes() };
            nodes.iter().map(|node| names.id(*node)).collect()
        });
        CaptureInfo { status: self.status.into(), id: active.then_some(self.id), dependencies }
    }
}
