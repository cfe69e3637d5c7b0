//! Kernel nodes.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use super::graph_node::{Place, add, exec_set, get, set};
use crate::graph::{KernelNode, NodeParams};
use crate::launch::{self, Shape};
use crate::sim::{Answer, Sim, State};
use crate::work::LaunchAttributes;

/// The parameters of a kernel node, of either version.
#[derive(Clone, Copy)]
pub(super) struct KernelParams<'a> {
    function: usize,
    kernel: usize,
    context: usize,
    shape: Shape,
    arguments: Ptr<'a, *mut c_void>,
    extra: Ptr<'a, *mut c_void>,
}

impl<'a> KernelParams<'a> {
    /// Of the first version, which knows functions alone.
    fn first(params: Ptr<'a, CUDA_KERNEL_NODE_PARAMS_v1>) -> Result<KernelParams<'a>, CUresult> {
        let p = params.read()?;
        let (kern, ctx) = (std::ptr::null_mut(), std::ptr::null_mut());
        Ok(KernelParams::new(&CUDA_KERNEL_NODE_PARAMS_v2 {
            func: p.func,
            gridDimX: p.gridDimX,
            gridDimY: p.gridDimY,
            gridDimZ: p.gridDimZ,
            blockDimX: p.blockDimX,
            blockDimY: p.blockDimY,
            blockDimZ: p.blockDimZ,
            sharedMemBytes: p.sharedMemBytes,
            kernelParams: p.kernelParams,
            extra: p.extra,
            kern,
            ctx,
        }))
    }

    /// Of the second version.
    pub(super) fn second(
        params: Ptr<'a, CUDA_KERNEL_NODE_PARAMS_v2>,
    ) -> Result<KernelParams<'a>, CUresult> {
        Ok(KernelParams::new(&params.read()?))
    }

    /// What the struct says. It came from a program that passed it to be read, as the node
    /// functions do.
    fn new(p: &CUDA_KERNEL_NODE_PARAMS_v2) -> KernelParams<'a> {
        // SAFETY: the program passed the struct as the parameters of a node, whose `kernelParams`
        // is null or points to a pointer for each parameter during the call.
        let arguments = unsafe { Ptr::trust(p.kernelParams) };
        // SAFETY: as above: `extra` is null or points to a list of options that ends.
        let extra = unsafe { Ptr::trust(p.extra) };
        KernelParams {
            function: p.func.addr(),
            kernel: p.kern.addr(),
            context: p.ctx.addr(),
            shape: Shape {
                grid: [p.gridDimX, p.gridDimY, p.gridDimZ],
                block: [p.blockDimX, p.blockDimY, p.blockDimZ],
                shared_bytes: p.sharedMemBytes,
            },
            arguments,
            extra,
        }
    }

    /// The launch that the parameters describe.
    pub(super) fn node(
        &self,
        sim: &Sim,
        state: &mut State,
        attributes: LaunchAttributes,
    ) -> Result<NodeParams, CUresult> {
        let (function, context, kernel) = if self.function != 0 {
            // A real driver crashes where none is current, whatever the parameters say.
            state.current()?;
            let function = state.functions.find(self.function).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
            let context = state.functions.get(function).map(|known| known.context);
            (function, context.ok_or(CUDA_ERROR_INVALID_HANDLE)?, None)
        } else {
            let context = match self.context {
                0 => state.current()?,
                handle => state.contexts.find(handle).ok_or(CUDA_ERROR_INVALID_CONTEXT)?,
            };
            let function = launch::find_function(sim, state, self.kernel, context)?;
            (function, context, state.kernels.find(self.kernel))
        };
        // Where both are given, the pointers count and the list is not read.
        let (arguments, extra) = (self.arguments, self.extra);
        let work =
            launch::prepare(state, function, context, self.shape, attributes, arguments, extra);
        let core = state.context(context)?.core.clone();
        let mut node = KernelNode::new(core, work.map_err(launch::Refusal::code)?);
        node.library = kernel;
        Ok(NodeParams::Kernel(node))
    }
}

fn add_kernel(sim: &Sim, place: Place<'_>, params: KernelParams<'_>) -> Answer {
    add(sim, place, |state, _| params.node(sim, state, LaunchAttributes::default()))
}

/// The attributes of a kernel node's parameters.
pub(super) fn attributes_of(params: &NodeParams) -> Result<LaunchAttributes, CUresult> {
    match params {
        NodeParams::Kernel(kernel) => Ok(kernel.launch.work.attributes),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

fn set_kernel(sim: &Sim, node: Ptr<CUgraphNode_st>, params: KernelParams<'_>) -> Answer {
    set(sim, node, |state, old| {
        let attributes = attributes_of(old)?;
        params.node(sim, state, attributes)
    })
}

pub(crate) fn cuGraphAddKernelNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add_kernel(sim, place, KernelParams::first(params)?)
}

pub(crate) fn cuGraphAddKernelNode_v2(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add_kernel(sim, place, KernelParams::second(params)?)
}

/// The parameters that describe a kernel node, all but the context.
fn told(params: &NodeParams) -> Option<CUDA_KERNEL_NODE_PARAMS_v2> {
    let NodeParams::Kernel(kernel) = params else { return None };
    let work = &kernel.launch.work;
    let ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]) =
        (work.grid, work.block);
    // An address is an integer here: the array holds the pointers as such.
    let arguments = kernel.arguments.as_ptr().cast_mut().cast::<*mut c_void>();
    Some(CUDA_KERNEL_NODE_PARAMS_v2 {
        func: work.function.raw(),
        gridDimX,
        gridDimY,
        gridDimZ,
        blockDimX,
        blockDimY,
        blockDimZ,
        sharedMemBytes: work.shared_bytes,
        kernelParams: if kernel.arguments.is_empty() { std::ptr::null_mut() } else { arguments },
        kern: kernel.library.map_or(std::ptr::null_mut(), |kernel| kernel.raw()),
        ..CUDA_KERNEL_NODE_PARAMS_v2::default()
    })
}

pub(crate) fn cuGraphKernelNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    get(sim, node, out, |params| {
        told(params).map(|p| CUDA_KERNEL_NODE_PARAMS_v1 {
            func: p.func,
            gridDimX: p.gridDimX,
            gridDimY: p.gridDimY,
            gridDimZ: p.gridDimZ,
            blockDimX: p.blockDimX,
            blockDimY: p.blockDimY,
            blockDimZ: p.blockDimZ,
            sharedMemBytes: p.sharedMemBytes,
            kernelParams: p.kernelParams,
            extra: p.extra,
        })
    })
}

pub(crate) fn cuGraphKernelNodeGetParams_v2(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let params = state.graphs.params(node)?;
    let mut told = told(params).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if let NodeParams::Kernel(kernel) = params {
        told.ctx = state.handle_of(&kernel.launch.context);
    }
    out.write(told)
}

pub(crate) fn cuGraphKernelNodeSetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    set_kernel(sim, node, KernelParams::first(params)?)
}

pub(crate) fn cuGraphKernelNodeSetParams_v2(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Answer {
    set_kernel(sim, node, KernelParams::second(params)?)
}

fn exec_set_kernel(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: KernelParams<'_>,
) -> Answer {
    exec_set(sim, exec, node, |state, old| {
        let attributes = attributes_of(old)?;
        params.node(sim, state, attributes)
    })
}

pub(crate) fn cuGraphExecKernelNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    exec_set_kernel(sim, exec, node, KernelParams::first(params)?)
}

pub(crate) fn cuGraphExecKernelNodeSetParams_v2(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_KERNEL_NODE_PARAMS_v2>,
) -> Answer {
    exec_set_kernel(sim, exec, node, KernelParams::second(params)?)
}

/// The node with other attributes.
fn with_attributes(
    params: &NodeParams,
    attributes: LaunchAttributes,
) -> Result<NodeParams, CUresult> {
    let mut params = params.clone();
    match &mut params {
        NodeParams::Kernel(kernel) => kernel.launch.work.attributes = attributes,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(params)
}

/// Refuses attributes whose cluster the node cannot have.
fn check_cluster(state: &State, params: &NodeParams, attributes: LaunchAttributes) -> Answer {
    match (params, attributes.cluster) {
        (NodeParams::Kernel(kernel), Some(cluster)) => {
            launch::check_cluster_of_node(state, &kernel.launch.work, cluster)
        }
        _ => Ok(()),
    }
}

pub(crate) fn cuGraphKernelNodeCopyAttributes(
    sim: &Sim,
    target: Ptr<CUgraphNode_st>,
    source: Ptr<CUgraphNode_st>,
) -> Answer {
    let state = sim.lock();
    let source = state.graphs.find_node(source.raw())?;
    let attributes = attributes_of(state.graphs.params(source)?)?;
    drop(state);
    set(sim, target, |state, old| {
        check_cluster(state, old, attributes).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        with_attributes(old, attributes)
    })
}

pub(crate) fn cuGraphKernelNodeSetAttribute(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    attribute: CUkernelNodeAttrID,
    value: Ptr<CUkernelNodeAttrValue_v1>,
) -> Answer {
    value.required()?;
    set(sim, node, |state, old| {
        let mut attributes = attributes_of(old)?;
        attributes.set_of_node(attribute, value.cast())?;
        if attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION {
            check_cluster(state, old, attributes)?;
        }
        with_attributes(old, attributes)
    })
}

pub(crate) fn cuGraphKernelNodeGetAttribute(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    attribute: CUkernelNodeAttrID,
    out: Ptr<CUkernelNodeAttrValue_v1>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let known = attributes_of(state.graphs.params(node)?)?;
    known.get_of_node(attribute, out.cast())
}
