//! Graphs in graphs: copies, and what child graph nodes embed.

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUresult};

use super::definition::LocalId;
use super::edge::Edge;
use super::params::NodeParams;
use super::store::{GraphId, Graphs, NodeRef, Removed};

impl Graphs {
    /// A copy of a graph and of all that it embeds.
    pub(crate) fn copy(&mut self, id: GraphId) -> Result<GraphId, CUresult> {
        self.check_copyable(id)?;
        self.copy_checked(id)
    }

    /// Refuses graphs whose nodes cannot be there twice.
    fn check_copyable(&self, id: GraphId) -> Result<(), CUresult> {
        if self.is_body(id)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        // Handles belong to the outermost graph, and bar the copies of all that is in it.
        let root = self.outermost(id)?;
        let handles = !self.graph(root)?.conditionals.is_empty();
        if handles || self.exists_once(id)? { Err(CUDA_ERROR_NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Whether a graph has nodes, at any depth, of which an executable or a copy cannot have
    /// another.
    pub(super) fn exists_once(&self, id: GraphId) -> Result<bool, CUresult> {
        let this = self.graph(id)?;
        if this.memory {
            return Ok(true);
        }
        for (_, node) in this.def.nodes() {
            if node.params.is_memory() || matches!(node.params, NodeParams::Conditional(_)) {
                return Ok(true);
            }
            for owned in node.params.embedded() {
                if self.exists_once(*owned)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a graph, or one in it, allocates or frees.
    pub(super) fn has_memory(&self, id: GraphId) -> Result<bool, CUresult> {
        let this = self.graph(id)?;
        let mut owned = this.def.nodes().flat_map(|(_, node)| node.params.embedded());
        Ok(this.memory
            || this.def.has_memory_nodes()
            || owned.any(|owned| self.has_memory(*owned) == Ok(true)))
    }

    fn copy_checked(&mut self, id: GraphId) -> Result<GraphId, CUresult> {
        let graph = self.graph_mut(id)?;
        graph.copied = true;
        let (mut def, users) = (graph.def.copied(), graph.users.clone());
        let locals: Vec<LocalId> = def.nodes().map(|(local, _)| local).collect();
        let mut embedded = Vec::new();
        for local in &locals {
            if let NodeParams::Child(child) = def.params_mut(*local)? {
                *child = self.copy_checked(*child)?;
                embedded.push((*local, *child));
            }
        }
        let bound = def.next_id();
        let copy = self.create();
        let graph = self.graph_mut(copy)?;
        graph.def = def;
        graph.users = users;
        graph.copy_of = Some((id, bound));
        for local in locals {
            self.name_node(copy, local)?;
        }
        for (local, child) in embedded {
            let owner = self.graph(copy)?.handles.get(&local).copied();
            self.graph_mut(child)?.embedded_in = owner;
        }
        Ok(copy)
    }

    /// Adds a node that embeds a graph: a copy of it, or the graph itself.
    pub(crate) fn add_child(
        &mut self,
        graph: GraphId,
        (child, moved): (GraphId, bool),
        dependencies: &[Edge],
    ) -> Result<NodeRef, CUresult> {
        self.check_embeddable(graph, child, moved)?;
        self.graph(graph)?.def.check_dependencies(dependencies, false)?;
        let embedded = if moved { child } else { self.copy(child)? };
        self.add_node(graph, NodeParams::Child(embedded), dependencies)
    }

    /// Refuses a graph that a node of another cannot embed, as a copy or itself.
    fn check_embeddable(
        &self,
        graph: GraphId,
        child: GraphId,
        moved: bool,
    ) -> Result<(), CUresult> {
        let this = self.graph(child)?;
        if this.embedded_in.is_some() || !this.conditionals.is_empty() {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        if !moved {
            self.check_copyable(child)?;
        } else if this.execs > 0 && self.has_memory(child)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        // A real driver is brought down by a graph in itself.
        if self.outermost(graph)? == child { Err(CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
    }

    /// Replaces what a child graph node embeds.
    pub(crate) fn replace_child(
        &mut self,
        node: NodeRef,
        child: GraphId,
        moved: bool,
    ) -> Result<Removed, CUresult> {
        let NodeParams::Child(old) = *self.params(node)? else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        self.check_embeddable(node.graph, child, moved)?;
        let new = if moved { child } else { self.copy(child)? };
        self.graph_mut(new)?.embedded_in = self.graph(old)?.embedded_in;
        *self.graph_mut(node.graph)?.def.params_mut(node.local)? = NodeParams::Child(new);
        let mut removed = Removed::default();
        self.remove_graph(old, &mut removed);
        Ok(removed)
    }

    /// The node of a copy that stands for a node of the graph that it was copied from.
    pub(crate) fn find_in_copy(&self, node: NodeRef, copy: GraphId) -> Result<NodeRef, CUresult> {
        let (original, bound) = self.graph(copy)?.copy_of.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if original != node.graph || node.local >= bound {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        self.graph(copy)?.def.node(node.local)?;
        Ok(NodeRef { graph: copy, local: node.local })
    }
}
