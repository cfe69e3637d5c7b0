//! Conditional nodes: the word that decides, and what it decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_SWITCH, CU_GRAPH_COND_TYPE_WHILE,
    CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
    CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, CUgraphConditionalNodeType, CUresult,
};

use super::executable::{ExecGraph, InstantiateError};
use super::params::NodeParams;
use super::store::{GraphId, Graphs};
use crate::context::ContextCore;
use crate::sim::Sim;

/// A conditional handle. It is a number, and its value a word of each executable.
#[derive(Clone, Debug)]
pub(crate) struct Conditional {
    /// The number, counted from 1 in each graph that is in no other.
    pub(crate) handle: u64,
    /// The context whose kernels set it.
    pub(crate) context: Arc<ContextCore>,
    /// The value that each launch begins with, if any.
    pub(crate) default: Option<u32>,
}

/// How the value chooses among the bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// The first body unless it is zero, else the second, if there is one.
    If,
    /// The body, again and again, until it is zero.
    While,
    /// The body with this number, if there is one.
    Switch,
}

impl Branch {
    /// The kind with this C value, for so many bodies.
    pub(crate) fn from_raw(
        raw: CUgraphConditionalNodeType,
        bodies: u32,
    ) -> Result<Branch, CUresult> {
        let (branch, fits) = match raw {
            CU_GRAPH_COND_TYPE_IF => (Branch::If, matches!(bodies, 1 | 2)),
            CU_GRAPH_COND_TYPE_WHILE => (Branch::While, bodies == 1),
            CU_GRAPH_COND_TYPE_SWITCH => (Branch::Switch, bodies > 0),
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        if fits { Ok(branch) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }

    /// The body that a value chooses. There need not be one with this number.
    pub(crate) fn body(self, value: u32) -> Option<usize> {
        match self {
            Branch::If => Some(usize::from(value == 0)),
            Branch::While => (value != 0).then_some(0),
            Branch::Switch => usize::try_from(value).ok(),
        }
    }
}

/// The parameters of a conditional node.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalNode {
    /// What decides.
    pub(crate) conditional: Conditional,
    /// How.
    pub(crate) branch: Branch,
    /// The graphs to choose from, which the node owns.
    pub(crate) bodies: Vec<GraphId>,
    /// The array of their handles that a program was given.
    pub(crate) handles: Arc<[usize]>,
}

impl Graphs {
    /// Makes a conditional handle for a graph.
    pub(crate) fn add_conditional(
        &mut self,
        graph: GraphId,
        context: Arc<ContextCore>,
        default: Option<u32>,
    ) -> Result<u64, CUresult> {
        let root = self.outermost(graph)?;
        let made = &mut self.graph_mut(root)?.conditionals;
        let handle = made.len() as u64 + 1;
        made.push(Conditional { handle, context, default });
        Ok(handle)
    }

    /// The parameters of a new conditional node of a context, with bodies that have no nodes yet.
    pub(crate) fn new_conditional_node(
        &mut self,
        graph: GraphId,
        handle: u64,
        context: &ContextCore,
        (branch, bodies): (Branch, u32),
    ) -> Result<ConditionalNode, CUresult> {
        let root = self.outermost(graph)?;
        let mut made = self.graph(root)?.conditionals.iter();
        let conditional = made.find(|made| made.handle == handle).cloned();
        let conditional = conditional.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if conditional.context.key != context.key || self.used_handles(root)?.contains(&handle) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let bodies: Vec<GraphId> = (0..bodies).map(|_| self.create()).collect();
        let handles = bodies.iter().map(|body| body.raw().addr()).collect();
        Ok(ConditionalNode { conditional, branch, bodies, handles })
    }

    /// The graph that a graph is in at last.
    pub(super) fn outermost(&self, graph: GraphId) -> Result<GraphId, CUresult> {
        let mut graph = graph;
        while let Some(owner) = self.owner(graph)? {
            graph = owner.graph;
        }
        Ok(graph)
    }

    /// Whether a graph is a body of a conditional node.
    pub(super) fn is_body(&self, graph: GraphId) -> Result<bool, CUresult> {
        match self.owner(graph)? {
            Some(owner) => Ok(matches!(self.params(owner)?, NodeParams::Conditional(_))),
            None => Ok(false),
        }
    }

    /// The handles that conditional nodes of a graph and of those in it go by.
    fn used_handles(&self, graph: GraphId) -> Result<BTreeSet<u64>, CUresult> {
        let mut used = BTreeSet::new();
        for (_, node) in self.graph(graph)?.def.nodes() {
            if let NodeParams::Conditional(node) = &node.params {
                used.insert(node.conditional.handle);
            }
            for owned in node.params.embedded() {
                used.append(&mut self.used_handles(*owned)?);
            }
        }
        Ok(used)
    }

    /// Whether a handle of this graph decides nothing.
    pub(super) fn has_unused_conditional(&self, graph: GraphId) -> Result<bool, CUresult> {
        let used = self.used_handles(graph)?;
        Ok(self.graph(graph)?.conditionals.iter().any(|made| !used.contains(&made.handle)))
    }
}

impl ExecGraph {
    /// The conditional handles that launches give a value, those of all nodes at any depth.
    pub(super) fn assigned(&self) -> Vec<(u64, u32)> {
        let own = self.def.nodes().filter_map(|(_, node)| match &node.params {
            NodeParams::Conditional(node) => {
                node.conditional.default.map(|value| (node.conditional.handle, value))
            }
            _ => None,
        });
        own.chain(self.all_parts().flat_map(ExecGraph::assigned)).collect()
    }

    /// Refuses bodies with what conditional nodes cannot run.
    pub(super) fn check_bodies(&self, sim: &Sim) -> Result<(), InstantiateError> {
        for (id, node) in self.def.nodes() {
            let context = match &node.params {
                NodeParams::Conditional(node) => Some(&node.conditional.context),
                _ => None,
            };
            for part in self.parts(id) {
                match context {
                    Some(context) => part.check_body(sim, context)?,
                    None => part.check_bodies(sim)?,
                }
            }
        }
        Ok(())
    }

    fn check_body(&self, sim: &Sim, context: &ContextCore) -> Result<(), InstantiateError> {
        let several = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
        for (id, node) in self.def.nodes() {
            let refused = match &node.params {
                NodeParams::Kernel(kernel) => {
                    (kernel.launch.context.key != context.key).then_some(several)
                }
                NodeParams::Copy(copy) => copy.work.is_pageable(sim).then_some(several),
                NodeParams::Fill(_)
                | NodeParams::Empty
                | NodeParams::Child(_)
                | NodeParams::Conditional(_) => None,
                _ => Some(CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED),
            };
            if let Some(result) = refused {
                let node = Some((self.source, id));
                return Err(InstantiateError { code: CUDA_ERROR_INVALID_VALUE, result, node });
            }
            self.parts(id).iter().try_for_each(|part| part.check_body(sim, context))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_chooses_a_body() {
        let chosen = |branch: Branch| [0, 1, 2, 9].map(|value| branch.body(value));
        assert_eq!(chosen(Branch::If), [Some(1), Some(0), Some(0), Some(0)]);
        assert_eq!(chosen(Branch::While), [None, Some(0), Some(0), Some(0)]);
        assert_eq!(chosen(Branch::Switch), [Some(0), Some(1), Some(2), Some(9)]);
    }
}
