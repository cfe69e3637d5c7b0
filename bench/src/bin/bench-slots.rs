//! Slots of an executable, held against the driver calls that set the same nodes.
//!
//! Prints, for so many of 1,000 kernel nodes, the nanoseconds for each node of `GraphExec::set` and
//! of `cuGraphExecKernelNodeSetParams` alone, and their ratio. All sides set nodes of graphs of the
//! same form in one process, and take turns at going first.

use std::cell::RefCell;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

use grapture::sys::{CUDA_KERNEL_NODE_PARAMS_v2, CUgraphExec, CUgraphNode, Functions};
use grapture::{
    BufferSlotMut, Context, CudaResult, CurrentContext, Device, DeviceBuffer, Graph, GraphExec,
    Kernel, Slot, Stream,
};

const NODES: usize = 1_000;
const ROUNDS: usize = 300;

/// `*word += value`, for any value.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 n) {
    .reg .u64 %a;
    .reg .u32 %n, %v;
    ld.param.u64 %a, [p];
    ld.param.u32 %n, [n];
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, %n;
    st.global.u32 [%a], %v;
    ret;
}";

/// The driver's calls alone.
struct Raw<'a> {
    functions: &'a Functions,
    context: &'a Context,
    exec: GraphExec,
    /// Where they are, the parameters point to.
    nodes: Box<[RawNode]>,
    next: u32,
    /// Its nodes have the names.
    _graph: Graph,
}

/// A node with the parameters and the arguments that it has for itself, as nodes of a program have:
/// what is set is one argument of several.
struct RawNode {
    node: CUgraphNode,
    params: CUDA_KERNEL_NODE_PARAMS_v2,
    arguments: [*mut c_void; 2],
    word: u64,
    value: u32,
}

/// What is set.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Value,
    Memory,
}

impl RawNode {
    fn all(nodes: &[CUgraphNode], kernel: &Kernel, context: &Context, word: u64) -> Box<[RawNode]> {
        let params = CUDA_KERNEL_NODE_PARAMS_v2 {
            func: kernel.as_raw(),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            ctx: context.as_raw(),
            ..CUDA_KERNEL_NODE_PARAMS_v2::default()
        };
        let new = |node: &CUgraphNode| RawNode {
            node: *node,
            params,
            arguments: [ptr::null_mut(); 2],
            word,
            value: 1,
        };
        let mut nodes: Box<[RawNode]> = nodes.iter().map(new).collect();
        for node in &mut nodes {
            node.arguments = [(&raw mut node.word).cast(), (&raw mut node.value).cast()];
            node.params.kernelParams = node.arguments.as_mut_ptr();
        }
        nodes
    }
}

impl Raw<'_> {
    /// Each node with its own parameters.
    fn set(&mut self, what: What, words: [u64; 2], current: bool) {
        self.next = self.next.wrapping_add(1);
        let (next, word) = (black_box(self.next), black_box(words[self.next as usize % 2]));
        self.in_context(current, |raw| {
            for node in &mut raw.nodes {
                match what {
                    What::Value => node.value = next,
                    What::Memory => node.word = word,
                }
                // SAFETY: a live executable graph, a node of its graph, and the parameters of a live
                // kernel. The context is current.
                unsafe { set_node(raw.functions, raw.exec.as_raw(), node.node, &node.params) };
            }
        });
    }

    /// All nodes with the parameters of the first, which no program with arguments of several
    /// values could do.
    fn set_alike(&mut self, what: What, words: [u64; 2], current: bool) {
        self.next = self.next.wrapping_add(1);
        let (next, word) = (black_box(self.next), black_box(words[self.next as usize % 2]));
        self.in_context(current, |raw| {
            match what {
                What::Value => raw.nodes[0].value = next,
                What::Memory => raw.nodes[0].word = word,
            }
            let params = raw.nodes[0].params;
            for node in &raw.nodes {
                // SAFETY: as above.
                unsafe { set_node(raw.functions, raw.exec.as_raw(), node.node, &params) };
            }
        });
    }

    fn in_context(&mut self, current: bool, set: impl FnOnce(&mut Self)) {
        if !current {
            // SAFETY: a live context.
            assert_eq!(unsafe { (self.functions.cuCtxPushCurrent_v2)(self.context.as_raw()) }.0, 0);
        }
        set(self);
        if !current {
            let mut popped = ptr::null_mut();
            // SAFETY: it was pushed above.
            assert_eq!(unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) }.0, 0);
        }
    }
}

/// # Safety
///
/// As for the driver's call.
#[inline]
unsafe fn set_node(
    functions: &Functions,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS_v2,
) {
    // SAFETY: the caller's promise.
    let code = unsafe { (functions.cuGraphExecKernelNodeSetParams_v2)(exec, node, params) };
    assert_eq!(code.0, 0, "a node was not set");
}

/// A chain of kernels, of which every `NODES / k`th has the slots.
fn chain(
    context: &Context,
    kernel: &Kernel,
    (word, value): (&mut DeviceBuffer<u32>, Option<(&mut BufferSlotMut<u32>, &Slot<u32>)>),
    k: usize,
) -> CudaResult<(Graph, Vec<CUgraphNode>)> {
    let mut graph = Graph::new(context)?;
    let (mut last, mut chosen, mut slots) = (None, Vec::new(), value);
    for index in 0..NODES {
        let launch = kernel.launch_builder(1, 1);
        let is_chosen = index.is_multiple_of(NODES / k);
        let launch = match &mut slots {
            Some((memory, value)) if is_chosen => launch.arg_mut(&mut **memory).slot(value),
            _ => launch.arg_mut(&mut *word).value(1u32),
        };
        // SAFETY: `add` takes the address of a word and any value.
        let node = unsafe { graph.add_kernel(launch, last.as_slice()) }?;
        if is_chosen {
            chosen.push(node.as_raw());
        }
        last = Some(node);
    }
    Ok((graph, chosen))
}

fn nanoseconds(times: usize, mut set: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        set();
    }
    start.elapsed().as_nanos() as f64 / times as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The medians of the three sides, for each node, and of the ratios of pairs.
fn compare(sides: [&mut dyn FnMut() -> f64; 3]) -> ([f64; 3], [f64; 2]) {
    let (mut samples, mut ratios) = ([const { Vec::new() }; 3], [const { Vec::new() }; 2]);
    for round in 0..=ROUNDS {
        let mut now = [0.0; 3];
        for turn in 0..3 {
            let side = (round + turn) % 3;
            now[side] = sides[side]();
        }
        if round > 0 {
            samples.iter_mut().zip(now).for_each(|(samples, now)| samples.push(now));
            ratios.iter_mut().zip(now).for_each(|(ratios, raw)| ratios.push(now[2] / raw));
        }
    }
    (samples.each_mut().map(|of| median(of)), ratios.each_mut().map(|of| median(of)))
}

fn main() -> CudaResult<()> {
    let context = Context::new(&Device::get(0)?)?;
    let kernel = context.load_ptx(PTX)?.kernel("add")?;
    println!("of {NODES} kernel nodes, ns for each node; medians of {ROUNDS} rounds");
    println!("                            calls alone       set   ratio to own    to alike");
    println!("context      what   nodes     own   alike           medians, pairs  medians, pairs");
    for current in [true, false] {
        let _current: Option<CurrentContext> =
            if current { Some(context.make_current()?) } else { None };
        for k in [1, 10, 100, 1_000] {
            measure(&context, &kernel, k, current)?;
        }
    }
    Ok(())
}

fn measure(context: &Context, kernel: &Kernel, k: usize, current: bool) -> CudaResult<()> {
    let driver = context.driver().clone();
    let stream = Stream::new(context)?;
    let (mut word, mut other) =
        (DeviceBuffer::zeroed(context, 1)?, DeviceBuffer::zeroed(context, 1)?);
    let words = [word.as_raw(), other.as_raw()];
    let (graph, nodes) = chain(context, kernel, (&mut word, None), k)?;
    let raw = RefCell::new(Raw {
        functions: driver.as_raw().functions(),
        context,
        exec: graph.instantiate()?,
        nodes: RawNode::all(&nodes, kernel, context, word.as_raw()),
        next: 0,
        _graph: graph,
    });
    let value = Slot::new(1u32);
    let mut memory = BufferSlotMut::new(&mut word.view_mut(..)?);
    let (graph, _) = chain(context, kernel, (&mut other, Some((&mut memory, &value))), k)?;
    let mut exec = graph.instantiate()?;
    raw.borrow().exec.launch(&stream)?;
    exec.launch(&stream)?;
    stream.synchronize()?;
    let times = (100 / k).max(1);
    let mut next = 0u32;
    for what in [What::Value, What::Memory] {
        let mut own = || {
            let raw = &mut *raw.borrow_mut();
            nanoseconds(times, || raw.set(what, words, current)) / k as f64
        };
        let mut alike = || {
            let raw = &mut *raw.borrow_mut();
            nanoseconds(times, || raw.set_alike(what, words, current)) / k as f64
        };
        let mut set = || {
            let set = nanoseconds(times, || {
                next = next.wrapping_add(1);
                let set = match (what, next % 2) {
                    (What::Value, _) => exec.set(&value, black_box(next)),
                    (What::Memory, 0) => exec.set(&memory, &mut word),
                    (What::Memory, _) => exec.set(&memory, &mut other),
                };
                set.expect("the slot is set");
            });
            set / k as f64
        };
        let ([a, b, c], [own, alike]) = compare([&mut own, &mut alike, &mut set]);
        let context = if current { "current" } else { "not current" };
        let name = if what == What::Value { "value" } else { "memory" };
        let (to_own, to_alike) = (c / a, c / b);
        println!(
            "{context:12} {name:6} {k:5}   {a:5.1}   {b:5.1}   {c:7.1}   \
             {to_own:.3}, {own:.3}    {to_alike:.3}, {alike:.3}"
        );
    }
    stream.synchronize()
}
