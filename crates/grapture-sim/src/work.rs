//! [`Work`]: what a task does. Streams submit it, graph nodes hold it.

mod conditional;
mod copy;
mod fill;
mod host;
mod kernel;
mod memop;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub(crate) use conditional::ConditionalWords;
pub(crate) use copy::{CopyWork, Origin, Place};
pub(crate) use fill::FillWork;
pub(crate) use host::{CallbackWork, HostWork, call_program, in_host_function};
pub(crate) use kernel::{KernelWork, LaunchAttributes, Tuning};
pub(crate) use memop::MemOp;

use crate::context::ContextCore;
use crate::engine::TaskId;
use crate::event::Stamp;
use crate::fault::Fault;
use crate::graph::Allocation as GraphAllocation;
use crate::memory::accesses::{AccessKind, Accesses};
use crate::sim::Sim;

/// What comes after a run of some work. Nodes that choose what runs (conditionals) are built on
/// the last two.
#[derive(Debug)]
pub(crate) enum Next {
    /// The task is done.
    Done,
    /// The task is done when these are.
    After(Vec<TaskId>),
    /// The same work runs once more when these are done.
    Again(Vec<TaskId>),
}

/// An operation, ready to run: its arguments were checked.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Nothing: a join of dependencies.
    Empty,
    /// A kernel launch.
    Kernel(KernelWork),
    /// A copy of up to three dimensions between any two places.
    Copy(CopyWork),
    /// A fill of one or two dimensions.
    Fill(FillWork),
    /// A host function.
    Host(HostWork),
    /// A stream callback.
    Callback(CallbackWork),
    /// Waits and writes of memory words, in order.
    MemOps(Arc<[MemOp]>),
    /// Notes when it ran, for an event.
    Record(Arc<Stamp>),
    /// The stream-ordered end of an allocation, by its address.
    Free(u64),
    /// The same for what a graph allocates, unless a later launch has it live again by then: there
    /// is memory at the address from that launch on.
    End(Arc<GraphAllocation>),
    /// Nothing, but keeps something alive until it is done.
    Hold(#[allow(dead_code, reason = "kept for its drop")] Keep),
    /// What a graph needs beyond the rest.
    Graph(crate::graph::GraphWork),
}

/// Something that [`Work::Hold`] keeps.
#[derive(Clone)]
pub(crate) struct Keep(
    #[allow(dead_code, reason = "kept for its drop")] Arc<dyn Any + Send + Sync>,
);

impl Keep {
    /// Keeps a value.
    pub(crate) fn new(value: Arc<dyn Any + Send + Sync>) -> Keep {
        Keep(value)
    }
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keep")
    }
}

impl Work {
    /// Does it, and notes which memory it accesses where that is asked. No lock is held.
    pub(crate) fn run(
        &self,
        sim: &Arc<Sim>,
        context: &Arc<ContextCore>,
        accesses: Option<&mut Accesses>,
    ) -> Result<Next, Fault> {
        match self {
            Work::Empty | Work::Hold(_) => Ok(Next::Done),
            Work::Kernel(kernel) => kernel.run(sim, accesses).map(|()| Next::Done),
            Work::Copy(copy) => copy.run(sim, accesses).map(|()| Next::Done),
            Work::Fill(fill) => fill.run(sim, accesses).map(|()| Next::Done),
            Work::Host(host) => host.run().map(|()| Next::Done),
            Work::Callback(callback) => callback.run(context).map(|()| Next::Done),
            Work::MemOps(ops) => memop::run(ops, sim, context, accesses).map(|()| Next::Done),
            Work::Record(stamp) => {
                stamp.set_now();
                Ok(Next::Done)
            }
            Work::Free(address) => {
                let freed = sim.memory.free(*address);
                if let (Some(accesses), Some(freed)) = (accesses, freed) {
                    accesses.add(AccessKind::Write, 0, freed.start, freed.len() as u64);
                }
                Ok(Next::Done)
            }
            Work::End(allocation) => {
                let (start, len) = (allocation.address, allocation.bytes);
                sim.memory.free_unless(start, || allocation.is_live());
                if let Some(accesses) = accesses {
                    accesses.add(AccessKind::Write, 0, start, len as u64);
                }
                Ok(Next::Done)
            }
            Work::Graph(graph) => graph.run(sim),
        }
    }

    /// What it is called where a person reads of it.
    pub(crate) fn name(&self) -> String {
        match self {
            Work::Kernel(kernel) => format!("kernel '{}'", kernel.name()),
            Work::Copy(_) => "a copy".into(),
            Work::Fill(_) => "a fill".into(),
            Work::Free(_) | Work::End(_) => "a free".into(),
            Work::MemOps(_) => "a memory operation".into(),
            Work::Host(_) | Work::Callback(_) => "a host function".into(),
            Work::Record(_) => "an event record".into(),
            Work::Empty | Work::Hold(_) | Work::Graph(_) => "an empty operation".into(),
        }
    }

    /// Whether it calls a function of the program, which then knows what is done.
    pub(crate) fn calls_program(&self) -> bool {
        matches!(self, Work::Host(_) | Work::Callback(_))
    }

    /// Whether it may wait for something that other tasks or the program do, so that it must not
    /// count as a thread at work.
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Work::Host(_) | Work::Callback(_) | Work::MemOps(_))
    }

    /// Whether it is done even in a broken context: it only tidies up, or tells of the breaking.
    pub(crate) fn runs_after_fault(&self) -> bool {
        use Work::{Callback, Empty, End, Free, Hold};
        matches!(self, Empty | Hold(_) | Free(_) | End(_) | Callback(_))
    }
}
