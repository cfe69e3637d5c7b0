//! The measurement of a graph.

use std::time::Duration;

use grapture_sys::{CU_EVENT_DEFAULT, CUDA_ERROR_INVALID_VALUE};

use crate::error::{CudaError, CudaResult};
use crate::graph::exec::{check_launch_stream, launch_into_capture};
use crate::graph::profile::critical::critical_path;
use crate::graph::profile::instrument::{Instrumented, Interval, is_supported};
use crate::graph::profile::{NodeProfile, Profile, Timing};
use crate::graph::{Graph, GraphExec, InstantiateFlags, InstantiateOptions};
use crate::raw_event::RawEvent;
use crate::stream::Stream;
use crate::topology::Topology;

impl Graph {
    /// Measures how long each node takes. Blocks until that is done.
    ///
    /// It **runs the graph** `2 * (runs + 1)` times on the stream: as it is, and a copy in which an
    /// event follows each node, in turn, the first of each to warm up. So whatever the nodes do to
    /// memory and to the host is done as often.
    ///
    /// The whole of a child graph is measured as one node, and so is a conditional node with all that
    /// its bodies run.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let stream = Stream::new(&context)?;
    /// let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 1024)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
    ///     buffer.fill(1, &stream)?;
    ///     stream.host_function(|| {})
    /// })?;
    /// let profile = graph.profile(&stream, 10)?;
    /// assert_eq!(profile.critical_path(), [0, 1]);
    /// println!("{profile}");
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): no runs; a stream of another context, or that captures; a
    /// node that allocates or frees memory (the driver copies no graph that has one: use
    /// [`profile_of`](Graph::profile_of)), or that waits for or signals an external semaphore.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.1. Else as
    /// [`instantiate`](Graph::instantiate) and [`launch`](GraphExec::launch).
    #[doc(alias = "cuEventElapsedTime")]
    pub fn profile(&self, stream: &Stream, runs: usize) -> CudaResult<Profile> {
        check_runs(self, stream, runs)?;
        // Only one executable can be there of a graph with conditional nodes: of the copy of it.
        let plain = match self.has_branchings() {
            true => self.try_clone()?.instantiate()?,
            false => self.instantiate_itself(&InstantiateOptions::new())?,
        };
        let copy = Instrumented::new(self, &InstantiateOptions::new())?;
        measure(self.topology()?, copy, &plain, stream, runs)
    }

    /// Measures how long each node takes of a graph that cannot be copied, as
    /// [`profile`](Graph::profile) does of others: `build` is called twice, for one that is run as it
    /// is and one that is marked. Blocks until it is done.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let stream = Stream::new(&context)?;
    /// let profile = Graph::profile_of(&stream, 10, || {
    ///     let mut graph = Graph::new(&context)?;
    ///     let mut scratch = graph.add_alloc::<u32>(1024, &[])?;
    ///     let fill = graph.add_fill(FillNode::new(&mut scratch, 7)?, &[])?;
    ///     graph.add_free(&scratch, &[fill])?;
    ///     Ok(graph)
    /// })?;
    /// assert_eq!(profile.critical_path(), [0, 1, 2]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `build` gives. [`Refused`](CudaError::Refused): the second graph does something else than
    /// the first, or as [`profile`](Graph::profile), but for nodes that allocate or free memory.
    pub fn profile_of(
        stream: &Stream,
        runs: usize,
        mut build: impl FnMut() -> CudaResult<Graph>,
    ) -> CudaResult<Profile> {
        let graph = build()?;
        check_runs(&graph, stream, runs)?;
        let (topology, nodes) = (graph.topology()?, graph.nodes()?);
        let twin = build()?;
        let other = twin.topology()?;
        // The nodes of both are paired by their order.
        let kinds = |topology: &Topology| -> Vec<_> {
            topology.nodes().iter().map(|node| node.operation().clone()).collect()
        };
        if kinds(&topology) != kinds(&other) || topology.edges() != other.edges() {
            let problem = "the second one that was built does something else than the first, and \
                           both are run to be compared";
            return Err(refused("graph", problem));
        }
        let plain = graph.instantiate_itself(&InstantiateOptions::new())?;
        measure(topology, Instrumented::twin(twin, &nodes)?, &plain, stream, runs)
    }
}

impl GraphExec {
    /// Measures how long each node takes, as [`Graph::profile`] does; it is this executable that
    /// is run as it is. Blocks until that is done.
    ///
    /// # Errors
    ///
    /// As [`Graph::profile`]. [`Refused`](CudaError::Refused): the executable did not keep its
    /// [graph](GraphExec::graph), of which the measured copy is made, or was changed since.
    pub fn profile(&self, stream: &Stream, runs: usize) -> CudaResult<Profile> {
        let graph = self.graph().ok_or_else(|| {
            refused(
                "graph",
                "the executable did not keep it, and the driver does not tell what an executable \
                 does: use `Graph::profile`",
            )
        })?;
        if !self.is_as(graph) {
            return Err(refused(
                "graph",
                "nodes of the executable were changed since it was made, and the driver does not \
                 tell what they do: change the graph, and use `Graph::profile`",
            ));
        }
        check_runs(graph, stream, runs)?;
        // The others say who may launch it, and what becomes of memory that it does not have.
        let flags = self.flags()? & InstantiateFlags::USE_NODE_PRIORITY;
        let options = InstantiateOptions::new().flags(flags);
        let copy = Instrumented::new(graph, &options)?;
        copy.switch_off_as(graph, self)?;
        measure(graph.topology()?, copy, self, stream, runs)
    }
}

fn check_runs(graph: &Graph, stream: &Stream, runs: usize) -> CudaResult<()> {
    if !is_supported(graph) {
        return Err(CudaError::NotSupported);
    }
    if runs == 0 {
        return Err(refused("runs", "it is 0: measure at least once"));
    }
    check_launch_stream(graph.context(), stream)
}

fn measure(
    topology: Topology,
    copy: Instrumented,
    plain: &GraphExec,
    stream: &Stream,
    runs: usize,
) -> CudaResult<Profile> {
    let watch = Watch::new(stream)?;
    let (mut replays, mut profiled) = (Vec::new(), Vec::new());
    let mut intervals: Vec<Vec<Interval>> = vec![Vec::new(); copy.nodes.len()];
    for run in 0..=runs {
        let (replay, marked) = (watch.time(plain)?, watch.time(&copy.exec)?);
        if run == 0 {
            continue;
        }
        replays.push(replay);
        profiled.push(marked);
        for (node, interval) in intervals.iter_mut().zip(copy.read(&watch.start)?) {
            node.push(interval);
        }
    }
    let starts: Vec<_> = intervals.iter().map(|node| timing(node, |one| one.start)).collect();
    let times: Vec<_> = intervals.iter().map(|node| timing(node, |one| one.time)).collect();
    let medians: Vec<Duration> = times.iter().map(|time| time.median).collect();
    let critical_path = critical_path(&copy.before, &topology.sorted(), &medians);
    let nodes = starts.into_iter().zip(times).enumerate();
    let nodes = nodes.map(|(index, (start, time))| NodeProfile {
        start: start.median,
        time,
        critical: critical_path.contains(&index),
    });
    Ok(Profile {
        nodes: nodes.collect(),
        topology,
        ids: copy.nodes,
        critical_path,
        runs,
        replay: Timing::of(replays),
        profiled: Timing::of(profiled),
    })
}

fn timing(intervals: &[Interval], of: impl Fn(&Interval) -> Duration) -> Timing {
    Timing::of(intervals.iter().map(of).collect())
}

/// Times launches on a stream.
struct Watch<'a> {
    stream: &'a Stream,
    start: RawEvent,
    end: RawEvent,
}

impl<'a> Watch<'a> {
    fn new(stream: &'a Stream) -> CudaResult<Watch<'a>> {
        let event = || RawEvent::with_flags(stream.context(), CU_EVENT_DEFAULT.0);
        Ok(Watch { stream, start: event()?, end: event()? })
    }

    /// Launches once and waits for the end.
    fn time(&self, exec: &GraphExec) -> CudaResult<Duration> {
        self.record(&self.start)?;
        exec.launch(self.stream)?;
        self.record(&self.end)?;
        self.end.synchronize()?;
        self.end.elapsed_since(&self.start)
    }

    fn record(&self, event: &RawEvent) -> CudaResult<()> {
        self.stream.outside_capture(|| event.record(self.stream))?.ok_or_else(launch_into_capture)
    }
}

#[cold]
fn refused(what: &'static str, problem: &str) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}
