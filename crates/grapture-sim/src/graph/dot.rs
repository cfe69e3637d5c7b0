//! A graph as Graphviz text.

use std::fmt::{self, Write};

use super::definition::Node;
use super::params::NodeParams;
use super::store::{Graph, GraphId, Graphs};
use grapture_sys::CUresult;

/// The flag that asks for everything.
const VERBOSE: u32 = 1;
/// The flag that asks for handles.
const HANDLES: u32 = 1 << 10;
/// The flags that ask for the parameters of some kind of node.
const PARAMS: u32 = !(VERBOSE | 2 | HANDLES);

impl Graphs {
    /// The text of a graph and of those it embeds.
    pub(crate) fn dot(&self, id: GraphId, flags: u32) -> Result<String, CUresult> {
        let mut text = String::from("digraph grapture_sim {\n");
        // Writing to a string does not fail.
        let _ = self.write_graph(&mut text, self.graph(id)?, flags);
        text.push_str("}\n");
        Ok(text)
    }

    fn write_graph(&self, text: &mut String, graph: &Graph, flags: u32) -> fmt::Result {
        let number = graph.number;
        writeln!(text, "subgraph cluster_{number} {{\nlabel=\"graph {number}\";")?;
        for (id, node) in graph.def.nodes() {
            let label = label(node, flags);
            write!(text, "\"graph_{number}_node_{}\" [label=\"{}: {label}", id.0, id.0)?;
            if flags & (VERBOSE | HANDLES) != 0 {
                write!(text, "\\n{:#x}", graph.handle(id).addr())?;
            }
            writeln!(text, "\"];")?;
        }
        for edge in graph.def.edges() {
            let style = if edge.data.is_default() { "" } else { " [style=dashed]" };
            let (from, to) = (edge.from.0, edge.to.0);
            writeln!(
                text,
                "\"graph_{number}_node_{from}\" -> \"graph_{number}_node_{to}\"{style};"
            )?;
        }
        text.push_str("}\n");
        for owned in graph.def.nodes().flat_map(|(_, node)| node.params.embedded()) {
            if let Ok(owned) = self.graph(*owned) {
                self.write_graph(text, owned, flags)?;
            }
        }
        Ok(())
    }
}

/// What a node is, in a few words.
fn label(node: &Node, flags: u32) -> String {
    let detailed = flags & (VERBOSE | PARAMS) != 0;
    match &node.params {
        NodeParams::Empty => "empty".into(),
        NodeParams::Kernel(kernel) => {
            let work = &kernel.launch.work;
            let name = escaped(&work.code.name.to_string_lossy());
            if detailed {
                format!("kernel {name}\\ngrid {:?} block {:?}", work.grid, work.block)
            } else {
                format!("kernel {name}")
            }
        }
        NodeParams::Copy(copy) if detailed => {
            let (from, to) = (copy.work.source.address, copy.work.target.address);
            format!("memcpy {from:#x} to {to:#x}\\n{} bytes", copy.work.bytes())
        }
        NodeParams::Copy(_) => "memcpy".into(),
        NodeParams::Fill(fill) if detailed => {
            let work = &fill.work;
            format!(
                "memset {:#x}\\n{} x {} of {} bytes: {:#x}",
                work.address, work.width, work.height, work.element, work.value
            )
        }
        NodeParams::Fill(_) => "memset".into(),
        NodeParams::Host(_) => "host".into(),
        NodeParams::MemOps(node) => format!("batch of {} memory operations", node.batch.work.len()),
        NodeParams::Child(_) => "child graph".into(),
        NodeParams::Conditional(node) => {
            format!("conditional {:?} of {} graphs", node.branch, node.bodies.len())
        }
        NodeParams::Record(_) => "event record".into(),
        NodeParams::Wait(_) => "event wait".into(),
        NodeParams::Alloc(allocation) => {
            format!("alloc {} bytes at {:#x}", allocation.bytes, allocation.address)
        }
        NodeParams::Free(allocation) => format!("free {:#x}", allocation.address),
    }
}

/// A name as it can stand in a quoted label.
fn escaped(name: &str) -> String {
    name.chars()
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}
