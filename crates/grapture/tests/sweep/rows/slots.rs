//! Slots, in captures, graphs and executables.

use grapture::{
    BufferSlot, BufferSlotMut, CaptureMode, CopyNode, CudaResult, DeviceBuffer, Dim3, FillNode,
    Graph, Slot, Stream,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::world::World;

/// `word += slot`, on a grid of a slot.
fn launch(
    world: &World,
    word: &mut DeviceBuffer<u32>,
    (value, grid): (&Slot<u32>, &Slot<Dim3>),
    stream: &Stream,
) -> CudaResult<()> {
    let launch = world.add.launch_builder(1, 1).grid_slot(grid).block_slot(grid);
    // SAFETY: `add` takes the address of a word and any value, on any grid.
    unsafe { launch.arg_mut(word).slot(value).launch(stream) }
}

fn slots() -> (Slot<u32>, Slot<Dim3>) {
    (Slot::new(1), Slot::new(Dim3::x(1)))
}

/// A graph of a launch with slots.
fn slotted(world: &World, (value, grid): (&Slot<u32>, &Slot<Dim3>)) -> Graph {
    let mut words = world.buffer();
    let graph = world.stream.capture(CaptureMode::Relaxed, |capture| {
        launch(world, &mut words, (value, grid), capture.stream())
    });
    graph.unwrap()
}

/// By which it is found which slots an executable has after an update: else it is made anew.
const UPDATED: &[Function] = &[
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphNodeGetDependencies_v2,
    Function::cuGraphKernelNodeGetAttribute,
    Function::cuGraphKernelNodeGetParams_v2,
    Function::cuFuncGetAttribute,
    Function::cuFuncGetName,
    Function::cuGraphExecUpdate_v2,
    Function::cuCtxPushCurrent_v2,
];

/// Where the driver copies no graph, that itself is made executable; and the instantiation is asked
/// for again.
const COPIED: &[Function] = &[
    Function::cuGraphClone,
    Function::cuCtxPushCurrent_v2,
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphKernelNodeGetAttribute,
];

pub const ROWS: &[Row] = &[
    row("LaunchBuilder::slot, captured", |w| {
        let (mut words, slots) = (w.buffer(), slots());
        w.attempt(|| {
            w.captured(|stream| launch(w, &mut words, (&slots.0, &slots.1), stream)).map(drop)
        });
    })
    .also(&["LaunchBuilder::grid_slot", "LaunchBuilder::block_slot", "Slot::new"]),
    row("LaunchBuilder::slot", |w| {
        let (mut words, slots) = (w.buffer(), slots());
        w.attempt(|| launch(w, &mut words, (&slots.0, &slots.1), &w.stream));
    }),
    row("BufferSlotMut::new, captured copies and fills", |w| {
        let (mut words, other, pinned) = (w.buffer(), w.buffer(), w.pinned());
        let (mut target, source) = (BufferSlotMut::new(&mut words), BufferSlot::new(&other));
        w.attempt(|| {
            let graph = w.captured(|stream| {
                target.copy_from(&source, stream)?;
                target.copy_from_pinned(&pinned, stream)?;
                target.fill(1, stream)
            });
            graph.map(drop)
        });
    })
    .also(&["BufferSlot::new"]),
    row("Graph::add_kernel, with slots", |w| {
        let (mut words, (value, grid)) = (w.buffer(), slots());
        let mut graph = Graph::new(&w.context).unwrap();
        w.attempt(|| {
            let launch = w.add.launch_builder(1, 1).grid_slot(&grid).arg_mut(&mut words);
            // SAFETY: `add` takes the address of a word and any value.
            unsafe { graph.add_kernel(launch.slot(&value), &[]) }.map(drop)
        });
    }),
    row("Graph::instantiate, with slots", |w| {
        let (value, grid) = slots();
        let graph = slotted(w, (&value, &grid));
        w.attempt(|| graph.instantiate().map(drop));
    })
    .tolerates(COPIED),
    row("Graph::try_clone, with slots", |w| {
        let (value, grid) = slots();
        let graph = slotted(w, (&value, &grid));
        w.attempt(|| graph.try_clone().map(drop));
    }),
    row("Graph::add_child, with slots", |w| {
        let (value, grid) = slots();
        let child = slotted(w, (&value, &grid));
        let mut graph = Graph::new(&w.context).unwrap();
        w.attempt(|| graph.add_child(&child, &[]).map(drop));
    }),
    row("Graph::embed, with slots", |w| {
        let (value, grid) = slots();
        let child = slotted(w, (&value, &grid));
        w.attempt(|| w.captured(|stream| child.embed(stream)).map(drop));
    }),
    row("GraphExec::set", |w| {
        let (value, grid) = slots();
        let mut exec = slotted(w, (&value, &grid)).instantiate().unwrap();
        w.attempt(|| exec.set(&value, 7));
    }),
    row("SlotPatch::apply", |w| {
        let (mut words, mut others, source) = (w.buffer(), w.buffer(), w.buffer());
        let (mut target, input) = (BufferSlotMut::new(&mut words), BufferSlot::new(&source));
        let mut graph = Graph::new(&w.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut target, 1).unwrap(), &[]).unwrap();
        graph.add_copy(CopyNode::device(&mut target, &input).unwrap(), &[fill]).unwrap();
        let mut exec = graph.into_exec().unwrap();
        let next = w.buffer();
        w.attempt(|| exec.patch().set(&target, &mut others).set(&input, &next).apply());
    }),
    row("GraphExec::update, with slots", |w| {
        let (value, grid) = slots();
        let (graph, other) = (slotted(w, (&value, &grid)), slotted(w, (&value, &grid)));
        let mut exec = graph.instantiate().unwrap();
        w.attempt(|| exec.update(&other).map(drop));
    })
    .tolerates(UPDATED),
];
