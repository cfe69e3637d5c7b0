//! Random graphs that are built, changed, embedded, copied and run by safe calls, right ones and
//! wrong ones: no memory is touched that is gone, and all is given back at the end.

use crate::common::Setup;
use crate::common::checked::{Checks, check_with};
use grapture::{
    CaptureMode, CopyNode, CudaError, CudaResult, DeviceBuffer, Event, FillNode, Graph,
    GraphBuffer, GraphExec, NodeId, PinnedBuffer, Stream,
};

mod sim_tier {
    /// Nodes that nothing orders race; that is their own affair.
    #[test]
    fn random_graphs_break_nothing() {
        super::check_with(super::Checks::Memory, |setup| super::run(setup, 150));
    }
}

mod gpu_tier {
    #[test]
    fn random_graphs_break_nothing() {
        super::run(&crate::common::Setup::real(), 5);
    }
}

const STEPS: usize = 300;
const WORDS: usize = 64;
const MOST: usize = 6;

fn run(setup: &Setup, programs: u64) {
    for seed in 0..programs {
        let mut program = Program::new(setup, seed);
        for step in 0..STEPS {
            if let Err((call, error)) = program.step() {
                let calls = program.calls.join("\n");
                panic!("program {seed}, step {step}, {call}: {error}\nafter\n{calls}");
            }
        }
        let stream = program.stream.clone();
        drop(program);
        stream.synchronize().unwrap();
        setup.assert_usable(&stream);
        setup.driver.reclaim();
    }
}

/// A graph, and the names that its nodes have or had.
struct Known {
    graph: Graph,
    nodes: Vec<NodeId>,
}

struct Program<'a> {
    setup: &'a Setup,
    stream: Stream,
    graphs: Vec<Known>,
    execs: Vec<GraphExec>,
    events: Vec<Event>,
    buffers: Vec<DeviceBuffer<u32>>,
    pinned: Vec<PinnedBuffer<u32>>,
    scratch: Vec<GraphBuffer<u32>>,
    /// Of graphs that are gone.
    strangers: Vec<NodeId>,
    random: u64,
    /// What was done, for whoever has to find out why it went wrong.
    calls: Vec<String>,
}

type Step = Result<(), (&'static str, CudaError)>;

/// Refusals are what a wrong program gets, and a graph that cannot be instantiated. Little else may
/// go wrong.
fn allowed<T>(
    call: &'static str,
    result: CudaResult<T>,
) -> Result<Option<T>, (&'static str, CudaError)> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(CudaError::Refused(_) | CudaError::Instantiate(_) | CudaError::Update(_)) => Ok(None),
        // A node that was added after the clone was made; a graph that was instantiated before takes
        // no node that frees.
        Err(CudaError::InvalidValue) if ["find in a clone", "free"].contains(&call) => Ok(None),
        Err(error) => Err((call, error)),
    }
}

impl<'a> Program<'a> {
    fn new(setup: &'a Setup, seed: u64) -> Program<'a> {
        let words = || DeviceBuffer::zeroed(&setup.context, WORDS).unwrap();
        let pinned = || PinnedBuffer::zeroed(&setup.context, WORDS).unwrap();
        Program {
            setup,
            stream: setup.stream(),
            graphs: Vec::new(),
            execs: Vec::new(),
            events: (0..3).map(|_| Event::new(&setup.context).unwrap()).collect(),
            buffers: (0..3).map(|_| words()).collect(),
            pinned: (0..2).map(|_| pinned()).collect(),
            scratch: Vec::new(),
            strangers: Vec::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            calls: Vec::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % limit
    }

    /// A node of the graph, mostly; or one of another, or that is gone.
    fn node(&mut self, graph: usize) -> Option<NodeId> {
        let own = &self.graphs[graph].nodes;
        let from = if self.random & 7 == 0 { &self.strangers } else { own };
        let from = from.clone();
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }

    fn note(&mut self, call: String) {
        self.calls.push(call);
    }

    fn after(&mut self, graph: usize) -> Vec<NodeId> {
        let count = self.below(4);
        (0..count).filter_map(|_| self.node(graph)).collect()
    }

    fn step(&mut self) -> Step {
        if self.graphs.is_empty() {
            return self.make();
        }
        match self.below(29) {
            0 => self.make(),
            1..=8 => self.add(),
            9 | 10 => self.connect(),
            11 | 12 => self.change(),
            13 => self.remove(),
            14 => self.embed(),
            15 => self.copy(),
            16 | 17 => self.scratch(),
            18 => self.ask(),
            19..=21 => self.launch(),
            22 => self.capture(),
            23..=27 => self.change_exec(),
            _ => self.drop_something(),
        }
    }

    fn make(&mut self) -> Step {
        self.note("make".to_owned());
        if self.graphs.len() == MOST {
            let gone = self.below(MOST);
            let gone = self.graphs.swap_remove(gone);
            self.strangers.extend(gone.nodes);
        }
        let graph = Graph::new(&self.setup.context).map_err(|error| ("make", error))?;
        self.graphs.push(Known { graph, nodes: Vec::new() });
        Ok(())
    }

    fn add(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let after = self.after(index);
        let (kind, one) = (self.below(8), self.below(self.buffers.len()));
        let call = ["fill", "copy", "from_pinned", "to_pinned", "host", "record", "wait", "kernel"];
        self.note(format!("{} in graph {index} after {after:?}", call[kind]));
        let (event, pinned) = (self.below(self.events.len()), self.below(self.pinned.len()));
        let mut first = self.buffers.swap_remove(one);
        let second = &self.buffers[0];
        let (event, pinned) = (&self.events[event], &mut self.pinned[pinned]);
        let Known { graph, nodes } = &mut self.graphs[index];
        let made = match kind {
            0 => FillNode::new(&mut first, 7).and_then(|fill| graph.add_fill(fill, &after)),
            1 => CopyNode::device(&mut first, second).and_then(|copy| graph.add_copy(copy, &after)),
            2 => CopyNode::from_pinned(&mut first, pinned)
                .and_then(|copy| graph.add_copy(copy, &after)),
            3 => CopyNode::to_pinned(pinned, &first).and_then(|copy| graph.add_copy(copy, &after)),
            4 => graph.add_host(std::thread::yield_now, &after),
            5 => graph.add_event_record(event, &after),
            6 => graph.add_event_wait(event, &after),
            _ => {
                let kernel = self.setup.module.kernel("add").map_err(|error| ("kernel", error))?;
                let launch = kernel.launch_builder(1, 1).arg_mut(&mut first).value(1u32);
                // SAFETY: `add` takes the address of a word and a value.
                unsafe { graph.add_kernel(launch, &after) }
            }
        };
        self.buffers.push(first);
        nodes.extend(allowed("add", made)?);
        Ok(())
    }

    fn connect(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let (Some(from), Some(to)) = (self.node(index), self.node(index)) else { return Ok(()) };
        let add = self.below(3) > 0;
        self.note(format!("dependency in graph {index} {from:?} {to:?}, adds: {add}"));
        let graph = &mut self.graphs[index].graph;
        let done = match add {
            true => graph.add_dependency(from, to),
            false => graph.remove_dependency(from, to),
        };
        allowed("connect", done).map(drop)
    }

    fn change(&mut self) -> Step {
        let (index, other) = (self.below(self.graphs.len()), self.below(self.graphs.len()));
        let Some(node) = self.node(index) else { return Ok(()) };
        let (kind, event) = (self.below(6), self.below(self.events.len()));
        self.note(format!("change {kind} in graph {index} {node:?}"));
        let mut buffer = self.buffers.swap_remove(0);
        let copy = (index != other).then(|| self.graphs[other].graph.try_clone());
        let Known { graph, .. } = &mut self.graphs[index];
        let change = graph.node_mut(node).and_then(|node| match (kind, copy) {
            (0, _) => node.set_fill(FillNode::new(&mut buffer, 9)?),
            (1, _) => node.set_copy(CopyNode::device(&mut buffer, &self.buffers[0])?),
            (2, _) => node.set_host(|| {}),
            (3, _) => node.set_event(&self.events[event]),
            (4, Some(copy)) => node.set_child(&copy?),
            _ => {
                let kernel = self.setup.module.kernel("add")?;
                let launch = kernel.launch_builder(1, 1).arg_mut(&mut buffer).value(2u32);
                // SAFETY: `add` takes the address of a word and a value.
                unsafe { node.set_kernel(launch) }
            }
        });
        self.buffers.push(buffer);
        allowed("change", change).map(drop)
    }

    fn remove(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let Some(node) = self.node(index) else { return Ok(()) };
        self.note(format!("remove in graph {index} {node:?}"));
        // Its name stays among those that are used.
        allowed("remove", self.graphs[index].graph.remove_node(node)).map(drop)
    }

    fn embed(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let child = self.graphs.swap_remove(index);
        if self.graphs.is_empty() {
            self.graphs.push(child);
            return Ok(());
        }
        let parent = self.below(self.graphs.len());
        let after = self.after(parent);
        let moves = self.below(3) == 0;
        self.note(format!("embed in graph {parent}, moves: {moves}"));
        let Known { graph, nodes } = &mut self.graphs[parent];
        let made = if moves {
            let (child, gone) = (child.graph, child.nodes);
            self.strangers.extend(gone);
            graph.add_child_moved(child, &after)
        } else {
            let made = graph.add_child(&child.graph, &after);
            self.graphs.push(child);
            nodes_of(&mut self.graphs, parent).extend(allowed("embed", made)?);
            return Ok(());
        };
        nodes.extend(allowed("move in", made)?);
        Ok(())
    }

    fn copy(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        self.note("clone".to_owned());
        let Some(copy) = allowed("clone", self.graphs[index].graph.try_clone())? else {
            return Ok(());
        };
        let Known { graph, nodes } = &self.graphs[index];
        let mut names = Vec::new();
        for node in nodes {
            names.extend(allowed("find in a clone", graph.node_in(*node, &copy))?);
        }
        if self.graphs.len() < MOST {
            self.graphs.push(Known { graph: copy, nodes: names });
        } else {
            self.strangers.extend(names);
        }
        Ok(())
    }

    fn scratch(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let after = self.after(index);
        let kind = if self.scratch.is_empty() { 0 } else { self.below(5) };
        let which = self.below(self.scratch.len().max(1));
        let call = ["allocate", "free", "fill", "copy", "copy eagerly"][kind];
        self.note(format!("{call} scratch {which} in graph {index} after {after:?}"));
        let Known { graph, nodes } = &mut self.graphs[index];
        if kind == 0 {
            let made = allowed(call, graph.add_alloc::<u32>(WORDS, &after))?;
            nodes.extend(made.as_ref().map(GraphBuffer::node));
            self.scratch.extend(made);
            return Ok(());
        }
        let scratch = &mut self.scratch[which];
        let made = match kind {
            1 => graph.add_free(scratch, &after),
            2 => FillNode::new(scratch, 3).and_then(|fill| graph.add_fill(fill, &after)),
            3 => CopyNode::device(&mut self.buffers[0], scratch)
                .and_then(|copy| graph.add_copy(copy, &after)),
            _ => {
                let eager = self.buffers[0].copy_from(scratch, &self.stream);
                assert!(matches!(eager, Err(CudaError::Refused(_))), "{eager:?}");
                return Ok(());
            }
        };
        nodes.extend(allowed(call, made)?);
        Ok(())
    }

    fn ask(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let Some(node) = self.node(index) else { return Ok(()) };
        self.note("ask".to_owned());
        let graph = &self.graphs[index].graph;
        allowed("topology", graph.topology())?;
        let _ = graph.retained();
        let told = graph.node(node).and_then(|node| {
            node.params()?;
            node.dependents()?;
            node.dependencies()
        });
        allowed("ask", told).map(drop)
    }

    fn launch(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        self.note("launch".to_owned());
        let made = allowed("instantiate", self.graphs[index].graph.instantiate())?;
        self.execs.extend(made);
        if self.execs.is_empty() {
            return Ok(());
        }
        let exec = self.below(self.execs.len());
        allowed("launch", self.execs[exec].launch(&self.stream))?;
        if self.execs.len() > MOST {
            self.execs.swap_remove(exec);
        }
        Ok(())
    }

    fn change_exec(&mut self) -> Step {
        if self.execs.is_empty() {
            return Ok(());
        }
        let (exec, index) = (self.below(self.execs.len()), self.below(self.graphs.len()));
        let Some(node) = self.node(index) else { return Ok(()) };
        let (kind, event) = (self.below(9), self.below(self.events.len()));
        self.note(format!("exec {exec} change {kind} graph {index} {node:?}"));
        let mut buffer = self.buffers.swap_remove(0);
        let graph = &self.graphs[index].graph;
        let exec = &mut self.execs[exec];
        let done = match kind {
            7 => match exec.update(graph) {
                Err(CudaError::Update(_)) => Ok(()),
                other => other.map(drop),
            },
            _ => exec.node_of(graph, node).and_then(|mut node| match kind {
                0 => node.set_fill(FillNode::new(&mut buffer, 9)?),
                1 => node.set_copy(CopyNode::device(&mut buffer, &self.buffers[0])?),
                2 => node.set_host(|| {}),
                3 => node.set_event(&self.events[event]),
                4 => node.set_child(graph),
                5 => node.set_enabled(event == 0),
                6 => node.is_enabled().map(drop),
                _ => {
                    let kernel = self.setup.module.kernel("add")?;
                    let launch = kernel.launch_builder(1, 1).arg_mut(&mut buffer).value(2u32);
                    // SAFETY: `add` takes the address of a word and a value.
                    unsafe { node.set_kernel(launch) }
                }
            }),
        };
        self.buffers.push(buffer);
        allowed("change an executable", done).map(drop)
    }

    fn capture(&mut self) -> Step {
        let index = self.below(self.graphs.len());
        let after = self.after(index);
        self.note("capture into".to_owned());
        let stream = &self.stream;
        let mut buffer = self.buffers.swap_remove(0);
        let fails = self.random & 15 == 0;
        let Known { graph, nodes } = &mut self.graphs[index];
        let captured = stream.capture_into(graph, &after, CaptureMode::ThreadLocal, |_| {
            buffer.fill(5, stream)?;
            self.setup.add(&mut buffer, 1, stream)?;
            if fails { Err(CudaError::NotReady) } else { Ok(()) }
        });
        self.buffers.push(buffer);
        if !matches!(captured, Err(CudaError::NotReady)) {
            allowed("capture into", captured)?;
        }
        let now = allowed("nodes", graph.nodes())?;
        nodes.extend(now.into_iter().flatten().map(|node| node.id()));
        Ok(())
    }

    fn drop_something(&mut self) -> Step {
        self.note("drop".to_owned());
        match self.below(5) {
            0 => self.execs.truncate(1),
            1 => {
                let index = self.below(self.graphs.len());
                let gone = self.graphs.swap_remove(index);
                self.strangers.extend(gone.nodes);
            }
            2 => {
                let index = self.below(self.buffers.len());
                let made = DeviceBuffer::zeroed(&self.setup.context, WORDS);
                self.buffers[index] = made.map_err(|error| ("allocate", error))?;
            }
            3 => {
                let index = self.below(self.pinned.len());
                let made = PinnedBuffer::zeroed(&self.setup.context, WORDS);
                self.pinned[index] = made.map_err(|error| ("allocate", error))?;
            }
            _ => self.scratch.truncate(2),
        }
        Ok(())
    }
}

fn nodes_of(graphs: &mut [Known], index: usize) -> &mut Vec<NodeId> {
    &mut graphs[index].nodes
}
