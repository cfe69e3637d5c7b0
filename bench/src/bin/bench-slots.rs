//! Slots of an executable, held against the driver calls that set the same nodes.
//!
//! Prints, for so many of 1,000 kernel nodes, the nanoseconds for each node of `GraphExec::set` and
//! of `cuGraphExecKernelNodeSetParams` alone, and their ratio. Both sides set nodes of graphs of the
//! same form in one process, and take turns at going first.

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
const PAIRS: usize = 400;

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
    nodes: Vec<CUgraphNode>,
    kernel: &'a Kernel,
    word: u64,
    value: u32,
    /// Its nodes have the names.
    _graph: Graph,
}

impl Raw<'_> {
    fn set(&mut self, current: bool) {
        self.value = self.value.wrapping_add(1);
        let mut arguments: [*mut c_void; 2] =
            [ptr::from_mut(&mut self.word).cast(), ptr::from_mut(&mut self.value).cast()];
        let params = CUDA_KERNEL_NODE_PARAMS_v2 {
            func: self.kernel.as_raw(),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: arguments.as_mut_ptr(),
            ctx: self.context.as_raw(),
            ..CUDA_KERNEL_NODE_PARAMS_v2::default()
        };
        if !current {
            // SAFETY: a live context.
            assert_eq!(unsafe { (self.functions.cuCtxPushCurrent_v2)(self.context.as_raw()) }.0, 0);
        }
        for node in &self.nodes {
            // SAFETY: a live executable graph, a node of its graph, and the parameters of a live
            // kernel. The context is current.
            unsafe { set_node(self.functions, self.exec.as_raw(), *node, &params) };
        }
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

fn main() -> CudaResult<()> {
    let context = Context::new(&Device::get(0)?)?;
    let stream = Stream::new(&context)?;
    let kernel = context.load_ptx(PTX)?.kernel("add")?;
    let driver = context.driver().clone();
    let functions = driver.as_raw().functions();
    println!("of {NODES} kernel nodes, ns for each node; medians of {PAIRS} pairs");
    println!("context      what     nodes   raw calls  slots   ratio of medians, of pairs");
    for current in [true, false] {
        let _current: Option<CurrentContext> =
            if current { Some(context.make_current()?) } else { None };
        for k in [1, 10, 100, 1_000] {
            let (mut word, mut other) =
                (DeviceBuffer::zeroed(&context, 1)?, DeviceBuffer::zeroed(&context, 1)?);
            let (graph, nodes) = chain(&context, &kernel, (&mut word, None), k)?;
            let mut raw = Raw {
                functions,
                context: &context,
                exec: graph.instantiate()?,
                nodes,
                kernel: &kernel,
                word: word.as_raw(),
                value: 0,
                _graph: graph,
            };
            let value = Slot::new(1u32);
            let mut memory = BufferSlotMut::new(&mut word.view_mut(..)?);
            let slots = Some((&mut memory, &value));
            let (graph, _) = chain(&context, &kernel, (&mut other, slots), k)?;
            let mut exec = graph.instantiate()?;
            raw.exec.launch(&stream)?;
            exec.launch(&stream)?;
            stream.synchronize()?;
            let times = (100 / k).max(1);
            let mut next = 0u32;
            for what in ["value", "memory"] {
                let (mut raws, mut sets, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
                for pair in 0..=PAIRS {
                    let mut of_raw = || nanoseconds(times, || raw.set(current));
                    let mut of_set = || {
                        nanoseconds(times, || {
                            next = next.wrapping_add(1);
                            let set = match (what, next % 2) {
                                ("value", _) => exec.set(&value, black_box(next)),
                                (_, 0) => exec.set(&memory, &mut word),
                                _ => exec.set(&memory, &mut other),
                            };
                            set.expect("the slot is set");
                        })
                    };
                    let (a, b) = if pair % 2 == 0 {
                        let first = of_raw();
                        (first, of_set())
                    } else {
                        let first = of_set();
                        (of_raw(), first)
                    };
                    if pair > 0 {
                        raws.push(a / k as f64);
                        sets.push(b / k as f64);
                        ratios.push(b / a);
                    }
                }
                let (a, b, ratio) = (median(&mut raws), median(&mut sets), median(&mut ratios));
                let context = if current { "current" } else { "not current" };
                println!(
                    "{context:12} {what:8} {k:5}   {a:9.1}  {b:5.1}   {:.3}, {ratio:.3}",
                    b / a
                );
            }
            stream.synchronize()?;
        }
    }
    Ok(())
}
