//! [`Profile`]: how long each node of a graph takes, with no profiler.

mod critical;
mod instrument;
mod measure;
mod timing;
mod trace;

use std::fmt;
use std::time::Duration;

use crate::graph::NodeId;
use crate::topology::Topology;
use crate::topology::show::{OneLine, shortened};

pub use timing::Timing;

/// How long each node of a graph took: [`Graph::profile`](crate::Graph::profile) makes it.
///
/// The time of a node runs from the end of the last node that it waits for to its own end, as the
/// device's clock has it. So it holds all that the node costs the graph: the time that it runs and
/// the time until the device gets to it. A node that may begin while another still runs (a
/// programmatic dependency) counts from the end of that one, so that the times along a path add up
/// to the whole.
///
/// The marks hang beside the nodes, and slow them little: on an H200 the sum of a chain is within
/// 2 % of the replay for nodes of 20 microseconds, and within 7 % for nodes of 5. What is shorter,
/// and graphs that run dozens of short nodes at once, the marks slow down visibly: look at
/// [`overhead`](Profile::overhead). The driver's clock has steps of some tenths of a microsecond;
/// the first nodes are known to about 2 microseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    topology: Topology,
    /// The names of the nodes.
    ids: Vec<NodeId>,
    nodes: Vec<NodeProfile>,
    critical_path: Vec<usize>,
    runs: usize,
    replay: Timing,
    profiled: Timing,
}

/// How long a node took.
#[derive(Clone, Debug)]
pub struct NodeProfile {
    start: Duration,
    time: Timing,
    critical: bool,
}

impl NodeProfile {
    /// When the last node that it waits for had ended, since the graph began; the median.
    pub fn start(&self) -> Duration {
        self.start
    }

    /// How long it took from there to its end.
    pub fn time(&self) -> Timing {
        self.time
    }

    /// Whether it is on the critical path.
    pub fn is_critical(&self) -> bool {
        self.critical
    }
}

impl Profile {
    /// The graph that was measured. Its nodes have the same indices as [`nodes`](Profile::nodes).
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How long each node took, in the order in which they were made.
    pub fn nodes(&self) -> &[NodeProfile] {
        &self.nodes
    }

    /// How long the node took. None: it is no node of the graph that was measured.
    pub fn node(&self, id: NodeId) -> Option<&NodeProfile> {
        self.nodes.get(self.ids.iter().position(|known| *known == id)?)
    }

    /// The path through the dependencies whose nodes took longest together, by their medians: the
    /// indices of its nodes, the first one first. To make the graph faster, make these faster.
    pub fn critical_path(&self) -> &[usize] {
        &self.critical_path
    }

    /// How long the nodes of the critical path took together, by their medians.
    pub fn critical_time(&self) -> Duration {
        let path = self.critical_path.iter().filter_map(|index| self.nodes.get(*index));
        path.map(|node| node.time.median).sum()
    }

    /// How often the graph was measured.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// How long the graph takes without being measured, from launch to end as its stream sees it.
    pub fn replay(&self) -> Timing {
        self.replay
    }

    /// How long the copy took whose nodes were measured, from launch to end as its stream sees it.
    pub fn profiled(&self) -> Timing {
        self.profiled
    }

    /// How much longer the measured copy took than the graph, by their medians: the sum of what the
    /// marks added.
    pub fn overhead(&self) -> Duration {
        self.profiled.median.saturating_sub(self.replay.median)
    }
}

impl fmt::Display for Profile {
    /// A table: for each node the median, the least and the most time in microseconds, its share of
    /// the critical path if it is on it, and what it does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, runs) = (self.nodes.len(), self.runs);
        writeln!(f, "{nodes} nodes, {runs} runs; times in microseconds")?;
        writeln!(
            f,
            "{:>6} {:>10} {:>10} {:>10} {:>9}  operation",
            "node", "median", "min", "max", "critical"
        )?;
        let critical = self.critical_time().as_secs_f64();
        for (index, (node, spec)) in self.nodes.iter().zip(self.topology.nodes()).enumerate() {
            let share = match node.critical && critical > 0.0 {
                true => format!("{:.1} %", 100.0 * node.time.median.as_secs_f64() / critical),
                false => String::new(),
            };
            write!(f, "{index:>6} {} {share:>9}  ", node.time)?;
            write!(f, "{}", OneLine(&spec.operation().to_string()))?;
            if let Some(label) = spec.label() {
                write!(f, ", labelled \"{}\"", OneLine(&shortened(label)))?;
            }
            if let Some(line) = spec.line() {
                write!(f, ", from {}", OneLine(&line.to_string()))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "  path {:>10}", timing::microseconds(self.critical_time()))?;
        writeln!(f, "replay {}", self.replay)?;
        write!(f, "marked {}", self.profiled)
    }
}
