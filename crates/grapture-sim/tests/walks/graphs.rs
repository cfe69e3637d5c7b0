//! Steps on graphs and executables.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::call;
use crate::streams::counting;
use crate::walk::{Exec, Graph, Walk};

const MOST: usize = 4;

pub fn nodes(walk: &Walk, graph: CUgraph) -> Vec<CUgraphNode> {
    let mut count = 0;
    if call!(walk.driver, cuGraphGetNodes(graph, null_mut(), &mut count)) != 0 || count == 0 {
        return Vec::new();
    }
    let mut nodes = vec![null_mut(); count];
    call!(walk.driver, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
    nodes
}

fn place(nodes: &[CUgraphNode], node: CUgraphNode) -> String {
    let found = nodes.iter().position(|known| *known == node);
    found.map_or_else(|| if node.is_null() { "-" } else { "?" }.to_owned(), |n| n.to_string())
}

/// The kinds of the nodes and the edges, in the order that the driver gives them.
pub fn shape(walk: &Walk, graph: CUgraph) -> String {
    let nodes = nodes(walk, graph);
    let mut text = String::from("[");
    for node in &nodes {
        let mut kind = CUgraphNodeType(99);
        call!(walk.driver, cuGraphNodeGetType(*node, &mut kind));
        text += &kind.0.to_string();
    }
    let mut count = 0;
    let none = null_mut();
    call!(walk.driver, cuGraphGetEdges_v2(graph, none, none, null_mut(), &mut count));
    if count > 0 {
        let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
        let mut data = vec![CUgraphEdgeData::default(); count];
        let (from_at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
        call!(
            walk.driver,
            cuGraphGetEdges_v2(graph, from_at, to_at, data.as_mut_ptr(), &mut count)
        );
        for (from, to) in from.iter().zip(&to) {
            text += &format!(",{}>{}", place(&nodes, *from), place(&nodes, *to));
        }
    }
    text + "]"
}

pub fn create(walk: &mut Walk) {
    if walk.graphs.len() >= MOST {
        return;
    }
    let (flags, number) = (u32::from(walk.source.chance(12)), walk.number());
    let mut graph = null_mut();
    let code = call!(walk.driver, cuGraphCreate(&mut graph, flags));
    if code == 0 {
        walk.graphs.push(Graph { number, raw: graph });
    }
    walk.step(format!("graph {number} flags {flags}"), code.to_string());
}

pub fn destroy(walk: &mut Walk) {
    let Some(graph) = walk.graph().filter(|_| walk.graphs.len() > 1) else { return };
    let code = call!(walk.driver, cuGraphDestroy(graph.raw));
    if code == 0 {
        walk.graphs.retain(|known| known.number != graph.number);
        walk.bodies.retain(|(holder, _)| *holder != graph.number);
    }
    walk.step(format!("destroy graph {}", graph.number), code.to_string());
}

pub fn clone(walk: &mut Walk) {
    let Some(graph) = walk.graph().filter(|_| walk.graphs.len() < MOST) else { return };
    let (mut clone, number) = (null_mut(), walk.number());
    let code = call!(walk.driver, cuGraphClone(&mut clone, graph.raw));
    let mut answer = code.to_string();
    if code == 0 {
        answer += &shape(walk, clone);
        walk.graphs.push(Graph { number, raw: clone });
    }
    walk.step(format!("graph {number}, a clone of {}", graph.number), answer);
}

/// The parameters of a node, with what they point to.
struct Params {
    node: CUgraphNodeParams,
    arguments: Box<(CUdeviceptr, u32)>,
    pointers: Box<[*mut std::ffi::c_void; 2]>,
    text: String,
    /// The graph that goes into the node, and whether it moves there.
    child: Option<usize>,
    moves: bool,
}

/// Random parameters of a node, a few of them bad.
fn params(walk: &mut Walk) -> Option<Params> {
    let mut arguments = Box::new((walk.buffer, 1_u32));
    let pointers = Box::new([(&raw mut arguments.0).cast(), (&raw mut arguments.1).cast()]);
    let mut all = Params {
        node: CUgraphNodeParams::default(),
        arguments,
        pointers,
        text: String::new(),
        child: None,
        moves: false,
    };
    let kind = walk.source.below(9);
    let variant = walk.source.below(6);
    all.text = format!("kind {kind} variant {variant}");
    let (node, context) = (&mut all.node, walk.context);
    let target = [walk.buffer + 64, walk.pooled, walk.managed][walk.source.below(3)];
    match kind {
        0 => node.type_ = CU_GRAPH_NODE_TYPE_EMPTY,
        1 => {
            node.type_ = CU_GRAPH_NODE_TYPE_KERNEL;
            node.__bindgen_anon_1.kernel = CUDA_KERNEL_NODE_PARAMS_v3 {
                func: walk.kernels[variant % 3],
                gridDimX: 1,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: if variant == 5 { 2048 } else { 1 + variant as u32 },
                blockDimY: 1,
                blockDimZ: 1,
                kernelParams: all.pointers.as_mut_ptr(),
                ctx: context,
                ..Default::default()
            };
        }
        2 => {
            node.type_ = CU_GRAPH_NODE_TYPE_MEMSET;
            node.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
                dst: target,
                elementSize: [4, 4, 2, 1, 3, 4][variant],
                width: if variant == 5 { 0 } else { 4 },
                height: if variant == 1 { 2 } else { 1 },
                pitch: 64,
                ctx: context,
                ..Default::default()
            };
        }
        3 => {
            node.type_ = CU_GRAPH_NODE_TYPE_MEMCPY;
            node.__bindgen_anon_1.memcpy.copyCtx = context;
            node.__bindgen_anon_1.memcpy.copyParams = CUDA_MEMCPY3D_v2 {
                srcMemoryType: CU_MEMORYTYPE_DEVICE,
                srcDevice: if variant == 4 { 0 } else { walk.buffer + 128 },
                srcPitch: 64,
                dstMemoryType: if variant == 3 { CU_MEMORYTYPE_HOST } else { CU_MEMORYTYPE_DEVICE },
                dstHost: walk.pinned,
                dstDevice: target,
                dstPitch: 64,
                WidthInBytes: if variant == 5 { 0 } else { 16 },
                Height: if variant == 2 { 2 } else { 1 },
                Depth: 1,
                ..Default::default()
            };
        }
        4 => {
            let (function, data) = counting(walk);
            node.type_ = CU_GRAPH_NODE_TYPE_HOST;
            node.__bindgen_anon_1.host =
                CUDA_HOST_NODE_PARAMS_v2 { fn_: function, userData: data, ..Default::default() };
        }
        5 | 6 => {
            let event = walk.event();
            let event = walk.events[event];
            if kind == 5 {
                node.type_ = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
                node.__bindgen_anon_1.eventRecord =
                    CUDA_EVENT_RECORD_NODE_PARAMS { event, ..Default::default() };
            } else {
                node.type_ = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
                node.__bindgen_anon_1.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS { event };
            }
        }
        _ => {
            let graph = walk.graph()?;
            all.text += &format!(" of graph {}", graph.number);
            node.type_ = CU_GRAPH_NODE_TYPE_GRAPH;
            node.__bindgen_anon_1.graph.graph = graph.raw;
            all.child = Some(graph.number);
            // What a capture fills comes back at its end.
            if kind == 8 && walk.graphs.len() > 1 && !walk.captures() {
                let ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
                node.__bindgen_anon_1.graph.ownership = ownership;
                all.moves = true;
            }
        }
    }
    Some(all)
}

pub fn some_nodes(walk: &mut Walk, graph: Graph) -> (Vec<CUgraphNode>, String) {
    let all = nodes(walk, graph.raw);
    let count = walk.source.below(3).min(all.len());
    let places: Vec<usize> = (0..count).map(|_| walk.source.below(all.len())).collect();
    (places.iter().map(|place| all[*place]).collect(), format!("{places:?}"))
}

pub fn add(walk: &mut Walk) {
    if let Some(graph) = walk.graph() {
        add_to(walk, graph);
    }
}

pub fn add_to(walk: &mut Walk, graph: Graph) {
    let (after, places) = some_nodes(walk, graph);
    let Some(mut params) = params(walk) else { return };
    // A graph in itself brings the driver down.
    let outer = walk.graphs.iter().any(|known| known.number == graph.number);
    if params.child.is_some_and(|child| child == graph.number || !outer) {
        return;
    }
    let mut node = null_mut();
    let (list, count, data) = (after.as_ptr(), after.len(), null());
    let code = call!(
        walk.driver,
        cuGraphAddNode_v2(&mut node, graph.raw, list, data, count, &mut params.node)
    );
    drop(params.arguments);
    let text = params.text;
    if code == 0
        && let Some(moved) = params.child.filter(|_| params.moves)
    {
        walk.graphs.retain(|known| known.number != moved);
        walk.bodies.retain(|(holder, _)| *holder != moved);
    }
    let answer = format!("{code}{}", shape(walk, graph.raw));
    walk.step(format!("add to {} after {places}: {text}", graph.number), answer);
}

/// Has one or two random nodes of a graph changed.
pub fn edit(walk: &mut Walk) {
    let Some(graph) = walk.graph() else { return };
    let all = nodes(walk, graph.raw);
    let (Some(a), Some(b)) = (walk.source.of(&all), walk.source.of(&all)) else { return };
    let what = walk.source.below(6);
    let mut text =
        format!("edit {what} of {}: {} {}", graph.number, place(&all, a), place(&all, b));
    let driver = walk.driver.clone();
    let code = match what {
        0 | 1 => call!(driver, cuGraphAddDependencies_v2(graph.raw, &a, &b, null(), 1)),
        2 => call!(driver, cuGraphRemoveDependencies_v2(graph.raw, &a, &b, null(), 1)),
        3 => {
            walk.bodies.retain(|(holder, _)| *holder != graph.number);
            call!(driver, cuGraphDestroyNode(a))
        }
        4 => {
            let Some(mut params) =
                params(walk).filter(|params| !params.moves && params.child != Some(graph.number))
            else {
                return;
            };
            text += &params.text;
            call!(driver, cuGraphNodeSetParams(a, &mut params.node))
        }
        _ => call!(driver, cuGraphKernelNodeCopyAttributes(a, b)),
    };
    let answer = format!("{code}{}", shape(walk, graph.raw));
    walk.step(text, answer);
}

pub fn instantiate(walk: &mut Walk) {
    let Some(graph) = walk.graph().filter(|_| walk.execs.len() < MOST) else { return };
    let flags = [0, 0, 0, 1, 8, 2, 16][walk.source.below(7)];
    let (there, number) = (walk.there(), walk.number());
    let answer = walk.on(there, move |driver| {
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS { flags, ..Default::default() };
        let mut exec = null_mut();
        let code = call!(driver, cuGraphInstantiateWithParams(&mut exec, graph.raw, &mut params));
        (code, exec, params.result_out.0, params.hErrNode_out)
    });
    let (code, raw, result, node) = answer;
    if code == 0 {
        walk.execs.push(Exec { number, source: graph.number, raw });
    }
    let node = place(&nodes(walk, graph.raw), node);
    // A capture bars it before anything is written.
    let answer = if code == 900 { "900".to_owned() } else { format!("{code} {result} {node}") };
    let text = format!("executable {number} of {} flags {flags} there {there}", graph.number);
    walk.step(text, answer);
}

pub fn destroy_exec(walk: &mut Walk) {
    let Some(exec) = walk.exec() else { return };
    let code = call!(walk.driver, cuGraphExecDestroy(exec.raw));
    if code == 0 {
        walk.execs.retain(|known| known.number != exec.number);
    }
    walk.step(format!("destroy executable {}", exec.number), code.to_string());
}

pub fn launch(walk: &mut Walk) {
    let Some(exec) = walk.exec() else { return };
    let (stream, there, upload) = (walk.stream(), walk.there(), walk.source.chance(4));
    let raw = walk.streams[stream];
    let code = walk.on(there, move |driver| {
        if upload {
            call!(driver, cuGraphUpload(exec.raw, raw))
        } else {
            call!(driver, cuGraphLaunch(exec.raw, raw))
        }
    });
    let text = format!("launch {} on {stream} there {there} upload {upload}", exec.number);
    walk.step(text, code.to_string());
}

pub fn update(walk: &mut Walk) {
    let (Some(exec), Some(graph)) = (walk.exec(), walk.graph()) else { return };
    let mut info = CUgraphExecUpdateResultInfo::default();
    let code = call!(walk.driver, cuGraphExecUpdate_v2(exec.raw, graph.raw, &mut info));
    let all = nodes(walk, graph.raw);
    let answer = format!(
        "{code} {} {} {}",
        info.result.0,
        place(&all, info.errorNode),
        place(&all, info.errorFromNode)
    );
    walk.step(format!("update {} from {}", exec.number, graph.number), answer);
}

/// Sets or disables a node of an executable, named by a node of any graph.
pub fn set(walk: &mut Walk) {
    let Some(exec) = walk.exec() else { return };
    let own = walk.graphs.iter().copied().find(|graph| graph.number == exec.source);
    let any = walk.graph();
    let Some(graph) = own.filter(|_| !walk.source.chance(8)).or(any) else { return };
    let all = nodes(walk, graph.raw);
    let Some(node) = walk.source.of(&all) else { return };
    let what = walk.source.below(3);
    let mut text =
        format!("set {what} of {}: {} of {}", exec.number, place(&all, node), graph.number);
    let driver = walk.driver.clone();
    let code = match what {
        0 => {
            let Some(mut params) = params(walk).filter(|params| !params.moves) else {
                return;
            };
            text += &params.text;
            call!(driver, cuGraphExecNodeSetParams(exec.raw, node, &mut params.node))
        }
        1 => {
            let enabled = u32::from(walk.source.chance(2));
            call!(driver, cuGraphNodeSetEnabled(exec.raw, node, enabled))
        }
        _ => {
            let mut enabled = 9;
            let code = call!(driver, cuGraphNodeGetEnabled(exec.raw, node, &mut enabled));
            code * 10 + enabled
        }
    };
    walk.step(text, code.to_string());
}
