//! Record live CUDA streams into graphs and replay them: soundly, and at the driver's own speed.
//!
//! ```text
//! Stream ── begin ──▶ StreamGraphCapture ── end_graph ──▶ Graph ── instantiate ──▶ GraphExec
//!    ▲                       └────────────── end ─────────────────────────────────▲    │
//!    └───────────────────────────────── launch ────────────────────────────────────────┘
//! ```
//!
//! The driver is loaded at run time: nothing here needs a toolkit to build, or a GPU to be tested
//! (see the crate `grapture-sim`).

mod capture;
mod context;
mod context_lost;
mod context_peers;
mod device;
mod dim3;
mod driver;
mod drop_error;
mod error;
mod event;
mod features;
mod graph;
mod host_function;
mod kernel;
mod launch;
mod memory;
mod module;
mod operation;
mod pinned;
mod raw_event;
mod reclaim;
mod recorder;
mod retain;
mod slot;
mod stream;
mod sync;
mod tell;
mod topology;

pub use grapture_sys as sys;
pub use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_STATUS_ACTIVE,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_NONE, CUstreamCaptureMode,
    CUstreamCaptureStatus, LoadError,
};

pub use capture::{
    Attempt, BarredCall, CaptureError, CaptureInfo, CaptureMode, CaptureOptions, CaptureOutcome,
    CaptureStatus, EscapePolicy, Escapes, FailedOperation, Fork, JoinPolicy, LoggedOperation,
    Segment, SegmentCapture, SegmentError, Segments, StreamGraphCapture, ThreadCaptureMode,
};
pub use context::{Context, CurrentContext};
pub use context_lost::{ContextLost, LAUNCH_HISTORY_VARIABLE};
pub use device::{Device, DeviceAttribute, MemoryInfo, PeerAttribute, Uuid};
pub use dim3::Dim3;
pub use driver::{DRIVER_VARIABLE, Driver, DriverVersion};
pub use drop_error::{DropErrorHook, set_drop_error_hook};
pub use error::{CudaError, CudaResult, Refusal};
pub use event::{Event, EventOptions};
pub use features::Feature;
pub use graph::{
    BatchNode, Bindings, Buckets, CacheCounters, CacheLimits, CachedExec, Condition, CopyEnd,
    CopyNode, Decides, Edge, EdgeData, EdgePort, ExecNode, FillNode, Graph, GraphBody, GraphBuffer,
    GraphCache, GraphExec, InstantiateError, InstantiateFlags, InstantiateOptions,
    InstantiateResult, MemoryOperation, Node, NodeId, NodeKind, NodeMut, NodeParams, NodeProfile,
    NodeRef, Outcome, Profile, SlotPatch, Timing, UpdateError, UpdateOptions, UpdateReason,
    WaitFor, Word, WordCondition,
};
pub use kernel::{BlockSize, Kernel, KernelAttributes};
pub use launch::{KernelAttribute, LaunchBuilder, MemorySyncDomain};
pub use memory::{
    BufferSlot, BufferSlotMut, DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceView,
    DeviceViewMut, GraphOutput, GraphPool, MemoryPool, PoolUsage, Region2d, Scratch, Temporary,
};
pub use module::{JitError, JitOptions, Module};
pub use operation::{OperationKind, OperationSite};
pub use pinned::{PinnedBuffer, PinnedRead, PinnedWrite};
pub use recorder::StreamCapture;
pub use retain::{HeldMemory, Retained, RetainedKind};
pub use slot::{Slot, SlotValue};
pub use stream::{Stream, StreamOptions};
pub use topology::{
    ConditionalForm, CopyDirection, NodeParameter, OperationSpec, SourceLine, Topology,
    TopologyChange, TopologyDiff, TopologyEdge, TopologyNode,
};

// The examples of the page are compiled as those of the code are.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/graphs.md")]
mod graphs_page {}
