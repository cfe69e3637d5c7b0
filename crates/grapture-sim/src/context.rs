//! Contexts, and what the driver knows of a thread.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use grapture_sys::{
    CU_CTX_COREDUMP_ENABLE, CU_CTX_LMEM_RESIZE_TO_MAX, CU_CTX_MAP_HOST, CU_CTX_SCHED_MASK,
    CU_CTX_SYNC_MEMOPS, CU_CTX_USER_COREDUMP_ENABLE, CU_FUNC_CACHE_PREFER_NONE,
    CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE, CUctx_st,
    CUfunc_cache, CUresult, CUstreamCaptureMode,
};

use crate::capture;
use crate::engine::TaskId;
use crate::fault::Fault;
use crate::graph::Removed;
use crate::handle::{Id, Kind, Object};
use crate::sim::State;
use crate::stream::{Stream, StreamKind};

/// The part of a context that work in flight needs.
#[derive(Debug)]
pub(crate) struct ContextCore {
    /// The context's own number.
    pub(crate) key: u64,
    /// The device's ordinal.
    pub(crate) device: usize,
    /// Shared by all contexts of the device.
    fault: Arc<OnceLock<Fault>>,
}

impl ContextCore {
    /// One on a device, with the fault of that device.
    pub(crate) fn new(key: u64, device: usize, fault: Arc<OnceLock<Fault>>) -> Arc<ContextCore> {
        Arc::new(ContextCore { key, device, fault })
    }

    /// What broke the contexts of the device.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// The code that a broken context answers every call with.
    pub(crate) fn check(&self) -> Result<(), CUresult> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.code))
    }

    /// Breaks the contexts of the device for good: the first fault stays.
    pub(crate) fn break_with(&self, fault: Fault) {
        // Only the first fault counts.
        let _ = self.fault.set(fault);
    }
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    /// What work in flight needs of it.
    pub(crate) core: Arc<ContextCore>,
    /// Whether it is the device's primary context.
    pub(crate) primary: bool,
    /// The scheduling and mapping flags.
    pub(crate) flags: u32,
    /// What was asked for the first cache.
    pub(crate) cache: CUfunc_cache,
    /// How often it was attached to beyond its making.
    pub(crate) attached: usize,
    /// The contexts whose memory it may reach.
    pub(crate) peers: HashSet<Id<Context>>,
    /// The limits that were set, by their number.
    pub(crate) limits: HashMap<u32, usize>,
    /// The legacy default stream.
    pub(crate) legacy: Option<Id<Stream>>,
    /// The per-thread default streams.
    pub(crate) per_thread: HashMap<ThreadId, Id<Stream>>,
    /// The last tasks of blocking streams that were destroyed with work in flight.
    pub(crate) orphans: Vec<TaskId>,
}

impl Object for Context {
    const KIND: Kind = Kind::Context;
    type Raw = CUctx_st;
}

/// What the driver knows of a thread.
#[derive(Debug)]
pub(crate) struct ThreadState {
    /// The stack of current contexts; some may be destroyed.
    pub(crate) stack: Vec<Id<Context>>,
    /// What `cuThreadExchangeStreamCaptureMode` last set. Not checked by the driver.
    pub(crate) capture_mode: CUstreamCaptureMode,
}

impl Default for ThreadState {
    fn default() -> Self {
        ThreadState { stack: Vec::new(), capture_mode: CU_STREAM_CAPTURE_MODE_GLOBAL }
    }
}

/// The flags that a context may be made with.
pub(crate) fn check_flags(flags: u32) -> Result<(), CUresult> {
    let known = CU_CTX_SCHED_MASK.0
        | CU_CTX_MAP_HOST.0
        | CU_CTX_LMEM_RESIZE_TO_MAX.0
        | CU_CTX_COREDUMP_ENABLE.0
        | CU_CTX_USER_COREDUMP_ENABLE.0
        | CU_CTX_SYNC_MEMOPS.0;
    let policy = flags & CU_CTX_SCHED_MASK.0;
    let one_policy = policy == 0 || policy.is_power_of_two();
    if flags & !known == 0 && one_policy { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// As [`check_flags`], for a primary context, which maps host memory anyway.
pub(crate) fn check_primary_flags(flags: u32) -> Result<(), CUresult> {
    if flags & CU_CTX_MAP_HOST.0 != 0 { Err(CUDA_ERROR_INVALID_VALUE) } else { check_flags(flags) }
}

/// The flags that a context tells, of those that it was asked to have: what a program asks for by
/// itself to see of a fault is told as the ordinary way to.
pub(crate) fn effective_flags(flags: u32) -> u32 {
    let user = CU_CTX_USER_COREDUMP_ENABLE.0;
    let dump = if flags & user == 0 { 0 } else { CU_CTX_COREDUMP_ENABLE.0 };
    flags & !user | dump | CU_CTX_LMEM_RESIZE_TO_MAX.0
}

/// The flags that a primary context tells: it always maps host memory.
pub(crate) fn primary_flags(flags: u32) -> u32 {
    effective_flags(flags) | CU_CTX_MAP_HOST.0
}

impl State {
    /// Makes a context.
    pub(crate) fn create_context(
        &mut self,
        device: usize,
        primary: bool,
        flags: u32,
    ) -> Result<Id<Context>, CUresult> {
        let key = self.fresh_id();
        let fault = &self.devices.get(device).ok_or(CUDA_ERROR_INVALID_DEVICE)?.fault;
        let core = ContextCore::new(key, device, fault.clone());
        core.check()?;
        let context = Context {
            core,
            primary,
            flags,
            cache: CU_FUNC_CACHE_PREFER_NONE,
            attached: 0,
            peers: HashSet::new(),
            limits: HashMap::new(),
            legacy: None,
            per_thread: HashMap::new(),
            orphans: Vec::new(),
        };
        Ok(self.contexts.insert(context))
    }

    /// The C handle of a context; null if it is gone.
    pub(crate) fn handle_of(&self, core: &ContextCore) -> *mut CUctx_st {
        let found = self.contexts.iter().find(|(_, context)| context.core.key == core.key);
        found.map_or(std::ptr::null_mut(), |(id, _)| id.raw())
    }

    /// The legacy default stream of a context.
    pub(crate) fn legacy_stream(&mut self, context: Id<Context>) -> Result<Id<Stream>, CUresult> {
        if let Some(stream) = self.context(context)?.legacy {
            return Ok(stream);
        }
        let stream = self.create_stream(context, StreamKind::Legacy, 0, 0)?;
        self.context_mut(context)?.legacy = Some(stream);
        Ok(stream)
    }

    /// The calling thread's default stream of a context.
    pub(crate) fn per_thread_stream(
        &mut self,
        context: Id<Context>,
    ) -> Result<Id<Stream>, CUresult> {
        let thread = std::thread::current().id();
        if let Some(stream) = self.context(context)?.per_thread.get(&thread) {
            return Ok(*stream);
        }
        let stream = self.create_stream(context, StreamKind::PerThread, 0, 0)?;
        self.context_mut(context)?.per_thread.insert(thread, stream);
        Ok(stream)
    }

    /// Takes a context and everything in it away. Its work must be done. What is left of captures
    /// is to be dropped when no lock is held.
    #[must_use = "to be dropped when no lock is held"]
    pub(crate) fn destroy_context(&mut self, id: Id<Context>) -> Vec<Arc<Removed>> {
        let mut leavings = Vec::new();
        let Some(context) = self.contexts.remove(id) else { return leavings };
        let streams: Vec<_> =
            self.streams.iter().filter(|(_, s)| s.context == id).map(first).collect();
        for stream in streams {
            leavings.extend(capture::stream_destroyed(self, stream));
            self.streams.remove(stream);
        }
        let events: Vec<_> =
            self.events.iter().filter(|(_, e)| e.context == id).map(first).collect();
        for event in events {
            self.events.remove(event);
        }
        let modules: Vec<_> =
            self.modules.iter().filter(|(_, m)| m.context == id).map(first).collect();
        for module in modules {
            self.remove_module(module);
        }
        drop(context);
        leavings
    }
}

fn first<A, B>((a, _): (A, B)) -> A {
    a
}
