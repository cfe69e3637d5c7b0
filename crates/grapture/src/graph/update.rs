//! Changing an executable graph into what another graph says.

use std::mem;
use std::ptr;

use grapture_sys::{
    CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_INVALID_CONTEXT,
    CUgraphExecUpdateResultInfo, Function,
};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::exec_node::is_refusal;
use crate::graph::exec_slots::SlotTable;
use crate::graph::follow::Followed;
use crate::graph::launch_attributes::LaunchAttributes;
use crate::graph::update_error::UpdateError;
use crate::graph::{Graph, GraphExec, InstantiateOptions, NodeId, UpdateReason};
use crate::tell;

/// How an executable graph is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    strict: bool,
}

impl UpdateOptions {
    /// The executable graph is made anew where it cannot be updated.
    pub fn new() -> UpdateOptions {
        UpdateOptions::default()
    }

    /// Whether an executable graph that cannot be updated is an error, and stays as it is.
    pub fn strict(mut self, strict: bool) -> UpdateOptions {
        self.strict = strict;
        self
    }
}

/// What became of an executable graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is the same one, with other parameters.
    Updated {
        /// How many nodes were given their parameters anew; 0: nothing had changed.
        changed: usize,
    },
    /// It was made anew: the driver cannot change what is different.
    Rebuilt {
        /// Why it could not be updated.
        reason: UpdateReason,
        /// The node at fault, where there is one: a node of the new graph.
        node: Option<NodeId>,
    },
}

impl GraphExec {
    /// Makes the executable graph do what `graph` says now, the cheapest way: nothing where nothing
    /// has changed, an update in place where the driver can, and else by making it anew.
    ///
    /// A launch in flight keeps what it was launched with, and what that uses is kept until it is
    /// done. Does not block. Whatever fails, the executable graph is as it was before, or wholly
    /// what `graph` says.
    ///
    /// Nodes that are switched off stay so in an update, and are on when it was made anew. So do
    /// their names: after an update the nodes have the names of the graph that the executable was
    /// made of, and after it was made anew those of `graph`.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let mut exec = stream.capture(CaptureMode::ThreadLocal, |_| x.fill(1, &stream))?.instantiate()?;
    /// exec.launch(&stream)?;
    ///
    /// let other = stream.capture(CaptureMode::ThreadLocal, |_| x.fill(2, &stream))?;
    /// assert_eq!(exec.update(&other)?, Outcome::Updated { changed: 1 });
    ///
    /// let longer = stream.capture(CaptureMode::ThreadLocal, |_| {
    ///     x.fill(3, &stream)?;
    ///     x.fill(4, &stream)
    /// })?;
    /// let outcome = exec.update(&longer)?;
    /// assert!(matches!(outcome, Outcome::Rebuilt { reason: UpdateReason::TopologyChanged, .. }));
    /// exec.launch(&stream)?;
    /// assert_eq!(x.to_vec(&stream)?, [4; 64]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): `graph` is of another context; or it would have to be made
    /// anew while the stream of its last launch captures. [`Instantiate`](CudaError::Instantiate):
    /// it could not be made anew. As the driver answers.
    #[doc(alias = "cuGraphExecUpdate")]
    pub fn update(&mut self, graph: &Graph) -> CudaResult<Outcome> {
        self.update_with(graph, UpdateOptions::new())
    }

    /// [`update`](GraphExec::update) with options.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let mode = CaptureMode::ThreadLocal;
    /// let mut exec = stream.capture(mode, |_| words.fill(7, &stream))?.instantiate()?;
    /// let other = stream.capture(mode, |_| stream.host_function(|| {}))?;
    /// let strict = UpdateOptions::new().strict(true);
    /// assert!(matches!(exec.update_with(&other, strict), Err(CudaError::Update(_))));
    /// exec.launch(&stream)?; // as before
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`update`](GraphExec::update). [`Update`](CudaError::Update), with the reason and the
    /// node: it is strict, and could not be updated.
    /// [`NotSupported`](CudaError::NotSupported): it is strict, and the driver is older than 10.2.
    pub fn update_with(&mut self, graph: &Graph, options: UpdateOptions) -> CudaResult<Outcome> {
        if !self.context.same(&graph.context) {
            return Err(other_context());
        }
        let _span = tell::in_update(self.node_count);
        let updated = self.update_cheaply(graph, options);
        tell::of_update(&updated);
        updated
    }

    fn update_cheaply(&mut self, graph: &Graph, options: UpdateOptions) -> CudaResult<Outcome> {
        match self.follow(graph, options.strict)? {
            Followed::Wholly(changed) => return Ok(Outcome::Updated { changed }),
            Followed::NotAtAll => {}
            Followed::Stopped(error) if options.strict => return Err(error.into()),
            Followed::Stopped(error) => return self.rebuild(graph, error.reason(), error.node()),
        }
        match self.update_in_place(graph) {
            Ok(()) => Ok(Outcome::Updated { changed: self.node_count }),
            Err(error) if options.strict => Err(error),
            Err(CudaError::Update(error)) if error.is_of_the_graph() => {
                self.rebuild(graph, error.reason(), error.node())
            }
            Err(CudaError::NotSupported) => self.rebuild(graph, UpdateReason::NotSupported, None),
            Err(other) => Err(other),
        }
    }

    /// Has the driver give every node the parameters of its pair in `graph`.
    fn update_in_place(&mut self, graph: &Graph) -> CudaResult<()> {
        let attributes = LaunchAttributes::of(graph)?;
        if let (LaunchAttributes::Unread, Some(source)) = (&self.attributes, self.graph()) {
            self.attributes = LaunchAttributes::of(source)?;
        }
        if !self.attributes.fits(&attributes) {
            let node = self.attributes.first_other(&attributes, graph);
            return Err(UpdateError::of_attributes(graph, node).into());
        }
        let slots = match self.slots.is_some() || graph.share().has_slots() {
            true => self.slots_after(graph)?,
            false => SlotTable::default(),
        };
        let (code, info) = self.call_update(graph)?;
        // The driver leaves what it has to say in the result, whatever the code is.
        if code.is_ok() && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS {
            self.take_slots(slots);
            self.taken(graph);
            return Ok(());
        }
        if code.as_ref().is_err_and(|error| !is_refusal(error)) {
            // It cannot be known which nodes have taken theirs.
            self.changed();
            self.owners_mut().keep(graph.share().clone());
        }
        let code = code.err().map_or(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.0, |error| error.code());
        Err(UpdateError::of(graph, code, &info).into())
    }

    /// The driver's call, in the form that it has: one result from 12.0 on, two before.
    fn call_update(
        &self,
        graph: &Graph,
    ) -> CudaResult<(CudaResult<()>, CUgraphExecUpdateResultInfo)> {
        let driver = self.context.driver();
        if !driver.has(Function::cuGraphExecUpdate) {
            return Err(CudaError::NotSupported);
        }
        let mut info = CUgraphExecUpdateResultInfo {
            result: CU_GRAPH_EXEC_UPDATE_SUCCESS,
            errorNode: ptr::null_mut(),
            errorFromNode: ptr::null_mut(),
        };
        let functions = self.functions();
        let code = if driver.has(Function::cuGraphExecUpdate_v2) {
            // SAFETY: a live executable graph and a live graph of one context that no other thread
            // uses now (neither is `Sync`), and a live out-pointer.
            unsafe { (functions.cuGraphExecUpdate_v2)(self.raw, graph.raw, &mut info) }
        } else {
            let (node, result) = (&mut info.errorNode, &mut info.result);
            // SAFETY: as above.
            unsafe { (functions.cuGraphExecUpdate)(self.raw, graph.raw, node, result) }
        };
        Ok((check(code), info))
    }

    /// Notes that the nodes have the parameters of the graph's.
    fn taken(&mut self, graph: &Graph) {
        let own = self.key == graph.names().graph();
        self.synced = own.then(|| graph.edits.revision());
        self.half_way.set(false);
        self.replace_owners(graph);
        self.prepare();
    }

    /// Makes the executable anew from `graph`, with the flags that it had. Its next launch comes
    /// after those of the old one.
    fn rebuild(
        &mut self,
        graph: &Graph,
        reason: UpdateReason,
        node: Option<NodeId>,
    ) -> CudaResult<Outcome> {
        let after = self.owners_mut().end_of_launches()?;
        let mut new = graph.instantiate_with(&InstantiateOptions::new().flags(self.flags))?;
        mem::swap(&mut self.raw, &mut new.raw);
        mem::swap(&mut self.node_count, &mut new.node_count);
        mem::swap(&mut self.attributes, &mut new.attributes);
        mem::swap(&mut self.slots, &mut new.slots);
        self.key = new.key;
        // What is dropped here is the old executable with the new one's owners, which no launch has
        // used.
        drop(new);
        if after.is_some() {
            *self.after.get_mut() = after;
        }
        self.source.end(&self.context);
        self.taken(graph);
        Ok(Outcome::Rebuilt { reason, node })
    }
}

#[cold]
fn other_context() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_CONTEXT,
        "graph",
        "it belongs to another context than the executable graph: instantiate it",
    )
}
