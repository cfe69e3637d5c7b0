//! [`GraphExec`]: an executable graph, and its launch.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUgraphExec, Function,
    Functions,
};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::exec_owners::ExecOwners;
use crate::graph::exec_slots::ExecSlots;
use crate::graph::launch_attributes::LaunchAttributes;
use crate::graph::source::Source;
use crate::graph::{Graph, GraphKey, InstantiateFlags};
use crate::host_function;
use crate::memory::{BufferInner, Launching};
use crate::operation::{Operation, OperationKind};
use crate::pinned::PinnedInner;
use crate::raw_event::RawEvent;
use crate::reclaim::release_elsewhere;
use crate::retain::Share;
use crate::stream::{Stream, other_context};
use crate::tell;

/// An executable graph. Each launch replays all of it with one driver call.
///
/// It owns what its nodes use (O2), also while a launch is in flight: dropping it then returns at
/// once, and what it owns is released when the launch is done. It needs no [`Graph`] and no
/// stream of the capture to be alive.
///
/// It can be sent to another thread, and not shared: NVIDIA forbids concurrent use of one.
pub struct GraphExec {
    pub(super) raw: CUgraphExec,
    pub(super) context: Context,
    pub(super) node_count: usize,
    pub(super) flags: InstantiateFlags,
    /// The graph whose nodes name its nodes.
    pub(super) key: GraphKey,
    /// The revision of that graph whose parameters the nodes have. None: they have others.
    pub(super) synced: Option<u64>,
    /// Whether only some of the nodes have the parameters of an update that failed.
    pub(super) half_way: Cell<bool>,
    /// What the kernels have of launch attributes.
    pub(super) attributes: LaunchAttributes,
    /// What the nodes use.
    owners: ExecOwners,
    /// What the next launch waits for: the launches of the executable that this one replaced.
    pub(super) after: RefCell<Option<Arc<RawEvent>>>,
    /// Whether a launch has something to do before the driver's call.
    pub(super) prepares: Cell<bool>,
    /// The graph that it was made of, where nobody else has it.
    pub(super) source: Source,
    /// Its slots, where it has some.
    pub(super) slots: Option<Box<ExecSlots>>,
    // Not `Sync`, see above (O8).
    _not_sync: PhantomData<Cell<()>>,
}

/// What the driver has made of a graph.
pub(super) struct Made {
    pub(super) raw: CUgraphExec,
    pub(super) node_count: usize,
    pub(super) flags: InstantiateFlags,
    pub(super) attributes: LaunchAttributes,
    /// The revision of the graph.
    pub(super) revision: u64,
}

// SAFETY: a `CUgraphExec` belongs to no thread; one thread at a time uses it, since the type is
// not `Sync`. Its owners are `Send`.
unsafe impl Send for GraphExec {}

impl GraphExec {
    /// Of a graph that somebody has.
    pub(super) fn of(
        graph: &Graph,
        raw: CUgraphExec,
        node_count: usize,
        flags: InstantiateFlags,
        attributes: LaunchAttributes,
    ) -> GraphExec {
        let revision = graph.edits.revision();
        let made = Made { raw, node_count, flags, attributes, revision };
        let (context, share) = (graph.context.clone(), graph.share().clone());
        GraphExec::new(made, context, graph.names().graph(), share, Source::none())
    }

    #[inline]
    pub(super) fn new(
        made: Made,
        context: Context,
        key: GraphKey,
        share: Share,
        source: Source,
    ) -> GraphExec {
        let prepares = Cell::new(share.prepares());
        GraphExec {
            raw: made.raw,
            context,
            node_count: made.node_count,
            flags: made.flags,
            key,
            synced: Some(made.revision),
            half_way: Cell::new(false),
            prepares,
            owners: ExecOwners::new(share),
            after: RefCell::new(None),
            attributes: made.attributes,
            source,
            slots: None,
            _not_sync: PhantomData,
        }
    }

    /// Notes that the nodes use what those of the graph do.
    pub(super) fn replace_owners(&mut self, graph: &Graph) {
        let context = self.context.clone();
        self.owners_mut().replace(graph.share().clone(), context.driver());
    }

    /// What the nodes use.
    pub(super) fn owners(&self) -> &ExecOwners {
        &self.owners
    }

    /// What the nodes use, to change: the graph that is kept has what they used before.
    pub(super) fn owners_mut(&mut self) -> &mut ExecOwners {
        self.graph();
        &mut self.owners
    }

    /// Keeps memory for a slot that is set to it. None: what is kept for it is that already.
    #[inline]
    pub(super) fn bind_memory(&mut self, slot: u64, memory: Option<Arc<BufferInner>>) {
        if let Some(memory) = memory {
            self.graph();
            self.owners.bind(slot, memory, self.context.driver());
        }
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The graph that it was made of, if it came from
    /// [`StreamGraphCapture::end`](crate::StreamGraphCapture::end), which keeps it here. None after
    /// it was made anew from another graph by [`update`](GraphExec::update).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    /// words.fill(7, &stream)?;
    /// let exec = capture.end()?;
    /// assert_eq!(exec.graph().unwrap().node_count()?, exec.node_count());
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn graph(&self) -> Option<&Graph> {
        self.source.get(&self.context, self.key, self.owners.share())
    }

    /// The raw handle. It stays valid as long as the executable graph lives and is not made anew
    /// by [`update`](GraphExec::update).
    pub fn as_raw(&self) -> CUgraphExec {
        self.raw
    }

    /// The number of nodes, as the driver counted them when it was made.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// The flags, as the driver has them; as they were asked for, from a driver before 12.0.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphExecGetFlags")]
    pub fn flags(&self) -> CudaResult<InstantiateFlags> {
        if !self.context.driver().has(Function::cuGraphExecGetFlags) {
            return Ok(self.flags);
        }
        let mut flags = 0;
        // SAFETY: a live executable graph, and a live out-pointer.
        check(unsafe { (self.context.functions().cuGraphExecGetFlags)(self.raw, &mut flags) })?;
        Ok(InstantiateFlags::from_bits_retain(flags as u32))
    }

    /// Runs the graph once, in the order of the stream, which may be any of the context. Does not
    /// block. Launches of one executable graph never overlap, on whatever streams.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the stream is of another context, or it captures, or the
    /// host holds pinned memory that the graph uses, or what the last launch has left in a
    /// [`GraphOutput`](crate::GraphOutput) is somebody's. An error of earlier work.
    #[doc(alias = "cuGraphLaunch")]
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> CudaResult<()> {
        stream.require_context(&self.context, "stream")?;
        let operation = Operation::new(OperationKind::GraphLaunch);
        if self.prepares.get() {
            self.launch_prepared(&operation, stream)?;
        } else {
            self.submit(stream, || self.launch_now(&operation, stream))?;
        }
        // The program's code, which may make other calls on the stream.
        tell::of_launch(self.node_count);
        Ok(())
    }

    #[inline]
    fn launch_now(&self, operation: &Operation, stream: &Stream) -> CudaResult<()> {
        // SAFETY: a live executable graph that no other thread uses now (not `Sync`), and a
        // live stream. What the nodes touch is kept until the launch is done (O2).
        let launch =
            |functions: &Functions, raw| unsafe { (functions.cuGraphLaunch)(self.raw, raw) };
        stream.run(operation, || stream.with(launch))?;
        self.owners.note(stream);
        Ok(())
    }

    /// Keeps the host off the pinned memory from before the launch on (O6), others off what the
    /// launch leaves, and the launch behind those of its pools and of the executable that this one
    /// replaced.
    #[cold]
    fn launch_prepared(&self, operation: &Operation, stream: &Stream) -> CudaResult<()> {
        if self.half_way.get() {
            return Err(half_way());
        }
        let pinned = self.owners.pinned();
        let _submissions = PinnedInner::use_all(pinned, stream)?;
        let frees_itself = self.flags.contains(InstantiateFlags::AUTO_FREE_ON_LAUNCH);
        let mut launching = Launching::begin(self.owners.at_launch(), stream, frees_itself)?;
        self.submit(stream, || {
            let mut after = self.after.borrow_mut();
            if let Some(event) = &*after {
                event.wait_on(stream)?;
            }
            self.launch_now(operation, stream)?;
            launching.launched(stream);
            // Later launches come after this one.
            *after = None;
            self.prepares.set(self.owners.prepares());
            Ok(())
        })
    }

    /// Makes a call with the executable graph on the stream, unless that captures.
    #[inline]
    fn submit(&self, stream: &Stream, call: impl FnOnce() -> CudaResult<()>) -> CudaResult<()> {
        stream.route(|log| log.is_open().then(|| Err(launch_into_capture())), call)
    }

    /// Looks again at what a launch has to do first, after a change.
    pub(super) fn prepare(&mut self) {
        let waits = self.after.get_mut().is_some() || self.half_way.get();
        self.prepares.set(waits || self.owners.prepares());
    }

    /// Whether all launches are done. Does not block. What was submitted to the stream of the last
    /// launch after it, and before this was first asked, has to be done too.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let exec = Graph::new(&context)?.instantiate()?;
    /// exec.upload(&stream)?;
    /// exec.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert!(exec.is_done()?);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotReady`](CudaError::NotReady) while that stream captures: it cannot be asked. An error
    /// of earlier work.
    pub fn is_done(&self) -> CudaResult<bool> {
        self.owners.is_done()
    }

    /// Uploads the executable graph on a stream without running it, so that the first launch is as
    /// fast as later ones.
    ///
    /// # Errors
    ///
    /// As [`launch`](GraphExec::launch). [`NotSupported`](CudaError::NotSupported): the driver is
    /// older than 11.1.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&self, stream: &Stream) -> CudaResult<()> {
        check_launch_stream(&self.context, stream)?;
        self.submit(stream, || {
            // SAFETY: a live executable graph that no other thread uses now, and a live stream.
            stream.with(|functions, raw| unsafe { (functions.cuGraphUpload)(self.raw, raw) })
        })
    }

    /// What the nodes use now.
    pub(crate) fn share(&self) -> &Share {
        self.owners.share()
    }

    /// Notes that a node was changed by itself.
    pub(super) fn changed(&mut self) {
        self.synced = None;
    }

    /// Whether its nodes do what those of its graph do.
    pub(super) fn is_as(&self, graph: &Graph) -> bool {
        self.synced == Some(graph.edits.revision())
    }

    pub(super) fn functions(&self) -> &Functions {
        self.context.functions()
    }

    /// Destroys the driver's executable.
    pub(super) fn destroy(&mut self) {
        // SAFETY: ours, and the last use: the caller drops this or puts another one here. A launch
        // in flight is finished by the driver. The call is one that a capture bars, so the
        // thread's mode is relaxed around it (O9).
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuGraphExecDestroy)(self.raw) });
        report("cuGraphExecDestroy", check(code));
    }
}

/// Refuses a stream on which a graph cannot be launched.
#[inline]
pub(super) fn check_launch_stream(context: &Context, stream: &Stream) -> CudaResult<()> {
    if !context.same(stream.context()) {
        return Err(other_context("stream"));
    }
    if stream.is_capturing() {
        return Err(launch_into_capture());
    }
    Ok(())
}

#[cold]
pub(crate) fn launch_into_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and an executable graph cannot be launched into a capture: embed its \
         graph there with `Graph::embed`, or launch it on another stream",
    )
}

#[cold]
fn half_way() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "exec",
        "an update failed when some nodes had new parameters, and it could not be made anew: \
         update it again",
    )
}

impl GraphExec {
    /// What is to be released, out of an executable graph that is dropped.
    fn split_off(&mut self) -> GraphExec {
        GraphExec {
            raw: self.raw,
            context: self.context.clone(),
            node_count: self.node_count,
            flags: self.flags,
            key: self.key,
            synced: None,
            half_way: Cell::new(false),
            attributes: LaunchAttributes::Plain,
            owners: self.owners.take(),
            after: RefCell::new(None),
            prepares: Cell::new(false),
            source: self.source.take(),
            slots: self.slots.take(),
            _not_sync: PhantomData,
        }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        if host_function::is_running() {
            let taken = self.split_off();
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        self.destroy();
        self.source.end(&self.context);
        self.owners.release(self.context.driver());
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec")
            .field("raw", &self.raw)
            .field("node_count", &self.node_count)
            .finish_non_exhaustive()
    }
}
