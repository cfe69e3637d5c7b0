//! A topology as a list to read.

use std::fmt;

use crate::topology::Topology;

impl fmt::Display for Topology {
    /// One line for each node: its index, what it does, and which nodes it waits for; a `~` stands
    /// before one that it need not see end. The nodes of a child graph follow, indented.
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
            write!(f, "\n{:indent$}{index}: {}", "", OneLine(&node.operation().to_string()))?;
            for (place, (from, programmatic)) in waits.into_iter().enumerate() {
                f.write_str(if place == 0 { ", after " } else { " and " })?;
                write!(f, "{}{from}", if programmatic { "~" } else { "" })?;
            }
            if let crate::topology::OperationSpec::ChildGraph(child) = node.operation() {
                child.list(f, indent + 4)?;
            }
        }
        Ok(())
    }
}

/// A text with its line ends and control characters made visible.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}
