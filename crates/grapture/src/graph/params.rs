//! The parameters of a graph's nodes, read back for [`Graph::topology`].

use std::ffi::CStr;
use std::ptr;

use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUDA_KERNEL_NODE_PARAMS_v1,
    CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUfunction, CUgraphNode,
    CUmemorytype, Function,
};

use crate::dim3::Dim3;
use crate::error::{CudaResult, check};
use crate::graph::{Graph, NodeKind};
use crate::topology::{CopyDirection, OperationSpec, Topology, TopologyEdge, TopologyNode};

impl Graph {
    /// The graph as plain data: what each node does and which waits for which, the nodes in the
    /// order in which they were made.
    ///
    /// The names of kernels come from the driver (12.3), or from what the capture retained.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn topology(&self) -> CudaResult<Topology> {
        let nodes = self.nodes()?;
        let mut specs = Vec::with_capacity(nodes.len());
        for node in &nodes {
            specs.push(TopologyNode::new(self.operation(node.id().as_raw(), node.kind())?));
        }
        let index: std::collections::HashMap<_, _> =
            nodes.iter().enumerate().map(|(index, node)| (node.id(), index)).collect();
        let edges = self
            .edges()?
            .into_iter()
            .filter_map(|edge| {
                let (from, to) = (*index.get(&edge.from())?, *index.get(&edge.to())?);
                Some(TopologyEdge::new(from, to, edge.data().is_programmatic()))
            })
            .collect();
        Topology::new(specs, edges)
    }

    fn operation(&self, node: CUgraphNode, kind: NodeKind) -> CudaResult<OperationSpec> {
        Ok(match kind {
            NodeKind::Kernel => self.kernel(node)?,
            NodeKind::Memcpy => self.copy(node)?,
            NodeKind::Memset => self.fill(node)?,
            NodeKind::Host => OperationSpec::Host,
            NodeKind::Empty => OperationSpec::Empty,
            NodeKind::EventRecord => OperationSpec::EventRecord,
            NodeKind::EventWait => OperationSpec::EventWait,
            other => OperationSpec::Other(other.to_string()),
        })
    }

    fn kernel(&self, node: CUgraphNode) -> CudaResult<OperationSpec> {
        let functions = self.functions();
        if self.context.driver().has(Function::cuGraphKernelNodeGetParams_v2) {
            let mut params = CUDA_KERNEL_NODE_PARAMS_v2::default();
            // SAFETY: a kernel node of this graph, and a live out-pointer.
            check(unsafe { (functions.cuGraphKernelNodeGetParams_v2)(node, &mut params) })?;
            return Ok(OperationSpec::Kernel {
                name: self.name_of(params.func)?,
                grid: Dim3::new(params.gridDimX, params.gridDimY, params.gridDimZ),
                block: Dim3::new(params.blockDimX, params.blockDimY, params.blockDimZ),
                shared_bytes: params.sharedMemBytes as usize,
            });
        }
        let mut params = CUDA_KERNEL_NODE_PARAMS_v1::default();
        // SAFETY: a kernel node of this graph, and a live out-pointer.
        check(unsafe { (functions.cuGraphKernelNodeGetParams)(node, &mut params) })?;
        Ok(OperationSpec::Kernel {
            name: self.name_of(params.func)?,
            grid: Dim3::new(params.gridDimX, params.gridDimY, params.gridDimZ),
            block: Dim3::new(params.blockDimX, params.blockDimY, params.blockDimZ),
            shared_bytes: params.sharedMemBytes as usize,
        })
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
        let known = self.share().kernel_name(function);
        Ok(known.unwrap_or_else(|| "kernel without a name".to_owned()))
    }

    fn copy(&self, node: CUgraphNode) -> CudaResult<OperationSpec> {
        let mut params = CUDA_MEMCPY3D::default();
        // SAFETY: a copy node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemcpyNodeGetParams)(node, &mut params) })?;
        let direction = direction(params.srcMemoryType, params.dstMemoryType);
        let bytes = params.WidthInBytes * params.Height.max(1) * params.Depth.max(1);
        Ok(OperationSpec::Copy { direction, bytes })
    }

    fn fill(&self, node: CUgraphNode) -> CudaResult<OperationSpec> {
        let mut params = CUDA_MEMSET_NODE_PARAMS::default();
        // SAFETY: a fill node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphMemsetNodeGetParams)(node, &mut params) })?;
        let element_bytes = params.elementSize as usize;
        let bytes = params.width * params.height.max(1) * element_bytes;
        Ok(OperationSpec::Fill { bytes, value: params.value, element_bytes })
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
