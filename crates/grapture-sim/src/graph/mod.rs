//! Graphs.

use std::sync::Arc;

use crate::context::ContextCore;
use crate::fault::Fault;
use crate::live::LiveObjects;
use crate::sim::Sim;
use crate::work::Next;

/// The graphs of a simulation, their nodes and executables, and the user objects.
pub(crate) struct Graphs {}

impl Graphs {
    /// None.
    pub(crate) fn new(_simulation: u8) -> Graphs {
        Graphs {}
    }

    /// Adds what is alive to the count.
    pub(crate) fn count(&self, _live: &mut LiveObjects) {}
}

/// What graphs run beyond the operations of streams.
#[derive(Clone, Debug)]
pub(crate) enum GraphWork {}

impl GraphWork {
    /// Does it.
    pub(crate) fn run(&self, _sim: &Arc<Sim>, _context: &Arc<ContextCore>) -> Result<Next, Fault> {
        match *self {}
    }
}
