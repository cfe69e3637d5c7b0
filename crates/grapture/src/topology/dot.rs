//! A topology in the language of Graphviz.

use std::fmt::{self, Write};

use crate::topology::Topology;
use crate::topology::show::is_unsafe;

impl Topology {
    /// The topology in the language of Graphviz. A programmatic dependency is dashed; a child graph
    /// or the body of a conditional node is a cluster beside the node that runs it.
    ///
    /// The same topology, with its nodes in the same order, gives the same text.
    ///
    /// ```
    /// # use grapture::*;
    /// let mut plan = StreamCapture::new();
    /// plan.record_host();
    /// assert!(plan.end().to_dot().contains("n0 [label=\"0: host function\"]"));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn to_dot(&self) -> String {
        let mut text = String::new();
        text.push_str("digraph topology {\n    node [shape=box];\n");
        // INVARIANT: writing to a `String` does not fail.
        let _ = self.write_dot(&mut text, "n", 1);
        text.push_str("}\n");
        text
    }

    /// `prefix` begins the names of the nodes, and tells those of an inner graph from its parent's.
    fn write_dot(&self, text: &mut String, prefix: &str, depth: usize) -> fmt::Result {
        let indent = depth * 4;
        for (index, node) in self.nodes.iter().enumerate() {
            let lines: Vec<_> = node.caption(index).iter().map(|line| escape(line)).collect();
            writeln!(text, "{:indent$}{prefix}{index} [label=\"{}\"];", "", lines.join("\\n"))?;
            let inner = node.operation().inner();
            for (place, (name, graph)) in inner.iter().enumerate() {
                let (mark, title) = match inner.len() {
                    1 => (String::new(), String::new()),
                    _ => (format!("b{place}_"), format!(", {name}")),
                };
                let prefix = format!("{prefix}{index}_{mark}");
                let cluster = prefix.trim_end_matches('_');
                writeln!(text, "{:indent$}subgraph cluster_{cluster} {{", "")?;
                writeln!(text, "{:indent$}    label=\"node {index}{title}\";", "")?;
                graph.write_dot(text, &prefix, depth + 1)?;
                writeln!(text, "{:indent$}}}", "")?;
            }
        }
        for edge in &self.edges {
            let style = if edge.is_programmatic() { " [style=dashed]" } else { "" };
            let (from, to) = (edge.from(), edge.to());
            writeln!(text, "{:indent$}{prefix}{from} -> {prefix}{to}{style};", "")?;
        }
        Ok(())
    }
}

/// Makes a text safe within the quotes of a label: it shows as it is, whatever it holds.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            // Graphviz reads the entities of HTML in every label.
            '&' => escaped.push_str("&amp;"),
            unsafe_one if is_unsafe(unsafe_one) => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hostile_labels_stay_within_their_quotes() {
        assert_eq!(escape(r#"a"b"#), r#"a\"b"#);
        assert_eq!(escape(r"a\"), r"a\\");
        assert_eq!(escape("a\nb"), r"a\nb");
        assert_eq!(escape("a\r\tb\0"), "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(escape("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(escape("<b>{x|y}</b>"), "<b>{x|y}</b>");
        assert_eq!(escape("&lt;"), "&amp;lt;");
        assert_eq!(escape(r#"\""#), r#"\\\""#);
    }
}
