//! A profile as a trace that browsers show.

use serde::Serialize;

use crate::graph::profile::Profile;

/// The form that `chrome://tracing` and <https://ui.perfetto.dev> read.
#[derive(Serialize)]
struct Trace {
    #[serde(rename = "displayTimeUnit")]
    display_time_unit: &'static str,
    #[serde(rename = "traceEvents")]
    events: Vec<Complete>,
}

/// A thing that began and ended.
#[derive(Serialize)]
struct Complete {
    name: String,
    cat: String,
    ph: &'static str,
    /// The start and the length in microseconds.
    ts: f64,
    dur: f64,
    pid: u32,
    tid: usize,
    args: Arguments,
}

#[derive(Serialize)]
struct Arguments {
    node: usize,
    operation: String,
    min_us: f64,
    max_us: f64,
    critical: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
}

impl Profile {
    /// The medians as a trace in Chrome's JSON form, which `chrome://tracing` and Perfetto show:
    /// what ran at the same time lies in different rows.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let graph = stream.capture(CaptureMode::ThreadLocal, |_| stream.host_function(|| {}))?;
    /// let profile = graph.profile(&stream, 10)?;
    /// assert!(profile.to_chrome_trace().contains("traceEvents"));
    /// println!("{:?} of {:?}, {:?} added", profile.critical_time(), profile.replay(), profile.overhead());
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn to_chrome_trace(&self) -> String {
        let mut events: Vec<Complete> = self.events();
        events.sort_by(|one, other| one.ts.total_cmp(&other.ts));
        spread(&mut events);
        let trace = Trace { display_time_unit: "ns", events };
        // INVARIANT: every key is a string, and a `String` takes all that is written to it.
        serde_json::to_string_pretty(&trace).expect("plain data is JSON")
    }

    fn events(&self) -> Vec<Complete> {
        let nodes = self.nodes.iter().zip(self.topology.nodes()).enumerate();
        nodes
            .map(|(index, (node, spec))| Complete {
                name: spec.label().map_or_else(|| spec.operation().title(), str::to_owned),
                cat: spec.operation().kind_name().to_owned(),
                ph: "X",
                ts: node.start.as_secs_f64() * 1e6,
                dur: node.time.median.as_secs_f64() * 1e6,
                pid: 0,
                tid: 0,
                args: Arguments {
                    node: index,
                    operation: spec.operation().to_string(),
                    min_us: node.time.min.as_secs_f64() * 1e6,
                    max_us: node.time.max.as_secs_f64() * 1e6,
                    critical: node.critical,
                    label: spec.label().map(str::to_owned),
                    line: spec.line().map(ToString::to_string),
                },
            })
            .collect()
    }
}

/// Puts each of the events, which are in the order of their starts, into the first row that is free
/// by then.
fn spread(events: &mut [Complete]) {
    /// Medians of start and length do not add up to the last hundredth of a microsecond.
    const SLACK: f64 = 0.01;
    let mut free_from: Vec<f64> = Vec::new();
    for event in events {
        let end = event.ts + event.dur;
        match free_from.iter().position(|free| *free <= event.ts + SLACK) {
            Some(row) => {
                event.tid = row;
                // INVARIANT: `position` gave the row.
                free_from[row] = end;
            }
            None => {
                event.tid = free_from.len();
                free_from.push(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Complete, Profile};
    use crate::graph::profile::{NodeProfile, Timing};
    use crate::topology::{OperationSpec, SourceLine, Topology, TopologyEdge, TopologyNode};

    /// A fork of two nodes with hostile names, and a node that joins them.
    fn profile() -> Profile {
        let kernel = |name: &str| OperationSpec::Kernel {
            name: name.to_owned(),
            grid: 1.into(),
            block: 1.into(),
            shared_bytes: 0,
        };
        let nodes = vec![
            TopologyNode::new(kernel("\"},\n{\"ph\":\"X\"\0\u{202e}")),
            TopologyNode::new(OperationSpec::Host).with_label("</script> \u{1f600}"),
            TopologyNode::new(OperationSpec::Empty).with_line(SourceLine::new("a\\\"b.rs", 1, 2)),
        ];
        let edges = vec![TopologyEdge::new(0, 2, false), TopologyEdge::new(1, 2, false)];
        let topology = Topology::new(nodes, edges).expect("it is valid");
        let times = [(0, 10, false), (0, 20, true), (20, 1, true)];
        let nodes = times.map(|(start, time, critical)| NodeProfile {
            start: Duration::from_micros(start),
            time: Timing::same(Duration::from_micros(time)),
            critical,
        });
        Profile {
            topology,
            ids: Vec::new(),
            nodes: nodes.into(),
            critical_path: vec![1, 2],
            runs: 3,
            replay: Timing::same(Duration::from_micros(20)),
            profiled: Timing::same(Duration::from_micros(25)),
        }
    }

    #[test]
    fn hostile_names_stay_in_their_strings() {
        let trace: serde_json::Value = serde_json::from_str(&profile().to_chrome_trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 3);
        assert_eq!(events[0]["name"], "kernel \"},\n{\"ph\":\"X\"\0\u{202e}");
        assert_eq!(events[1]["name"], "</script> \u{1f600}");
        assert_eq!(events[2]["args"]["line"], "a\\\"b.rs:1:2");
        assert_eq!(events[1]["dur"], 20.0);
    }

    #[test]
    fn what_runs_at_once_lies_in_different_rows() {
        let rows: Vec<usize> = {
            let mut events: Vec<Complete> = profile().events();
            super::spread(&mut events);
            events.iter().map(|event| event.tid).collect()
        };
        assert_eq!(rows, [0, 1, 0]);
    }

    #[test]
    fn the_table_has_a_line_for_each_node_whatever_its_name() {
        let profile = profile();
        let table = profile.to_string();
        assert_eq!(table.lines().count(), 2 + 3 + 3, "{table}");
        assert!(!table.contains('\u{202e}') && !table.contains('\0'), "{table}");
        assert!(table.contains("    95.2 %  host function, labelled"), "{table}");
        assert_eq!(profile.overhead(), Duration::from_micros(5));
        assert_eq!(profile.critical_time(), Duration::from_micros(21));
    }
}
