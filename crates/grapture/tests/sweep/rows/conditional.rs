//! Conditional nodes and their bodies, and the context that other libraries find current.

use grapture::{
    CaptureMode, CopyNode, CudaResult, FillNode, Graph, GraphBody, StreamGraphCapture,
    WordCondition,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::world::World;

/// Where it is not told what a capture has recorded, its end tells whether that is whole.
const TOLD_BY_THE_END: &[Function] = &[
    Function::cuStreamGetCaptureInfo,
    Function::cuStreamGetCaptureInfo_v3,
    Function::cuGraphGetNodes,
    Function::cuGraphGetEdges_v2,
    Function::cuDeviceGetAttribute,
    Function::cuFuncGetAttribute,
];

/// A limit of a kernel that is not told is not checked.
const UNTOLD: &[Function] = &[Function::cuDeviceGetAttribute, Function::cuFuncGetAttribute];

fn captured(
    world: &World,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> CudaResult<Graph> {
    world.stream.capture(CaptureMode::ThreadLocal, record)
}

fn empty(_: &StreamGraphCapture<'_>) -> CudaResult<()> {
    Ok(())
}

fn nothing(_: &mut GraphBody<'_>) -> CudaResult<()> {
    Ok(())
}

pub const ROWS: &[Row] = &[
    row("StreamGraphCapture::condition", |w| {
        w.attempt(|| captured(w, |capture| capture.condition(1).map(drop)));
    }),
    row("StreamGraphCapture::if_", |w| {
        w.attempt(|| captured(w, |capture| capture.if_(&capture.condition(1)?, empty)));
    })
    .tolerates(TOLD_BY_THE_END),
    row("StreamGraphCapture::if_else", |w| {
        w.attempt(|| captured(w, |capture| capture.if_else(&capture.condition(1)?, empty, empty)));
    })
    .tolerates(TOLD_BY_THE_END),
    row("StreamGraphCapture::while_", |w| {
        let mut words = w.buffer();
        let condition = WordCondition::new(&words).unwrap();
        w.attempt(|| {
            captured(w, |capture| {
                capture.while_(&condition, |body| w.launch(&mut words, body.stream()))
            })
        });
    })
    .also(&["WordCondition::new", "LaunchBuilder::condition"])
    .tolerates(TOLD_BY_THE_END),
    row("StreamGraphCapture::switch", |w| {
        let condition = WordCondition::new(&w.buffer()).unwrap();
        w.attempt(|| captured(w, |capture| capture.switch(&condition, 2, |_, _| Ok(()))));
    })
    .tolerates(TOLD_BY_THE_END),
    row("Graph::condition", |w| {
        let mut graph = Graph::new(&w.context).unwrap();
        w.attempt(|| graph.condition(1));
    }),
    row("Graph::add_if", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        let condition = WordCondition::new(&words).unwrap();
        w.attempt(|| {
            Graph::new(&w.context)?.add_if(&condition, &[], |body| {
                let empty = body.add_empty(&[])?;
                let fill = body.add_fill(FillNode::new(&mut words, 1)?, &[empty])?;
                body.add_copy(CopyNode::device(&mut words, &other)?, &[fill]).map(drop)
            })
        });
    })
    .also(&["GraphBody::add_empty", "GraphBody::add_fill", "GraphBody::add_copy"])
    .tolerates(UNTOLD),
    row("Graph::add_while", |w| {
        let mut words = w.buffer();
        let condition = WordCondition::new(&words).unwrap();
        w.attempt(|| {
            Graph::new(&w.context)?.add_while(&condition, &[], |body| {
                let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
                // SAFETY: `add` takes the address of a word and a value.
                unsafe { body.add_kernel(launch, &[]) }.map(drop)
            })
        });
    })
    .also(&["GraphBody::add_kernel"])
    .tolerates(UNTOLD),
    row("Graph::add_if_else", |w| {
        w.attempt(|| {
            let mut graph = Graph::new(&w.context)?;
            let condition = graph.condition(None)?;
            graph.add_if_else(&condition, &[], nothing, |body| {
                let inner = body.condition(1)?;
                body.add_while(&inner, &[], nothing)?;
                let inner = body.condition(1)?;
                body.add_if_else(&inner, &[], nothing, nothing).map(drop)
            })
        });
    })
    .also(&["GraphBody::condition", "GraphBody::add_while", "GraphBody::add_if_else"]),
    row("Graph::add_switch", |w| {
        let child = w.small_graph();
        w.attempt(|| {
            let mut graph = Graph::new(&w.context)?;
            let condition = graph.condition(0)?;
            graph.add_switch(&condition, 2, &[], |_, body| {
                let node = body.add_child(&child, &[])?;
                let inner = body.condition(1)?;
                body.add_if(&inner, &[node], nothing)?;
                let inner = body.condition(1)?;
                body.add_switch(&inner, 1, &[node], |_, _| Ok(())).map(drop)
            })
        });
    })
    .also(&["GraphBody::add_child", "GraphBody::add_if", "GraphBody::add_switch"]),
    row("GraphBody::capture", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let mut graph = Graph::new(&w.context)?;
            let condition = graph.condition(1)?;
            graph.add_if(&condition, &[], |body| {
                body.capture(&w.stream, &[], |_| w.launch(&mut words, &w.stream)).map(drop)
            })
        });
    })
    .tolerates(TOLD_BY_THE_END),
    row("Context::make_current", |w| w.attempt(|| w.context.make_current().map(drop)))
        .also(&["CurrentContext::drop"]),
];
