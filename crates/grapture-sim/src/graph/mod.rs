//! Graphs: their definitions, what is instantiated from them, and how that runs.
//!
//! [`definition`] is the pure part: nodes, edges, order. [`store`] gives them handles and embeds
//! and copies graphs. [`executable`] is the snapshot that [`update`] changes; of it a [`plan`] is
//! made for each launch, whose steps [`launch`] turns into tasks of the engine.

mod batch;
mod conditional;
mod definition;
mod dot;
mod edge;
mod embed;
mod exec;
mod executable;
mod launch;
mod layout;
mod memory;
mod order;
mod params;
mod plan;
mod pool;
mod store;
mod update;
mod user_object;
mod work;

pub(crate) use batch::BatchNode;
pub(crate) use conditional::Branch;
pub(crate) use definition::{FullEdge, GraphDef, LocalId, Node};
pub(crate) use edge::{Edge, EdgeData};
pub(crate) use exec::InstantiateFlags;
pub(crate) use executable::{ExecGraph, InstantiateError};
pub(crate) use memory::{AccessList, Allocation, Request};
pub(crate) use params::{KernelNode, NodeParams, Placed};
pub(crate) use store::{ExecId, Graph, GraphId, Graphs, NodeRef, Removed};
pub(crate) use update::{UpdateError, Version as UpdateVersion};
pub(crate) use user_object::UserObject;
pub(crate) use work::GraphWork;
