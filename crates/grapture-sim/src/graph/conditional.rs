//! Conditional nodes: the word that decides, and what it decides.

use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_SWITCH, CU_GRAPH_COND_TYPE_WHILE,
    CUDA_ERROR_INVALID_VALUE, CUgraphConditionalNodeType, CUresult,
};

use super::edge::Edge;
use super::params::NodeParams;
use super::store::{GraphId, Graphs};
use crate::context::{Context, ContextCore};
use crate::handle::Id;
use crate::memory::AllocationKind;
use crate::sim::Sim;

/// What a conditional handle stands for: a word that kernels set and one node reads.
#[derive(Debug)]
pub(crate) struct Conditional {
    /// Where the word is; the handle is this number.
    pub(crate) address: u64,
    /// The graph that it was made for.
    pub(crate) graph: GraphId,
    /// The context whose kernels set it.
    pub(crate) context: Arc<ContextCore>,
    /// What the handle was made with as the value of a launch.
    pub(crate) default: u32,
    /// Whether each launch begins with that value.
    pub(crate) assigned: bool,
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
    pub(crate) conditional: Arc<Conditional>,
    /// How.
    pub(crate) branch: Branch,
    /// The graphs to choose from, which the node owns.
    pub(crate) bodies: Vec<GraphId>,
    /// The array of their handles that a program was given.
    pub(crate) handles: Arc<[usize]>,
}

impl ConditionalNode {
    /// The node that owns these graphs.
    pub(crate) fn new(
        conditional: Arc<Conditional>,
        branch: Branch,
        bodies: Vec<GraphId>,
    ) -> ConditionalNode {
        let handles = bodies.iter().map(|body| body.raw().addr()).collect();
        ConditionalNode { conditional, branch, bodies, handles }
    }
}

impl Graphs {
    /// Makes a conditional handle for a graph, whose value is a word of its own.
    pub(crate) fn add_conditional(
        &mut self,
        sim: &Sim,
        graph: GraphId,
        context: (Id<Context>, Arc<ContextCore>),
        (default, assigned): (u32, bool),
    ) -> Result<u64, CUresult> {
        self.forget_conditionals(sim);
        let (owner, context) = context;
        let kind = AllocationKind::Global;
        let word = size_of::<u32>();
        let address = sim.memory.allocate(kind, context.device, Some(owner), None, word)?;
        let conditional = Arc::new(Conditional { address, graph, context, default, assigned });
        self.conditionals.insert(address, conditional.clone());
        self.graph_mut(graph)?.conditionals.push(conditional);
        Ok(address)
    }

    /// Frees the words of handles whose graphs and executables are gone.
    fn forget_conditionals(&mut self, sim: &Sim) {
        self.conditionals.retain(|address, conditional| {
            let used = Arc::strong_count(conditional) > 1;
            if !used {
                sim.memory.free(*address);
            }
            used
        });
    }

    /// The parameters of a new conditional node, with bodies that have no nodes yet.
    pub(crate) fn new_conditional_node(
        &mut self,
        graph: GraphId,
        handle: u64,
        branch: Branch,
        bodies: u32,
        dependencies: &[Edge],
    ) -> Result<ConditionalNode, CUresult> {
        self.graph(graph)?.def.check_dependencies(dependencies, false)?;
        let conditional = self.conditionals.get(&handle).ok_or(CUDA_ERROR_INVALID_VALUE)?.clone();
        let same = self.outermost(graph)? == self.outermost(conditional.graph)?;
        if !same || self.is_used(&conditional)? {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let bodies = (0..bodies).map(|_| self.create()).collect();
        Ok(ConditionalNode::new(conditional, branch, bodies))
    }

    /// The graph that a graph is in at last.
    fn outermost(&self, graph: GraphId) -> Result<GraphId, CUresult> {
        let mut graph = graph;
        while let Some(owner) = self.owner(graph)? {
            graph = owner.graph;
        }
        Ok(graph)
    }

    /// Whether a graph is the body of a conditional node, or in one.
    pub(super) fn is_in_body(&self, graph: GraphId) -> Result<bool, CUresult> {
        let mut graph = graph;
        while let Some(owner) = self.owner(graph)? {
            if matches!(self.params(owner)?, NodeParams::Conditional(_)) {
                return Ok(true);
            }
            graph = owner.graph;
        }
        Ok(false)
    }

    /// Whether some node of the graphs that a handle is for goes by it.
    fn is_used(&self, conditional: &Arc<Conditional>) -> Result<bool, CUresult> {
        self.uses(self.outermost(conditional.graph)?, conditional)
    }

    fn uses(&self, graph: GraphId, conditional: &Arc<Conditional>) -> Result<bool, CUresult> {
        for (_, node) in self.graph(graph)?.def.nodes() {
            if let NodeParams::Conditional(node) = &node.params
                && Arc::ptr_eq(&node.conditional, conditional)
            {
                return Ok(true);
            }
            for owned in node.params.embedded() {
                if self.uses(*owned, conditional)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a handle of this graph, or of one in it, decides nothing.
    pub(super) fn has_unused_conditional(&self, graph: GraphId) -> Result<bool, CUresult> {
        let this = self.graph(graph)?;
        for conditional in &this.conditionals {
            if !self.is_used(conditional)? {
                return Ok(true);
            }
        }
        for owned in this.def.nodes().flat_map(|(_, node)| node.params.embedded()) {
            if self.has_unused_conditional(*owned)? {
                return Ok(true);
            }
        }
        Ok(false)
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
