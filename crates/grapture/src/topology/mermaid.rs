//! A topology in the language of Mermaid.

use std::fmt::{self, Write};

use crate::topology::Topology;
use crate::topology::show::is_unsafe;

impl Topology {
    /// The topology as a flowchart in the language of Mermaid, which pages of Markdown show as a
    /// picture. A programmatic dependency is dotted; a child graph or the body of a conditional
    /// node is a subgraph beside the node that runs it.
    ///
    /// The same topology, with its nodes in the same order, gives the same text.
    ///
    /// ```
    /// use grapture::StreamCapture;
    ///
    /// let mut plan = StreamCapture::new();
    /// plan.record_host();
    /// plan.record_empty();
    /// assert_eq!(
    ///     plan.end().to_mermaid(),
    ///     "flowchart TD\n    n0[\"0: host function\"]\n    n1[\"1: empty\"]\n    n0 --> n1\n"
    /// );
    /// ```
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        // INVARIANT: writing to a `String` does not fail.
        let _ = self.write_mermaid(&mut text, "n", 1);
        text
    }

    /// `prefix` begins the names of the nodes, and tells those of an inner graph from its parent's.
    fn write_mermaid(&self, text: &mut String, prefix: &str, depth: usize) -> fmt::Result {
        let indent = depth * 4;
        for (index, node) in self.nodes.iter().enumerate() {
            let lines: Vec<_> = node.caption(index).iter().map(|line| escape(line)).collect();
            writeln!(text, "{:indent$}{prefix}{index}[\"{}\"]", "", lines.join("<br/>"))?;
            for (place, (name, graph)) in node.operation().inner().iter().enumerate() {
                let prefix = format!("{prefix}{index}_{place}_");
                let title = format!("node {index}, {name}");
                writeln!(text, "{:indent$}subgraph {prefix}s[\"{title}\"]", "")?;
                graph.write_mermaid(text, &prefix, depth + 1)?;
                writeln!(text, "{:indent$}end", "")?;
            }
        }
        for edge in &self.edges {
            let arrow = if edge.is_programmatic() { "-.->" } else { "-->" };
            let (from, to) = (edge.from(), edge.to());
            writeln!(text, "{:indent$}{prefix}{from} {arrow} {prefix}{to}", "")?;
        }
        Ok(())
    }
}

/// Makes a text safe within the quotes of a label. Mermaid has no escapes, but entities by number;
/// whatever could mean something to it, or to the HTML that it makes, is written as one.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("<br/>"),
            unsafe_one if is_unsafe(unsafe_one) => escaped.push(char::REPLACEMENT_CHARACTER),
            plain if plain.is_alphanumeric() || " ,.:_-+()/".contains(plain) => escaped.push(plain),
            other => {
                // INVARIANT: writing to a `String` does not fail.
                let _ = write!(escaped, "#{};", u32::from(other));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hostile_labels_stay_within_their_quotes() {
        assert_eq!(escape("a\"] --> b"), "a#34;#93; --#62; b");
        assert_eq!(escape("<img src=x>"), "#60;img src#61;x#62;");
        assert_eq!(escape("#quot; %%{init}%%"), "#35;quot#59; #37;#37;#123;init#125;#37;#37;");
        assert_eq!(escape("`md` \\n"), "#96;md#96; #92;n");
        assert_eq!(escape("a\nb\0\u{202e}"), "a<br/>b\u{fffd}\u{fffd}");
        assert_eq!(escape("\u{3bb} \u{1f600}"), "\u{3bb} #128512;");
    }
}
