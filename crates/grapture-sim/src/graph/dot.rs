//! A graph as Graphviz text.

use std::fmt::{self, Write};

use grapture_sys::{
    CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS,
    CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES,
    CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES,
    CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS,
    CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS,
    CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE,
    CUgraphDebugDot_flags, CUresult,
};

use super::definition::{FullEdge, Node};
use super::params::NodeParams;
use super::store::{Graph, GraphId, Graphs};
use crate::event::Event;
use crate::handle::Id;
use crate::work::KernelWork;

/// The flag that asks for everything.
const VERBOSE: u32 = CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE.0;

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
            if flags & (VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES.0) != 0 {
                write!(text, "\\n{:#x}", graph.handle(id).addr())?;
            }
            writeln!(text, "\"];")?;
        }
        for edge in graph.def.edges() {
            let style = style(&edge, flags);
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

/// How an edge is drawn: dashed where it does not wait for all of a node.
fn style(edge: &FullEdge, flags: u32) -> String {
    let port = edge.data.to_raw().from_port;
    let mut styles = Vec::new();
    if !edge.data.is_default() {
        styles.push("style=dashed".to_owned());
    }
    if flags & (VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO.0) != 0 {
        styles.push(format!("taillabel={port}"));
    }
    if styles.is_empty() { String::new() } else { format!(" [{}]", styles.join(" ")) }
}

/// What a node is, in a few words, and its parameters where they are asked for.
fn label(node: &Node, flags: u32) -> String {
    let asked = |flag: CUgraphDebugDot_flags| flags & (VERBOSE | flag.0) != 0;
    match &node.params {
        NodeParams::Empty => "empty".into(),
        NodeParams::Kernel(kernel) => kernel_label(&kernel.launch.work, asked),
        NodeParams::Copy(copy) if asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS) => {
            let work = &copy.work;
            let (from, to) = (work.source.address, work.target.address);
            let (width, height, depth) = (work.width, work.height, work.depth);
            format!("memcpy {from:#x} to {to:#x}\\n{width} x {height} x {depth}")
        }
        NodeParams::Copy(copy) => format!("memcpy {} bytes", copy.work.bytes()),
        NodeParams::Fill(fill) if asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS) => {
            let work = &fill.work;
            format!(
                "memset {:#x}\\n{} x {} of {} bytes: {:#x}",
                work.address, work.width, work.height, work.element, work.value
            )
        }
        NodeParams::Fill(_) => "memset".into(),
        NodeParams::Host(host) if asked(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS) => {
            format!("host {:#x}\\n{:#x}", host.function as usize, host.user_data)
        }
        NodeParams::Host(_) => "host".into(),
        NodeParams::MemOps(node) => {
            let detail = asked(CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS);
            let ops = node.batch.work.iter().filter(|_| detail);
            let ops: String = ops.map(|op| format!("\\n{op}")).collect();
            format!("batch of {} memory operations{ops}", node.batch.work.len())
        }
        NodeParams::Child(_) => "child graph".into(),
        NodeParams::Conditional(node) => {
            let handle = format!("\\nhandle {}", node.conditional.handle);
            let handle = if flags & VERBOSE != 0 { handle } else { String::new() };
            format!("conditional {:?} of {} graphs{handle}", node.branch, node.bodies.len())
        }
        NodeParams::Record(event) => format!("event record{}", event_label(*event, asked)),
        NodeParams::Wait(event) => format!("event wait{}", event_label(*event, asked)),
        NodeParams::Alloc(one) if asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS) => {
            format!("alloc {} bytes at {:#x}", one.bytes, one.address)
        }
        NodeParams::Alloc(_) => "alloc".into(),
        NodeParams::Free(one) if asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS) => {
            format!("free {:#x}", one.address)
        }
        NodeParams::Free(_) => "free".into(),
    }
}

fn kernel_label(work: &KernelWork, asked: impl Fn(CUgraphDebugDot_flags) -> bool) -> String {
    let mut text = format!("kernel {}", escaped(&work.code.name.to_string_lossy()));
    if asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS) {
        let (grid, block) = (work.grid, work.block);
        text += &format!("\\ngrid {grid:?} block {block:?} shared {}", work.shared_bytes);
    }
    if asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES) {
        let attributes = &work.attributes;
        let (cooperative, priority) = (attributes.cooperative, attributes.priority.unwrap_or(0));
        text += &format!("\\ncooperative {cooperative} priority {priority}");
    }
    text
}

fn event_label(event: Id<Event>, asked: impl Fn(CUgraphDebugDot_flags) -> bool) -> String {
    let detail = asked(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS);
    if detail { format!(" {:#x}", event.raw().addr()) } else { String::new() }
}

/// A name as it can stand in a quoted label.
fn escaped(name: &str) -> String {
    name.chars()
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}
