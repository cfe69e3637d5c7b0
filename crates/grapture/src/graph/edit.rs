//! Changing the order of a graph's nodes, and removing nodes.

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUgraphEdgeData, Function};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::{EdgeData, Graph, NodeId, NodeKind};
use crate::reclaim::drop_contained;

impl Graph {
    /// Has node `to` wait for node `from`.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, a node and itself, or a dependency
    /// that there is already. A cycle is not seen before the graph is instantiated. As the driver
    /// answers.
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_dependency(&mut self, from: NodeId, to: NodeId) -> CudaResult<()> {
        self.add_dependency_with(from, to, EdgeData::FULL)
    }

    /// Has node `to` wait for a point of node `from`, such as
    /// [`EdgeData::PROGRAMMATIC`].
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let module = context.load_ptx(
    /// #     ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry none() { ret; }")?;
    /// # let kernel = module.kernel("none")?;
    /// let mut graph = Graph::new(&context)?;
    /// // SAFETY: `none` takes nothing.
    /// let first = unsafe { graph.add_kernel(kernel.launch_builder(1, 1), &[]) }?;
    /// let second = unsafe { graph.add_kernel(kernel.launch_builder(1, 1), &[]) }?;
    /// graph.add_dependency_with(first, second, EdgeData::PROGRAMMATIC)?;
    /// assert!(graph.edges()?[0].data().is_programmatic());
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`add_dependency`](Graph::add_dependency); moreover a programmatic one that is not
    /// between two kernels, or one in launch order that does not start at a kernel.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.3 and the data not
    /// [`FULL`](EdgeData::FULL).
    #[doc(alias = "cuGraphAddDependencies_v2")]
    pub fn add_dependency_with(
        &mut self,
        from: NodeId,
        to: NodeId,
        data: EdgeData,
    ) -> CudaResult<()> {
        self.edits.shape();
        let (first, second) = (self.require(from, "from")?, self.require(to, "to")?);
        if first == second {
            return Err(refused("to", "a node cannot wait for itself"));
        }
        let functions = self.functions();
        if data == EdgeData::FULL {
            // SAFETY: a live graph and nodes of it, one of each.
            let code = unsafe { (functions.cuGraphAddDependencies)(self.raw, &first, &second, 1) };
            return check(code).map_err(|error| self.why_no_edge(error, from, to));
        }
        if !self.context.driver().has(Function::cuGraphAddDependencies_v2) {
            return Err(CudaError::from(CUDA_ERROR_NOT_SUPPORTED));
        }
        self.check_ends(from, to, data)?;
        let raw = CUgraphEdgeData::from(data);
        // SAFETY: as above, and the data of one edge.
        let code =
            unsafe { (functions.cuGraphAddDependencies_v2)(self.raw, &first, &second, &raw, 1) };
        check(code).map_err(|error| self.why_no_edge(error, from, to))
    }

    /// Has node `to` wait for node `from` no more, whatever the dependency carries.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_empty(&[])?;
    /// let second = graph.add_empty(&[first])?;
    /// graph.remove_dependency(first, second)?;
    /// assert!(graph.edges()?.is_empty());
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, a dependency that is not there, or
    /// a graph with nodes that allocate or free memory, whose order stays. As the driver answers.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_dependency(&mut self, from: NodeId, to: NodeId) -> CudaResult<()> {
        self.edits.shape();
        let (first, second) = (self.require(from, "from")?, self.require(to, "to")?);
        self.refuse_memory_nodes("its dependencies cannot be removed")?;
        self.refuse_pools("they cannot be removed")?;
        let functions = self.functions();
        let code = if self.context.driver().has(Function::cuGraphRemoveDependencies_v2) {
            let any = std::ptr::null();
            // SAFETY: a live graph and nodes of it, one of each; without data it is any edge's.
            unsafe { (functions.cuGraphRemoveDependencies_v2)(self.raw, &first, &second, any, 1) }
        } else {
            // SAFETY: a live graph and nodes of it, one of each.
            unsafe { (functions.cuGraphRemoveDependencies)(self.raw, &first, &second, 1) }
        };
        check(code).map_err(|error| match error {
            CudaError::InvalidValue => refused("to", "it does not wait for the other node"),
            error => self.why_not(error, "its dependencies cannot be removed"),
        })
    }

    /// Removes a node, with its dependencies. What it used is let go of when nothing made from the
    /// graph before can run it.
    ///
    /// What a captured node used stays with the graph: it is not known apart.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_empty(&[])?;
    /// graph.add_empty(&[first])?;
    /// graph.remove_node(first)?;
    /// assert_eq!((graph.node_count()?, graph.edges()?.len()), (1, 0));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, or of a graph with nodes that
    /// allocate or free memory. As the driver answers.
    #[doc(alias = "cuGraphDestroyNode")]
    pub fn remove_node(&mut self, node: NodeId) -> CudaResult<()> {
        self.edits.shape();
        let raw = self.require(node, "node")?;
        self.refuse_memory_nodes("its nodes cannot be removed")?;
        self.refuse_pools("its nodes cannot be removed")?;
        // What is known of the others is known by their order, which changes.
        self.settle(&self.nodes()?);
        // SAFETY: a node of this graph, whose name means nothing from here on.
        check(unsafe { (self.functions().cuGraphDestroyNode)(raw) })
            .map_err(|error| self.why_not(error, "its nodes cannot be removed"))?;
        self.forget_within(node);
        self.edits.place(node, None);
        self.names.remove(raw);
        self.built().notes.remove(node);
        drop_contained(self.share_mut().remove(node));
        Ok(())
    }

    /// Refuses what a graph with memory nodes cannot, where that is known.
    pub(crate) fn refuse_memory_nodes(&self, cannot: &str) -> CudaResult<()> {
        let none = self.allocations.is_empty() && !self.share().allocates();
        if none { Ok(()) } else { Err(memory_nodes(cannot)) }
    }

    /// Says what a graph with nodes that are there once cannot, if that is why the driver refused.
    #[cold]
    pub(crate) fn why_not(&self, error: CudaError, cannot: &str) -> CudaError {
        if error != CudaError::NotSupported {
            return error;
        }
        let kinds = self.nodes().unwrap_or_default();
        let has = |kinds_of: &[NodeKind]| kinds.iter().any(|node| kinds_of.contains(&node.kind()));
        if has(&[NodeKind::MemAlloc, NodeKind::MemFree]) {
            memory_nodes(cannot)
        } else if has(&[NodeKind::Conditional]) {
            not_supported(format!("it has conditional nodes: {cannot}"))
        } else if has(&[NodeKind::ChildGraph]) {
            not_supported(format!(
                "it embeds a graph that was moved there, or that has nodes which are there once: \
                 {cannot}"
            ))
        } else {
            error
        }
    }

    /// Says why a dependency that was not added cannot be.
    #[cold]
    fn why_no_edge(&self, error: CudaError, from: NodeId, to: NodeId) -> CudaError {
        let there = self
            .edges()
            .is_ok_and(|edges| edges.iter().any(|edge| edge.from == from && edge.to == to));
        if error == CudaError::InvalidValue && there {
            return refused("to", "it waits for that node already: remove that dependency first");
        }
        error
    }

    /// Between which nodes there can be an edge with this data (measured).
    fn check_ends(&self, from: NodeId, to: NodeId, data: EdgeData) -> CudaResult<()> {
        let kernel = |node: NodeId| self.kind(node.as_raw()).map(|kind| kind == NodeKind::Kernel);
        if data == EdgeData::PROGRAMMATIC && !(kernel(from)? && kernel(to)?) {
            return Err(refused("data", "a programmatic dependency is between two kernels"));
        }
        if data == EdgeData::LAUNCH_ORDER && !kernel(from)? {
            return Err(refused("data", "a dependency in launch order starts at a kernel"));
        }
        Ok(())
    }
}

#[cold]
fn memory_nodes(cannot: &str) -> CudaError {
    not_supported(format!("it has nodes that allocate or free memory: {cannot}"))
}

#[cold]
pub(super) fn not_supported(problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_NOT_SUPPORTED, "graph", problem)
}

#[cold]
fn refused(what: &'static str, problem: &str) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}
