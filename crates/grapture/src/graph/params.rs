//! [`NodeParams`]: what a node does, as the driver tells it.

use std::ffi::CStr;
use std::ptr;

use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_UNIFIED, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdeviceptr, CUevent, CUfunction,
    CUgraphNode, CUlaunchAttributeValue, CUmemorytype, Function,
};

use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::read::Reader;
use crate::graph::{Branching, MemoryOperation, NodeKind, Note};
use crate::launch::KernelAttribute;
use crate::module::Module;
use crate::topology::names::Names;
use crate::topology::{ConditionalForm, CopyDirection, OperationSpec, Topology};

/// What a node does, with all its parameters, as the driver tells it.
///
/// It is plain data: an address or a handle in it keeps nothing alive.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NodeParams {
    /// It runs a kernel.
    Kernel {
        /// The kernel's name.
        name: String,
        /// The blocks of the grid.
        grid: Dim3,
        /// The threads of a block.
        block: Dim3,
        /// The dynamic shared memory of a block, in bytes.
        shared_bytes: usize,
        /// The bytes of each argument. None: the driver does not tell how many there are (12.4).
        arguments: Option<Vec<Box<[u8]>>>,
        /// The attributes that the driver tells.
        attributes: Vec<KernelAttribute>,
    },
    /// It copies memory.
    Memcpy {
        /// Where to.
        target: CopyEnd,
        /// Where from.
        source: CopyEnd,
        /// How many bytes a row has.
        width_bytes: usize,
        /// How many rows there are.
        height: usize,
        /// How many slices of so many rows there are.
        depth: usize,
    },
    /// It fills memory with a value.
    Memset {
        /// Where to.
        address: CUdeviceptr,
        /// The value that is repeated.
        value: u32,
        /// The size of the value, in bytes: 1, 2 or 4.
        element_bytes: usize,
        /// How many values a row has.
        width: usize,
        /// How many rows there are.
        height: usize,
        /// From row to row, in bytes.
        pitch_bytes: usize,
    },
    /// It calls a function on the host.
    Host,
    /// It runs another graph.
    ChildGraph(Topology),
    /// It does nothing, and is there to be waited for.
    Empty,
    /// It records the event.
    EventRecord(CUevent),
    /// It waits for the event.
    EventWait(CUevent),
    /// It allocates memory.
    MemAlloc {
        /// Where.
        address: CUdeviceptr,
        /// How much.
        bytes: usize,
    },
    /// It frees memory.
    MemFree {
        /// Where.
        address: CUdeviceptr,
    },
    /// It writes words and waits for words, in this order.
    BatchMemOp(Vec<MemoryOperation>),
    /// It runs one of its graphs, or none, by a condition.
    Conditional {
        /// How it chooses.
        form: ConditionalForm,
        /// The word of device memory that it goes by; none: it goes by a
        /// [`Condition`](crate::Condition).
        word: Option<CUdeviceptr>,
        /// What each launch begins with, if it goes by a condition that has a default.
        default: Option<u32>,
        /// The graphs that it chooses from.
        bodies: Vec<Topology>,
    },
    /// It does something whose parameters have no form here: its kind.
    Other(NodeKind),
}

/// One end of a copy, as the driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    memory: CUmemorytype,
    address: u64,
    pitch_bytes: usize,
}

impl CopyEnd {
    /// Whether it is memory of the device.
    pub fn is_device(&self) -> bool {
        self.memory == CU_MEMORYTYPE_DEVICE
    }

    /// Whether it is memory of the host.
    pub fn is_host(&self) -> bool {
        self.memory == CU_MEMORYTYPE_HOST
    }

    /// The address of the first byte that is copied; 0 in an array, which has none.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// From row to row, in bytes; 0 if the rows lie one after the other.
    pub fn pitch_bytes(&self) -> usize {
        self.pitch_bytes
    }
}

impl NodeParams {
    /// What of it a [`Topology`] has: no address, no handle.
    pub fn operation(self) -> OperationSpec {
        match self {
            NodeParams::Kernel { name, grid, block, shared_bytes, .. } => {
                OperationSpec::Kernel { name, grid, block, shared_bytes }
            }
            NodeParams::Memcpy { target, source, width_bytes, height, depth } => {
                OperationSpec::Copy {
                    direction: direction(source.memory, target.memory),
                    bytes: width_bytes * height.max(1) * depth.max(1),
                }
            }
            NodeParams::Memset { value, element_bytes, width, height, .. } => OperationSpec::Fill {
                bytes: width * height.max(1) * element_bytes,
                value,
                element_bytes,
            },
            NodeParams::Host => OperationSpec::Host,
            NodeParams::ChildGraph(topology) => OperationSpec::ChildGraph(topology),
            NodeParams::Empty => OperationSpec::Empty,
            NodeParams::EventRecord(_) => OperationSpec::EventRecord,
            NodeParams::EventWait(_) => OperationSpec::EventWait,
            NodeParams::MemAlloc { bytes, .. } => OperationSpec::Allocation { bytes },
            NodeParams::MemFree { .. } => OperationSpec::Free,
            NodeParams::BatchMemOp(operations) => {
                OperationSpec::BatchMemOp { operations: operations.len() }
            }
            NodeParams::Conditional { form, bodies, .. } => {
                OperationSpec::Conditional { form, bodies }
            }
            NodeParams::Other(kind) => OperationSpec::Other(kind.to_string()),
        }
    }
}

fn direction(from: CUmemorytype, to: CUmemorytype) -> CopyDirection {
    match (from, to) {
        (CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE) => CopyDirection::HostToDevice,
        (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST) => CopyDirection::DeviceToHost,
        (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE) => CopyDirection::DeviceToDevice,
        (CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST) => CopyDirection::HostToHost,
        _ => CopyDirection::Other,
    }
}

impl<'a> Reader<'a> {
    /// The parameters of a node of the graph, of which that is known.
    pub(super) fn params(&self, node: CUgraphNode, note: &Note) -> CudaResult<NodeParams> {
        if let Some(branching) = note.branching() {
            return self.conditional(branching);
        }
        Ok(match self.kind(node)? {
            NodeKind::Kernel => self.kernel(node)?,
            NodeKind::Memcpy => self.copy(node)?,
            NodeKind::Memset => self.fill(node)?,
            NodeKind::Host => NodeParams::Host,
            NodeKind::Empty => NodeParams::Empty,
            NodeKind::ChildGraph => {
                let names = &mut Names::new(self.context);
                NodeParams::ChildGraph(self.child(node)?.described(names, note.child())?)
            }
            NodeKind::EventRecord => NodeParams::EventRecord(self.event(node, true)?),
            NodeKind::EventWait => NodeParams::EventWait(self.event(node, false)?),
            NodeKind::MemAlloc => self.allocation(node)?,
            NodeKind::MemFree => self.free(node)?,
            NodeKind::BatchMemOp => self.batch(node)?,
            other => NodeParams::Other(other),
        })
    }

    fn conditional(&self, node: &Branching) -> CudaResult<NodeParams> {
        let names = &mut Names::new(self.context);
        let bodies = node.bodies.iter();
        let bodies = bodies.map(|body| self.body(body).described(names, &body.notes));
        let bodies = bodies.collect::<CudaResult<_>>()?;
        let (form, word, default) = (node.form(), node.word, node.default);
        Ok(NodeParams::Conditional { form, word, default, bodies })
    }

    fn kernel(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let params = self.raw_kernel(node)?;
        Ok(NodeParams::Kernel {
            name: self.name_of(params.func)?,
            grid: Dim3::new(params.gridDimX, params.gridDimY, params.gridDimZ),
            block: Dim3::new(params.blockDimX, params.blockDimY, params.blockDimZ),
            shared_bytes: params.sharedMemBytes as usize,
            arguments: self.arguments(&params),
            attributes: self.attributes(node)?,
        })
    }

    /// The context in which a kernel node runs, if it is known.
    pub(super) fn place_of_kernel(&self, node: CUgraphNode) -> CudaResult<Option<CUcontext>> {
        if self.kind(node)? != NodeKind::Kernel {
            return Ok(None);
        }
        let params = self.raw_kernel(node)?;
        let of_module =
            || self.share.kernel_module(params.func).map(|module| module.context().as_raw());
        Ok(if params.ctx.is_null() { of_module() } else { Some(params.ctx) })
    }

    /// The module of a kernel node's kernel, if this library launched or added it.
    pub(super) fn module_of(&self, node: CUgraphNode) -> CudaResult<Option<Module>> {
        Ok(self.share.kernel_module(self.raw_kernel(node)?.func))
    }

    pub(super) fn raw_kernel(&self, node: CUgraphNode) -> CudaResult<CUDA_KERNEL_NODE_PARAMS_v2> {
        let functions = self.functions();
        let mut params = CUDA_KERNEL_NODE_PARAMS_v2::default();
        if self.context.driver().has(Function::cuGraphKernelNodeGetParams_v2) {
            // SAFETY: a kernel node of this graph, and a live out-pointer.
            check(unsafe { (functions.cuGraphKernelNodeGetParams_v2)(node, &mut params) })?;
            return Ok(params);
        }
        let mut old = CUDA_KERNEL_NODE_PARAMS_v1::default();
        // SAFETY: a kernel node of this graph, and a live out-pointer.
        check(unsafe { (functions.cuGraphKernelNodeGetParams)(node, &mut old) })?;
        params.func = old.func;
        (params.gridDimX, params.gridDimY, params.gridDimZ) =
            (old.gridDimX, old.gridDimY, old.gridDimZ);
        (params.blockDimX, params.blockDimY, params.blockDimZ) =
            (old.blockDimX, old.blockDimY, old.blockDimZ);
        (params.sharedMemBytes, params.kernelParams) = (old.sharedMemBytes, old.kernelParams);
        Ok(params)
    }

    fn name_of(&self, function: CUfunction) -> CudaResult<String> {
        if self.context.driver().has(Function::cuFuncGetName) && !function.is_null() {
            let mut name = ptr::null();
            // SAFETY: a function of a module that the graph keeps loaded (O2); a live out-pointer.
            check(unsafe { (self.functions().cuFuncGetName)(&mut name, function) })?;
            if !name.is_null() {
                // SAFETY: NVIDIA: the name is NUL-terminated and lives as long as the module.
                return Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
            }
        }
        let known = self.share.kernel_name(function);
        Ok(known.unwrap_or_else(|| "kernel without a name".to_owned()))
    }

    /// The bytes of the arguments, if the driver tells their number and their sizes.
    fn arguments(&self, params: &CUDA_KERNEL_NODE_PARAMS_v2) -> Option<Vec<Box<[u8]>>> {
        let sizes = self.share.kernel_parameters(params.func)?;
        if params.kernelParams.is_null() {
            return sizes.is_empty().then(Vec::new);
        }
        let read = |(index, bytes): (usize, &usize)| {
            let argument = params.kernelParams.wrapping_add(index);
            // SAFETY: NVIDIA: the array, with an entry for each parameter of the kernel, is owned
            // by the node and valid until the node is changed.
            let argument = unsafe { argument.read() };
            // SAFETY: the same for the argument, which has as many bytes as the parameter.
            unsafe { std::slice::from_raw_parts(argument.cast::<u8>(), *bytes) }.into()
        };
        Some(sizes.iter().enumerate().map(read).collect())
    }

    /// The attributes of a kernel node, as far as the driver knows of them.
    pub(super) fn attributes(&self, node: CUgraphNode) -> CudaResult<Vec<KernelAttribute>> {
        let mut known = Vec::new();
        for id in KernelAttribute::IDS {
            let mut value = CUlaunchAttributeValue::default();
            // SAFETY: a kernel node of this graph, and a live out-pointer.
            let code =
                unsafe { (self.functions().cuGraphKernelNodeGetAttribute)(node, id, &mut value) };
            match check(code) {
                // SAFETY: the driver has just filled it in for this id.
                Ok(()) => known.extend(unsafe { KernelAttribute::from_raw(id, &value) }),
                Err(CudaError::InvalidValue | CudaError::NotSupported) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    fn copy(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let mut params = CUDA_MEMCPY3D::default();
        // SAFETY: a copy node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemcpyNodeGetParams)(node, &mut params) })?;
        let end = |memory, device, host: u64, x: usize, y: usize, z: usize, pitch, height| {
            let base = match memory {
                CU_MEMORYTYPE_HOST => host,
                CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED => device,
                _ => return CopyEnd { memory, address: 0, pitch_bytes: 0 },
            };
            // The driver has checked that it all lies within memory.
            let offset = (z.wrapping_mul(height).wrapping_add(y)).wrapping_mul(pitch);
            let address = base.wrapping_add(offset.wrapping_add(x) as u64);
            CopyEnd { memory, address, pitch_bytes: pitch }
        };
        let source = end(
            params.srcMemoryType,
            params.srcDevice,
            params.srcHost.addr() as u64,
            params.srcXInBytes,
            params.srcY,
            params.srcZ,
            params.srcPitch,
            params.srcHeight,
        );
        let target = end(
            params.dstMemoryType,
            params.dstDevice,
            params.dstHost.addr() as u64,
            params.dstXInBytes,
            params.dstY,
            params.dstZ,
            params.dstPitch,
            params.dstHeight,
        );
        let (height, depth) = (params.Height, params.Depth);
        Ok(NodeParams::Memcpy { target, source, width_bytes: params.WidthInBytes, height, depth })
    }

    fn fill(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let mut params = CUDA_MEMSET_NODE_PARAMS::default();
        // SAFETY: a fill node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemsetNodeGetParams)(node, &mut params) })?;
        Ok(NodeParams::Memset {
            address: params.dst,
            value: params.value,
            element_bytes: params.elementSize as usize,
            width: params.width,
            height: params.height,
            pitch_bytes: params.pitch,
        })
    }

    /// The graph that a node embeds.
    pub(super) fn child(&self, node: CUgraphNode) -> CudaResult<Reader<'a>> {
        let mut raw = ptr::null_mut();
        // SAFETY: a child graph node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphChildGraphNodeGetGraph)(node, &mut raw) })?;
        // SAFETY: it lives as long as the node, in a graph that is borrowed, and what its nodes
        // use is part of what that graph owns.
        Ok(unsafe { Reader::new(raw, self.context, self.share) })
    }

    pub(super) fn event(&self, node: CUgraphNode, records: bool) -> CudaResult<CUevent> {
        let functions = self.functions();
        let get = match records {
            true => functions.cuGraphEventRecordNodeGetEvent,
            false => functions.cuGraphEventWaitNodeGetEvent,
        };
        let mut event = ptr::null_mut();
        // SAFETY: a node of this graph of that kind, and a live out-pointer.
        check(unsafe { get(node, &mut event) })?;
        Ok(event)
    }

    fn allocation(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS::default();
        // SAFETY: an allocation node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemAllocNodeGetParams)(node, &mut params) })?;
        Ok(NodeParams::MemAlloc { address: params.dptr, bytes: params.bytesize })
    }

    fn free(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let mut address = 0;
        // SAFETY: a free node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemFreeNodeGetParams)(node, &mut address) })?;
        Ok(NodeParams::MemFree { address })
    }

    fn batch(&self, node: CUgraphNode) -> CudaResult<NodeParams> {
        let mut params = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
        // SAFETY: a node of this graph of that kind, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphBatchMemOpNodeGetParams)(node, &mut params) })?;
        if params.paramArray.is_null() || params.count == 0 {
            return Ok(NodeParams::BatchMemOp(Vec::new()));
        }
        // SAFETY: the driver tells an array of so many operations, which lasts as long as the node
        // is not changed.
        let told = unsafe { std::slice::from_raw_parts(params.paramArray, params.count as usize) };
        // SAFETY: the driver told them.
        let read = |raw| unsafe { MemoryOperation::from_raw(raw) };
        Ok(NodeParams::BatchMemOp(told.iter().map(read).collect()))
    }
}
