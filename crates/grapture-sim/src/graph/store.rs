//! [`Graphs`]: every graph, node, executable and user object of a simulation, by its handle.
//!
//! A graph knows its nodes by number ([`LocalId`]); a handle of a node leads to the graph and the
//! number. Graphs embedded in child graph nodes are graphs like others, owned by their node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUgraph_st,
    CUgraphNode_st, CUresult,
};

use super::conditional::Conditional;
use super::definition::{FullEdge, GraphDef, LocalId};
use super::edge::{Edge, EdgeData};
use super::exec::Exec;
use super::layout::Layout;
use super::memory::Allocation;
use super::params::NodeParams;
use super::pool::GraphPool;
use super::user_object::{UserObject, UserRefs};
use crate::handle::{Id, Kind, Object, Registry};
use crate::live::LiveObjects;

/// The identity of a graph.
pub(crate) type GraphId = Id<Graph>;
/// The identity of a node.
pub(crate) type NodeId = Id<NodeRef>;
/// The identity of an executable.
pub(crate) type ExecId = Id<Exec>;

/// A graph with what surrounds its definition.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Its nodes and edges.
    pub(crate) def: GraphDef,
    /// The references to user objects that it holds.
    pub(crate) users: UserRefs,
    /// Where its allocations lie.
    pub(super) layout: Layout,
    /// The conditional handles that were made for it.
    pub(super) conditionals: Vec<Conditional>,
    /// Its number, as the DOT text shows it.
    pub(crate) number: u32,
    /// The node that owns it.
    pub(crate) embedded_in: Option<NodeId>,
    /// Whether a capture fills it at present.
    pub(crate) captured: bool,
    /// How many executables were made from it and are alive.
    pub(crate) execs: u32,
    /// How many of them there cannot be another one of beside.
    pub(crate) single_execs: u32,
    /// Whether a node that allocates or frees was added to it, or was to be added.
    pub(crate) memory: bool,
    /// Whether a copy was ever made of it.
    pub(crate) copied: bool,
    /// The handles of its nodes.
    pub(super) handles: BTreeMap<LocalId, NodeId>,
    /// The graph that it is a copy of, and the first number that was not copied.
    pub(super) copy_of: Option<(GraphId, LocalId)>,
}

impl Object for Graph {
    const KIND: Kind = Kind::Graph;
    type Raw = CUgraph_st;
}

impl Graph {
    /// The handle of a node.
    pub(crate) fn handle(&self, node: LocalId) -> *mut CUgraphNode_st {
        self.handles.get(&node).map_or(std::ptr::null_mut(), |id| id.raw())
    }
}

/// What the handle of a node leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef {
    /// The graph that it is in.
    pub(crate) graph: GraphId,
    /// Its number there.
    pub(crate) local: LocalId,
}

impl Object for NodeRef {
    const KIND: Kind = Kind::Node;
    type Raw = CUgraphNode_st;
}

/// Graphs that were taken out. They may hold the last references to user objects, so they are
/// dropped when no lock is held.
#[derive(Debug, Default)]
#[must_use = "to be dropped when no lock is held"]
pub(crate) struct Removed {
    graphs: Vec<Graph>,
    params: Vec<NodeParams>,
}

/// All that has to do with graphs.
pub(crate) struct Graphs {
    graphs: Registry<Graph>,
    nodes: Registry<NodeRef>,
    /// Executables.
    pub(crate) execs: Registry<Exec>,
    /// User objects, until they are looked for after their destruction.
    pub(crate) objects: Registry<UserObject>,
    /// The allocations of allocation nodes, by their address.
    pub(super) allocations: HashMap<u64, Arc<Allocation>>,
    /// The memory that graphs take, by device.
    pub(super) pools: HashMap<usize, GraphPool>,
    numbers: u32,
}

impl Drop for Graphs {
    /// What a program leaves behind is never destroyed: as with a real driver, whose end runs no
    /// destructor, since what a destructor works on may be gone by then.
    fn drop(&mut self) {
        for (_, graph) in self.graphs.iter_mut() {
            std::mem::forget(std::mem::take(&mut graph.users));
        }
        for (_, exec) in self.execs.iter() {
            std::mem::forget(exec.graph.clone());
        }
    }
}

impl Graphs {
    /// None, with handles that carry the number of the simulation.
    pub(crate) fn new(simulation: u8) -> Graphs {
        Graphs {
            graphs: Registry::new(simulation),
            nodes: Registry::new(simulation),
            execs: Registry::new(simulation),
            objects: Registry::new(simulation),
            allocations: HashMap::new(),
            pools: HashMap::new(),
            numbers: 0,
        }
    }

    /// Adds what is alive to the count.
    pub(crate) fn count(&self, live: &mut LiveObjects) {
        live.graphs += self.graphs.iter().filter(|(_, g)| g.embedded_in.is_none()).count();
        live.execs += self.execs.len();
        live.user_objects += self.objects.iter().filter(|(_, object)| object.is_alive()).count();
    }

    /// All graphs, those inside others too.
    pub(crate) fn all(&self) -> &Registry<Graph> {
        &self.graphs
    }

    /// The next number of a graph or an executable.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Gives a user object a handle, and forgets those that were destroyed.
    pub(crate) fn add_object(&mut self, object: UserObject) -> Id<UserObject> {
        let dead: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| !object.is_alive())
            .map(|(id, _)| id)
            .collect();
        for id in dead {
            self.objects.remove(id);
        }
        self.objects.insert(object)
    }

    /// A new empty graph.
    pub(crate) fn create(&mut self) -> GraphId {
        let number = self.next_number();
        self.graphs.insert(Graph {
            def: GraphDef::default(),
            users: UserRefs::default(),
            layout: Layout::default(),
            conditionals: Vec::new(),
            number,
            embedded_in: None,
            captured: false,
            execs: 0,
            single_execs: 0,
            memory: false,
            copied: false,
            handles: BTreeMap::new(),
            copy_of: None,
        })
    }

    /// A graph.
    pub(crate) fn graph(&self, id: GraphId) -> Result<&Graph, CUresult> {
        self.graphs.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// As [`graph`](Graphs::graph), to change it.
    pub(crate) fn graph_mut(&mut self, id: GraphId) -> Result<&mut Graph, CUresult> {
        self.graphs.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The graph that a C handle names.
    pub(crate) fn find_graph(&self, handle: *mut CUgraph_st) -> Result<GraphId, CUresult> {
        self.graphs.find(handle.addr()).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// Where the node is that a C handle names.
    pub(crate) fn find_node(&self, handle: *mut CUgraphNode_st) -> Result<NodeRef, CUresult> {
        let id = self.nodes.find(handle.addr()).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        self.nodes.get(id).copied().ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The number of the node that a C handle names, if it is in this graph.
    pub(crate) fn local(
        &self,
        graph: GraphId,
        handle: *mut CUgraphNode_st,
    ) -> Result<LocalId, CUresult> {
        let node = self.find_node(handle)?;
        if node.graph == graph { Ok(node.local) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }

    /// The node that owns a graph.
    pub(super) fn owner(&self, graph: GraphId) -> Result<Option<NodeRef>, CUresult> {
        let owner = self.graph(graph)?.embedded_in;
        Ok(owner.and_then(|owner| self.nodes.get(owner)).copied())
    }

    /// The parameters of a node.
    pub(crate) fn params(&self, node: NodeRef) -> Result<&NodeParams, CUresult> {
        Ok(&self.graph(node.graph)?.def.node(node.local)?.params)
    }

    /// Adds a node with its handle.
    pub(crate) fn add_node(
        &mut self,
        graph: GraphId,
        params: NodeParams,
        dependencies: &[Edge],
    ) -> Result<NodeRef, CUresult> {
        let owned = params.embedded().to_vec();
        let local = self.graph_mut(graph)?.def.add_node(params, dependencies)?;
        let owner = self.name_node(graph, local)?;
        for part in owned {
            self.graph_mut(part)?.embedded_in = Some(owner);
        }
        Ok(NodeRef { graph, local })
    }

    pub(super) fn name_node(&mut self, graph: GraphId, local: LocalId) -> Result<NodeId, CUresult> {
        let id = self.nodes.insert(NodeRef { graph, local });
        self.graph_mut(graph)?.handles.insert(local, id);
        Ok(id)
    }

    /// Takes edges out of a graph.
    pub(crate) fn remove_edges(
        &mut self,
        graph: GraphId,
        edges: &[FullEdge],
    ) -> Result<(), CUresult> {
        if !edges.is_empty() && self.has_memory(graph)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        self.graph_mut(graph)?.def.remove_edges(edges)
    }

    /// Takes a node out, and the graph that it embeds.
    pub(crate) fn remove_node(&mut self, node: NodeRef) -> Result<Removed, CUresult> {
        if self.has_memory(node.graph)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        if self.graph(node.graph)?.captured {
            return Err(CUDA_ERROR_ILLEGAL_STATE);
        }
        let graph = self.graph_mut(node.graph)?;
        let params = graph.def.remove_node(node.local)?;
        if let Some(handle) = graph.handles.remove(&node.local) {
            self.nodes.remove(handle);
        }
        let mut removed = Removed::default();
        for owned in params.embedded() {
            self.remove_graph(*owned, &mut removed);
        }
        removed.params.push(params);
        Ok(removed)
    }

    /// Destroys a graph of the program's.
    pub(crate) fn destroy(&mut self, id: GraphId) -> Result<Removed, CUresult> {
        let graph = self.graph(id)?;
        if graph.embedded_in.is_some() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if graph.captured {
            return Err(CUDA_ERROR_ILLEGAL_STATE);
        }
        let mut removed = Removed::default();
        self.remove_graph(id, &mut removed);
        Ok(removed)
    }

    pub(super) fn remove_graph(&mut self, id: GraphId, removed: &mut Removed) {
        let Some(graph) = self.graphs.remove(id) else { return };
        for handle in graph.handles.values() {
            self.nodes.remove(*handle);
        }
        for owned in graph.def.nodes().flat_map(|(_, node)| node.params.embedded()) {
            self.remove_graph(*owned, removed);
        }
        removed.graphs.push(graph);
    }

    /// The handle of a node.
    pub(crate) fn node_handle(&self, node: NodeRef) -> *mut CUgraphNode_st {
        self.graphs.get(node.graph).map_or(std::ptr::null_mut(), |graph| graph.handle(node.local))
    }

    /// The edges that C arrays describe; all of `data` stands for ordinary edges where it is
    /// missing.
    pub(crate) fn edges(
        &self,
        graph: GraphId,
        nodes: &[*mut CUgraphNode_st],
        data: Option<&[EdgeData]>,
    ) -> Result<Vec<Edge>, CUresult> {
        let edge = |(index, handle): (usize, &*mut CUgraphNode_st)| {
            let data = data.and_then(|data| data.get(index)).copied().unwrap_or_default();
            Ok(Edge { node: self.local(graph, *handle)?, data })
        };
        nodes.iter().enumerate().map(edge).collect()
    }
}
