//! A topology as a list to read.

use std::fmt;

use crate::topology::show::{OneLine, shortened};
use crate::topology::{Topology, TopologyNode};

impl fmt::Display for Topology {
    /// One line for each node: its index, what it does, what else is known of it, and which nodes
    /// it waits for; a `~` stands before one that it need not see end. The nodes of a child graph
    /// or of a body follow, indented.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes, {} dependencies", self.nodes.len(), self.edges.len())?;
        self.list(f, 0)
    }
}

impl Topology {
    fn list(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        let mut waits = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            // INVARIANT: `new` has checked both ends of every edge.
            waits[edge.to()].push((edge.from(), edge.is_programmatic()));
        }
        for (index, (node, waits)) in self.nodes.iter().zip(waits).enumerate() {
            write!(f, "\n{:indent$}{index}: {node}", "")?;
            for (place, (from, programmatic)) in waits.into_iter().enumerate() {
                f.write_str(if place == 0 { ", after " } else { " and " })?;
                write!(f, "{}{from}", if programmatic { "~" } else { "" })?;
            }
            let inner = node.operation().inner();
            for (name, graph) in &inner {
                let mut deeper = indent + 4;
                if inner.len() > 1 {
                    write!(f, "\n{:deeper$}{name}:", "")?;
                    deeper += 4;
                }
                graph.list(f, deeper)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for TopologyNode {
    /// The node on one line, whatever its names hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(&self.operation().to_string()))?;
        for parameter in self.parameters() {
            let value = shortened(parameter.value());
            write!(f, ", {} {}", OneLine(parameter.name()), OneLine(&value))?;
        }
        if let Some(label) = self.label() {
            write!(
                f,
                ", labelled \"{}\"",
                OneLine(&shortened(label)).to_string().replace('"', "\\\"")
            )?;
        }
        if let Some(line) = self.line() {
            write!(f, ", from {}", OneLine(&line.to_string()))?;
        }
        Ok(())
    }
}

impl TopologyNode {
    /// What a picture shows of it, one thing a line: the operation, each parameter, the label, the
    /// line. They may hold anything.
    pub(super) fn caption(&self, index: usize) -> Vec<String> {
        let mut caption = vec![format!("{index}: {}", self.operation())];
        let parameters = self.parameters().iter();
        caption.extend(parameters.map(|one| format!("{} {}", one.name(), shortened(one.value()))));
        caption.extend(self.label().map(|label| shortened(label).into_owned()));
        caption.extend(self.line().map(ToString::to_string));
        caption
    }
}
