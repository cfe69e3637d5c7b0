//! What a file holds as plain data, to look at without a driver.

use crate::error::CudaResult;
use crate::graph::save::format::{
    MemoryKind, Place, SavedArgument, SavedBranch, SavedCopy, SavedFill, SavedForm, SavedGraph,
    SavedKernel, SavedNode, SavedNodes, SavedOperation, SavedUntil, SavedWord, unhex,
};
use crate::topology::{
    ConditionalForm, CopyDirection, OperationSpec, Topology, TopologyEdge, TopologyNode,
};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

impl Topology {
    /// What a graph does that [`Graph::to_saved`](crate::Graph::to_saved) wrote as text, or
    /// [`Graph::save`](crate::Graph::save) into a file. Memory, events and functions have the names
    /// that they were bound by. It needs no driver.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(7, &stream))?;
    /// let text = graph.to_saved(&Bindings::new(&context).memory("words", &mut words)?)?;
    /// let topology = Topology::from_saved(&text)?;
    /// assert_eq!(topology, graph.topology()?);
    /// assert_eq!(topology.nodes()[0].parameters()[0].value(), "words");
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused): it is no saved graph, of another version, damaged, or
    /// its dependencies cannot be.
    pub fn from_saved(text: &str) -> CudaResult<Topology> {
        let saved = SavedGraph::from_text(text)?;
        topology(&saved, &saved.top)
    }
}

fn topology(saved: &SavedGraph, nodes: &SavedNodes) -> CudaResult<Topology> {
    let edges = nodes.edges.iter();
    let edges = edges.map(|edge| TopologyEdge::new(edge.from, edge.to, edge.kind == 1));
    let nodes = nodes.nodes.iter().map(|one| node(saved, one));
    Topology::new(nodes.collect::<CudaResult<_>>()?, edges.collect())
}

fn node(saved: &SavedGraph, node: &SavedNode) -> CudaResult<TopologyNode> {
    let (spec, parameters) = operation(saved, &node.operation)?;
    let mut spec = TopologyNode::new(spec);
    for (name, value) in parameters {
        spec = spec.with_parameter(name, value);
    }
    spec = node.label.iter().fold(spec, TopologyNode::with_label);
    Ok(node.line.iter().cloned().fold(spec, TopologyNode::with_line))
}

type Parameters = Vec<(String, String)>;

fn operation(
    saved: &SavedGraph,
    operation: &SavedOperation,
) -> CudaResult<(OperationSpec, Parameters)> {
    let named = |name: &str, value: String| vec![(name.to_owned(), value)];
    Ok(match operation {
        SavedOperation::Empty => (OperationSpec::Empty, Vec::new()),
        SavedOperation::Kernel(kernel) => self::kernel(saved, kernel),
        SavedOperation::Copy(copy) => self::copy(saved, copy),
        SavedOperation::Fill(fill) => self::fill(saved, fill),
        SavedOperation::Child(child) => {
            (OperationSpec::ChildGraph(topology(saved, child)?), Vec::new())
        }
        SavedOperation::Host(name) => (OperationSpec::Host, named("function", name.clone())),
        SavedOperation::EventRecord(name) => {
            (OperationSpec::EventRecord, named("event", name.clone()))
        }
        SavedOperation::EventWait(name) => (OperationSpec::EventWait, named("event", name.clone())),
        SavedOperation::Batch(words) => {
            let parameters = words.iter().enumerate();
            let parameters =
                parameters.map(|(at, one)| (format!("operation {at}"), word(saved, one)));
            (OperationSpec::BatchMemOp { operations: words.len() }, parameters.collect())
        }
        SavedOperation::Allocate(memory) => {
            let bytes = saved.memory.get(*memory).map_or(0, |memory| memory.bytes as usize);
            (OperationSpec::Allocation { bytes }, named("memory", self::memory(saved, *memory)))
        }
        SavedOperation::Free(memory) => {
            (OperationSpec::Free, named("memory", self::memory(saved, *memory)))
        }
        SavedOperation::Steer(steer) => {
            let one = 1.into();
            let (name, grid, block) = ("steer".to_owned(), one, one);
            let spec = OperationSpec::Kernel { name, grid, block, shared_bytes: 0 };
            let condition = format!("{:#x}", steer.condition.saturating_add(1));
            let mut parameters = named("argument 0", condition);
            parameters.extend(named("argument 1", place(saved, &steer.word)));
            (spec, parameters)
        }
        SavedOperation::Branch(branch) => self::branch(saved, branch)?,
    })
}

fn branch(saved: &SavedGraph, branch: &SavedBranch) -> CudaResult<(OperationSpec, Parameters)> {
    let form = match branch.form {
        SavedForm::If => ConditionalForm::If,
        SavedForm::While => ConditionalForm::While,
        SavedForm::Switch => ConditionalForm::Switch,
    };
    let bodies = branch.bodies.iter().map(|body| topology(saved, body));
    let spec = OperationSpec::Conditional { form, bodies: bodies.collect::<CudaResult<_>>()? };
    let number = branch.condition.saturating_add(1);
    let by =
        branch.word.map_or_else(|| format!("condition {number:#x}"), |word| place(saved, &word));
    let mut parameters = vec![("by".to_owned(), by)];
    if let Some(Some(default)) = saved.conditions.get(branch.condition) {
        parameters.push(("default".to_owned(), format!("{default:#x}")));
    }
    Ok((spec, parameters))
}

fn kernel(saved: &SavedGraph, kernel: &SavedKernel) -> (OperationSpec, Parameters) {
    let SavedKernel { name, grid, block, shared_bytes, .. } = kernel;
    let (name, grid, block, shared_bytes) = (name.clone(), *grid, *block, *shared_bytes);
    let spec = OperationSpec::Kernel { name, grid, block, shared_bytes };
    let mut parameters = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        parameters.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("priority", kernel.priority.map(|priority| priority.to_string()));
    add("cluster", kernel.cluster.map(|cluster| cluster.to_string()));
    add("cooperative", kernel.cooperative.then(|| "yes".to_owned()));
    add("memory sync domain", kernel.memory_sync_domain.map(|domain| domain.to_string()));
    for (index, one) in kernel.arguments.iter().enumerate() {
        add(&format!("argument {index}"), Some(argument(saved, one)));
    }
    (spec, parameters)
}

/// The bytes of an argument: addresses by their names, the rest as numbers.
fn argument(saved: &SavedGraph, argument: &SavedArgument) -> String {
    let bytes = unhex(&argument.bytes).unwrap_or_default();
    let words = bytes.chunks(WORD).enumerate().map(|(index, chunk)| {
        let address = argument.addresses.iter().find(|address| address.at == index * WORD);
        address.map_or_else(
            || {
                let mut word = [0; WORD];
                // A chunk is no longer than a word.
                word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                format!("{:#x}", u64::from_le_bytes(word))
            },
            |address| place(saved, &address.place),
        )
    });
    match &words.collect::<Vec<_>>()[..] {
        [word] => word.clone(),
        words => format!("({})", words.join(", ")),
    }
}

fn copy(saved: &SavedGraph, copy: &SavedCopy) -> (OperationSpec, Parameters) {
    let is_host = |place: &Place| {
        let memory = saved.memory.get(place.memory);
        memory.is_some_and(|memory| memory.kind == MemoryKind::Pinned)
    };
    let direction = match (is_host(&copy.from), is_host(&copy.to)) {
        (true, false) => CopyDirection::HostToDevice,
        (false, true) => CopyDirection::DeviceToHost,
        (false, false) => CopyDirection::DeviceToDevice,
        (true, true) => CopyDirection::HostToHost,
    };
    let bytes = copy.row_bytes.saturating_mul(copy.rows) as usize;
    let mut parameters = vec![
        ("from".to_owned(), place(saved, &copy.from)),
        ("to".to_owned(), place(saved, &copy.to)),
    ];
    if copy.rows > 1 {
        let rows = [
            ("row bytes", copy.row_bytes),
            ("rows", copy.rows),
            ("from pitch", copy.from_pitch),
            ("to pitch", copy.to_pitch),
        ];
        parameters.extend(rows.map(|(name, value)| (name.to_owned(), value.to_string())));
    }
    (OperationSpec::Copy { direction, bytes }, parameters)
}

fn fill(saved: &SavedGraph, fill: &SavedFill) -> (OperationSpec, Parameters) {
    let elements = fill.row_elements.saturating_mul(fill.rows);
    let spec = OperationSpec::Fill {
        bytes: elements.saturating_mul(fill.element_bytes) as usize,
        value: fill.value,
        element_bytes: fill.element_bytes as usize,
    };
    let mut parameters = vec![("to".to_owned(), place(saved, &fill.to))];
    if fill.rows > 1 {
        let rows =
            [("row elements", fill.row_elements), ("rows", fill.rows), ("pitch", fill.pitch)];
        parameters.extend(rows.map(|(name, value)| (name.to_owned(), value.to_string())));
    }
    (spec, parameters)
}

fn word(saved: &SavedGraph, word: &SavedWord) -> String {
    let wait = |at: &Place, until: SavedUntil<u64>, bytes: u32| {
        let word = place(saved, at);
        let what = match until {
            SavedUntil::AtLeast(value) => format!("{word} >= {value:#x}"),
            SavedUntil::Equal(value) => format!("{word} == {value:#x}"),
            SavedUntil::AnyBit(value) => format!("{word} & {value:#x} != 0"),
            SavedUntil::NoBit(value) => format!("~({word} | {value:#x}) != 0"),
        };
        format!("wait for {what} in {bytes} bytes")
    };
    match word {
        SavedWord::Barrier => "barrier".to_owned(),
        SavedWord::Write32(word) => {
            format!("write {:#x} to {} in 4 bytes", word.value, place(saved, &word.to))
        }
        SavedWord::Write64(word) => {
            format!("write {:#x} to {} in 8 bytes", word.value, place(saved, &word.to))
        }
        SavedWord::Wait32(word) => {
            let until = match word.until {
                SavedUntil::AtLeast(value) => SavedUntil::AtLeast(value.into()),
                SavedUntil::Equal(value) => SavedUntil::Equal(value.into()),
                SavedUntil::AnyBit(value) => SavedUntil::AnyBit(value.into()),
                SavedUntil::NoBit(value) => SavedUntil::NoBit(value.into()),
            };
            wait(&word.word, until, 4)
        }
        SavedWord::Wait64(word) => wait(&word.word, word.until, 8),
    }
}

fn memory(saved: &SavedGraph, memory: usize) -> String {
    match saved.memory.get(memory) {
        Some(known) => known.name.clone(),
        None => format!("memory {memory}, of which there is none"),
    }
}

fn place(saved: &SavedGraph, place: &Place) -> String {
    let name = memory(saved, place.memory);
    if place.offset == 0 { name } else { format!("{name} + {}", place.offset) }
}
