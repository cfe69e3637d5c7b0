//! Streams: a stream is a pointer to its last task.
//!
//! Every asynchronous API function checks its arguments, builds a [`Work`] and calls [`submit`],
//! which is where a capture takes the work instead.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE, CUresult, CUstream_st};

use crate::capture::{self, Taken};
use crate::context::{Context, ContextCore};
use crate::engine::TaskId;
use crate::handle::{Id, Kind, Object};
use crate::sim::{Answer, Sim, State};
use crate::work::{Tuning, Work};

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Made by the program; ordered with the legacy stream.
    Blocking,
    /// Made by the program; not ordered with the legacy stream.
    NonBlocking,
    /// The context's default stream.
    Legacy,
    /// A thread's default stream: ordered with the legacy stream.
    PerThread,
}

impl StreamKind {
    /// Whether the legacy stream waits for it, and it for the legacy stream.
    pub(crate) fn is_blocking(self) -> bool {
        matches!(self, StreamKind::Blocking | StreamKind::PerThread)
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its context.
    pub(crate) context: Id<Context>,
    /// What it is for.
    pub(crate) kind: StreamKind,
    /// Its flags as given.
    pub(crate) flags: u32,
    /// Its priority, within the range.
    pub(crate) priority: i32,
    /// Its own number.
    pub(crate) id: u64,
    /// The task that its next one waits for.
    pub(crate) last: Option<TaskId>,
    /// How threads wait for it (`CUsynchronizationPolicy`), as set.
    pub(crate) sync_policy: u32,
    /// What its attributes say that only tunes kernels.
    pub(crate) tuning: Tuning,
}

impl Object for Stream {
    const KIND: Kind = Kind::Stream;
    type Raw = CUstream_st;
}

/// The handle of the legacy default stream, besides null.
const LEGACY: usize = 1;
/// The handle of the calling thread's default stream.
const PER_THREAD: usize = 2;

impl State {
    /// Makes a stream.
    pub(crate) fn create_stream(
        &mut self,
        context: Id<Context>,
        kind: StreamKind,
        flags: u32,
        priority: i32,
    ) -> Result<Id<Stream>, CUresult> {
        self.context(context)?;
        let id = self.fresh_id();
        let stream = Stream {
            context,
            kind,
            flags,
            priority,
            id,
            last: None,
            sync_policy: u32::MAX,
            tuning: Tuning::default(),
        };
        Ok(self.streams.insert(stream))
    }

    /// The stream that a C handle names; the special ones are those of the current context.
    pub(crate) fn find_stream(&mut self, handle: usize) -> Result<Id<Stream>, CUresult> {
        let id = match handle {
            0 if crate::slots::null_is_per_thread() => {
                let context = self.current()?;
                self.per_thread_stream(context)?
            }
            0 | LEGACY => {
                let context = self.current()?;
                self.legacy_stream(context)?
            }
            PER_THREAD => {
                let context = self.current()?;
                self.per_thread_stream(context)?
            }
            other => self.streams.find(other).ok_or(CUDA_ERROR_INVALID_HANDLE)?,
        };
        let context = self.stream(id)?.context;
        self.context(context)?;
        Ok(id)
    }

    /// The core of a stream's context.
    pub(crate) fn core_of(&self, stream: Id<Stream>) -> Result<Arc<ContextCore>, CUresult> {
        let context = self.stream(stream)?.context;
        Ok(self.context(context)?.core.clone())
    }

    /// The tasks that new work on a stream waits for: the stream's last one, and by the rule of
    /// the legacy stream those of others.
    pub(crate) fn predecessors(&self, stream: Id<Stream>) -> Result<Vec<TaskId>, CUresult> {
        let this = self.stream(stream)?;
        let context = self.contexts.get(this.context).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        let mut tasks: Vec<TaskId> = this.last.into_iter().collect();
        if this.kind == StreamKind::Legacy {
            let blocking = self
                .streams
                .iter()
                .filter(|(_, other)| other.context == this.context && other.kind.is_blocking());
            tasks.extend(blocking.filter_map(|(_, other)| other.last));
            tasks.extend(&context.orphans);
        } else if this.kind.is_blocking()
            && let Some(legacy) = context.legacy
        {
            tasks.extend(self.streams.get(legacy).and_then(|legacy| legacy.last));
        }
        Ok(tasks)
    }
}

/// Puts work on a stream: as a task, or, while the stream captures, as a node of its graph.
pub(crate) fn submit(sim: &Sim, state: &mut State, stream: Id<Stream>, work: Work) -> Answer {
    match capture::record(sim, state, stream, work)? {
        Taken::Node => Ok(()),
        Taken::Not(work) => run_now(sim, state, stream, work).map(drop),
    }
}

/// Puts work on a stream as a task, whether the stream captures or not.
pub(crate) fn run_now(
    sim: &Sim,
    state: &mut State,
    stream: Id<Stream>,
    work: Work,
) -> Result<TaskId, CUresult> {
    let core = state.core_of(stream)?;
    let deps = state.predecessors(stream)?;
    let task = sim.engine.submit(deps, &core, work);
    replace_last(state, stream, task)?;
    Ok(task)
}

/// Makes a task the one that comes next on a stream waits for. It must wait for what the stream
/// waited for.
pub(crate) fn replace_last(state: &mut State, stream: Id<Stream>, task: TaskId) -> Answer {
    let this = state.stream_mut(stream)?;
    this.last = Some(task);
    if this.kind == StreamKind::Legacy {
        // The legacy stream now waits for them, and what comes waits for it.
        let context = this.context;
        state.context_mut(context)?.orphans.clear();
    }
    Ok(())
}

/// Makes what comes next on a stream wait for a task too.
pub(crate) fn wait_for(sim: &Sim, state: &mut State, stream: Id<Stream>, task: TaskId) -> Answer {
    let core = state.core_of(stream)?;
    let mut deps = state.predecessors(stream)?;
    deps.push(task);
    let joined = sim.engine.submit(deps, &core, Work::Empty);
    state.stream_mut(stream)?.last = Some(joined);
    Ok(())
}
