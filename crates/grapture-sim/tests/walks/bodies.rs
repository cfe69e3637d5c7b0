//! Steps on conditional nodes and on graphs inside graphs.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::call;
use crate::graphs::{nodes, shape, some_nodes};
use crate::walk::{Graph, Walk};

/// Adds a conditional node to a graph; its bodies can be filled from then on.
pub fn branch(walk: &mut Walk) {
    let Some(graph) = walk.graph() else { return };
    let (after, places) = some_nodes(walk, graph);
    let default = walk.source.below(3) as u32;
    let kind = [CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_SWITCH][walk.source.below(2)];
    let size = walk.source.below(4) as u32;
    let mut handle = 0;
    let (context, flags) = (walk.context, u32::from(!walk.source.chance(4)));
    let made = call!(
        walk.driver,
        cuGraphConditionalHandleCreate(&mut handle, graph.raw, context, default, flags)
    );
    let mut params =
        CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_CONDITIONAL, ..Default::default() };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size,
        ctx: context,
        ..Default::default()
    };
    let (list, count, data) = (after.as_ptr(), after.len(), null());
    let mut node = null_mut();
    let code =
        call!(walk.driver, cuGraphAddNode_v2(&mut node, graph.raw, list, data, count, &mut params));
    if code == 0 {
        // SAFETY: the parameters are those of a conditional node.
        let made = unsafe { params.__bindgen_anon_1.conditional };
        // SAFETY: the node was added, so the driver made an array of so many bodies, which lives as
        // long as the node.
        let bodies = unsafe { std::slice::from_raw_parts(made.phGraph_out, made.size as usize) };
        for raw in bodies.iter().copied() {
            let number = walk.number();
            walk.bodies.push((graph.number, Graph { number, raw }));
        }
    }
    let text = format!(
        "add to {} after {places}: condition {} of {size}, default {default}, flags {flags}",
        graph.number, kind.0
    );
    let answer = format!("{made} {code}{}", shape(walk, graph.raw));
    walk.step(text, answer);
}

/// A body of a conditional node, or the graph of a child node.
fn inside(walk: &mut Walk) -> Option<Graph> {
    if walk.source.chance(2) {
        let bodies = walk.bodies.clone();
        return walk.source.of(&bodies).map(|(_, body)| body);
    }
    let graph = walk.graph()?;
    let all = nodes(walk, graph.raw);
    let node = walk.source.of(&all)?;
    let mut raw = null_mut();
    let code = call!(walk.driver, cuGraphChildGraphNodeGetGraph(node, &mut raw));
    (code == 0).then_some(Graph { number: 1000 + graph.number, raw })
}

/// Does to a graph inside another what is done to graphs.
pub fn edit(walk: &mut Walk) {
    let Some(graph) = inside(walk) else { return };
    let what = walk.source.below(9);
    let driver = walk.driver.clone();
    let raw = graph.raw;
    let mut out = null_mut();
    let code = match what {
        0..5 => return crate::graphs::add_to(walk, graph),
        5 => call!(driver, cuGraphDestroy(raw)),
        6 => {
            let mut exec = null_mut();
            let code = call!(driver, cuGraphInstantiateWithFlags(&mut exec, raw, 0));
            if code == 0 {
                call!(driver, cuGraphExecDestroy(exec));
            }
            code
        }
        7 => {
            let code = call!(driver, cuGraphClone(&mut out, raw));
            if code == 0 {
                call!(driver, cuGraphDestroy(out));
            }
            code
        }
        _ => {
            let all = nodes(walk, raw);
            let Some(node) = walk.source.of(&all) else { return };
            call!(driver, cuGraphDestroyNode(node))
        }
    };
    let answer = format!("{code}{}", shape(walk, raw));
    walk.step(format!("inside {what} of {}", graph.number), answer);
}
