//! The table of driver functions: one line each.
//!
//! A line reads `symbol = "name" @ since (arguments);`
//! - `symbol` is the exported name of one ABI version, and the field of [`Functions`](crate::Functions);
//! - `name` is what `cuGetProcAddress` calls it;
//! - `since` is the driver version (1000 × major + 10 × minor) that brought this ABI, and the
//!   version that is asked for, so that a later ABI of the same name is never taken for it.
//!
//! Asking for `"cuGraphInstantiate"` gives the old five-argument ABI at every version: use
//! `cuGraphInstantiateWithFlags`.

/// Calls the macro `$callback` with every line of the function table.
///
/// The place of the call needs the types of this crate in scope, and `c_char` and `c_void`.
#[macro_export]
macro_rules! driver_functions {
    ($callback:path) => {
        $callback! {
            // Stream capture
            cuStreamBeginCapture = "cuStreamBeginCapture" @ 10000 (hStream: CUstream);
            cuStreamBeginCapture_v2 = "cuStreamBeginCapture" @ 10010 (hStream: CUstream, mode: CUstreamCaptureMode);
            cuStreamBeginCaptureToGraph = "cuStreamBeginCaptureToGraph" @ 12030 (hStream: CUstream, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const CUgraphEdgeData, numDependencies: usize, mode: CUstreamCaptureMode);
            cuStreamBeginRecaptureToGraph = "cuStreamBeginRecaptureToGraph" @ 13030 (hStream: CUstream, mode: CUstreamCaptureMode, hGraph: CUgraph, callbackFunc: CUgraphRecaptureCallback, userData: *mut c_void);
            cuStreamEndCapture = "cuStreamEndCapture" @ 10000 (hStream: CUstream, phGraph: *mut CUgraph);
            cuStreamIsCapturing = "cuStreamIsCapturing" @ 10000 (hStream: CUstream, captureStatus: *mut CUstreamCaptureStatus);
            cuStreamGetCaptureInfo = "cuStreamGetCaptureInfo" @ 10010 (hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus, id_out: *mut u64);
            cuStreamGetCaptureInfo_v2 = "cuStreamGetCaptureInfo" @ 11030 (hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus, id_out: *mut u64, graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode, numDependencies_out: *mut usize);
            cuStreamGetCaptureInfo_v3 = "cuStreamGetCaptureInfo" @ 12030 (hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus, id_out: *mut u64, graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode, edgeData_out: *mut *const CUgraphEdgeData, numDependencies_out: *mut usize);
            cuStreamUpdateCaptureDependencies = "cuStreamUpdateCaptureDependencies" @ 11030 (hStream: CUstream, dependencies: *mut CUgraphNode, numDependencies: usize, flags: u32);
            cuStreamUpdateCaptureDependencies_v2 = "cuStreamUpdateCaptureDependencies" @ 12030 (hStream: CUstream, dependencies: *mut CUgraphNode, dependencyData: *const CUgraphEdgeData, numDependencies: usize, flags: u32);
            cuThreadExchangeStreamCaptureMode = "cuThreadExchangeStreamCaptureMode" @ 10010 (mode: *mut CUstreamCaptureMode);

            // Graph object
            cuGraphCreate = "cuGraphCreate" @ 10000 (phGraph: *mut CUgraph, flags: u32);
            cuGraphDestroy = "cuGraphDestroy" @ 10000 (hGraph: CUgraph);
            cuGraphClone = "cuGraphClone" @ 10000 (phGraphClone: *mut CUgraph, originalGraph: CUgraph);
            cuGraphNodeFindInClone = "cuGraphNodeFindInClone" @ 10000 (phNode: *mut CUgraphNode, hOriginalNode: CUgraphNode, hClonedGraph: CUgraph);
            cuGraphGetNodes = "cuGraphGetNodes" @ 10000 (hGraph: CUgraph, nodes: *mut CUgraphNode, numNodes: *mut usize);
            cuGraphGetRootNodes = "cuGraphGetRootNodes" @ 10000 (hGraph: CUgraph, rootNodes: *mut CUgraphNode, numRootNodes: *mut usize);
            cuGraphGetEdges = "cuGraphGetEdges" @ 10000 (hGraph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, numEdges: *mut usize);
            cuGraphGetEdges_v2 = "cuGraphGetEdges" @ 12030 (hGraph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edgeData: *mut CUgraphEdgeData, numEdges: *mut usize);
            cuGraphAddDependencies = "cuGraphAddDependencies" @ 10000 (hGraph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, numDependencies: usize);
            cuGraphAddDependencies_v2 = "cuGraphAddDependencies" @ 12030 (hGraph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edgeData: *const CUgraphEdgeData, numDependencies: usize);
            cuGraphRemoveDependencies = "cuGraphRemoveDependencies" @ 10000 (hGraph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, numDependencies: usize);
            cuGraphRemoveDependencies_v2 = "cuGraphRemoveDependencies" @ 12030 (hGraph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edgeData: *const CUgraphEdgeData, numDependencies: usize);
            cuGraphDestroyNode = "cuGraphDestroyNode" @ 10000 (hNode: CUgraphNode);
            cuGraphNodeGetDependencies = "cuGraphNodeGetDependencies" @ 10000 (hNode: CUgraphNode, dependencies: *mut CUgraphNode, numDependencies: *mut usize);
            cuGraphNodeGetDependencies_v2 = "cuGraphNodeGetDependencies" @ 12030 (hNode: CUgraphNode, dependencies: *mut CUgraphNode, edgeData: *mut CUgraphEdgeData, numDependencies: *mut usize);
            cuGraphNodeGetDependentNodes = "cuGraphNodeGetDependentNodes" @ 10000 (hNode: CUgraphNode, dependentNodes: *mut CUgraphNode, numDependentNodes: *mut usize);
            cuGraphNodeGetDependentNodes_v2 = "cuGraphNodeGetDependentNodes" @ 12030 (hNode: CUgraphNode, dependentNodes: *mut CUgraphNode, edgeData: *mut CUgraphEdgeData, numDependentNodes: *mut usize);
            cuGraphNodeGetType = "cuGraphNodeGetType" @ 10000 (hNode: CUgraphNode, type_: *mut CUgraphNodeType);
            cuGraphNodeGetContainingGraph = "cuGraphNodeGetContainingGraph" @ 13010 (hNode: CUgraphNode, phGraph: *mut CUgraph);
            cuGraphNodeGetLocalId = "cuGraphNodeGetLocalId" @ 13010 (hNode: CUgraphNode, nodeId: *mut u32);
            cuGraphNodeGetToolsId = "cuGraphNodeGetToolsId" @ 13010 (hNode: CUgraphNode, nodeId: *mut u64);
            cuGraphGetId = "cuGraphGetId" @ 13010 (hGraph: CUgraph, graphId: *mut u32);
            cuGraphExecGetId = "cuGraphExecGetId" @ 13010 (hGraphExec: CUgraphExec, graphId: *mut u32);
            cuGraphDebugDotPrint = "cuGraphDebugDotPrint" @ 11030 (hGraph: CUgraph, path: *const c_char, flags: u32);

            // Generic nodes
            cuGraphAddNode = "cuGraphAddNode" @ 12020 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *mut CUgraphNodeParams);
            cuGraphAddNode_v2 = "cuGraphAddNode" @ 12030 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, dependencyData: *const CUgraphEdgeData, numDependencies: usize, nodeParams: *mut CUgraphNodeParams);
            cuGraphNodeSetParams = "cuGraphNodeSetParams" @ 12020 (hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams);
            cuGraphNodeGetParams = "cuGraphNodeGetParams" @ 13020 (hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams);

            // Typed nodes
            cuGraphAddKernelNode = "cuGraphAddKernelNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1);
            cuGraphAddKernelNode_v2 = "cuGraphAddKernelNode" @ 12000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v2);
            cuGraphKernelNodeGetParams = "cuGraphKernelNodeGetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *mut CUDA_KERNEL_NODE_PARAMS_v1);
            cuGraphKernelNodeGetParams_v2 = "cuGraphKernelNodeGetParams" @ 12000 (hNode: CUgraphNode, nodeParams: *mut CUDA_KERNEL_NODE_PARAMS_v2);
            cuGraphKernelNodeSetParams = "cuGraphKernelNodeSetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1);
            cuGraphKernelNodeSetParams_v2 = "cuGraphKernelNodeSetParams" @ 12000 (hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v2);
            cuGraphKernelNodeCopyAttributes = "cuGraphKernelNodeCopyAttributes" @ 11000 (dst: CUgraphNode, src: CUgraphNode);
            cuGraphKernelNodeGetAttribute = "cuGraphKernelNodeGetAttribute" @ 11000 (hNode: CUgraphNode, attr: CUkernelNodeAttrID, value_out: *mut CUkernelNodeAttrValue_v1);
            cuGraphKernelNodeSetAttribute = "cuGraphKernelNodeSetAttribute" @ 11000 (hNode: CUgraphNode, attr: CUkernelNodeAttrID, value: *const CUkernelNodeAttrValue_v1);
            cuGraphAddMemcpyNode = "cuGraphAddMemcpyNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, copyParams: *const CUDA_MEMCPY3D_v2, ctx: CUcontext);
            cuGraphMemcpyNodeGetParams = "cuGraphMemcpyNodeGetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D_v2);
            cuGraphMemcpyNodeSetParams = "cuGraphMemcpyNodeSetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *const CUDA_MEMCPY3D_v2);
            cuGraphAddMemsetNode = "cuGraphAddMemsetNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, memsetParams: *const CUDA_MEMSET_NODE_PARAMS_v1, ctx: CUcontext);
            cuGraphMemsetNodeGetParams = "cuGraphMemsetNodeGetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *mut CUDA_MEMSET_NODE_PARAMS_v1);
            cuGraphMemsetNodeSetParams = "cuGraphMemsetNodeSetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *const CUDA_MEMSET_NODE_PARAMS_v1);
            cuGraphAddHostNode = "cuGraphAddHostNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_HOST_NODE_PARAMS_v1);
            cuGraphHostNodeGetParams = "cuGraphHostNodeGetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *mut CUDA_HOST_NODE_PARAMS_v1);
            cuGraphHostNodeSetParams = "cuGraphHostNodeSetParams" @ 10000 (hNode: CUgraphNode, nodeParams: *const CUDA_HOST_NODE_PARAMS_v1);
            cuGraphAddChildGraphNode = "cuGraphAddChildGraphNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, childGraph: CUgraph);
            cuGraphChildGraphNodeGetGraph = "cuGraphChildGraphNodeGetGraph" @ 10000 (hNode: CUgraphNode, phGraph: *mut CUgraph);
            cuGraphAddEmptyNode = "cuGraphAddEmptyNode" @ 10000 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize);
            cuGraphAddEventRecordNode = "cuGraphAddEventRecordNode" @ 11010 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, event: CUevent);
            cuGraphEventRecordNodeGetEvent = "cuGraphEventRecordNodeGetEvent" @ 11010 (hNode: CUgraphNode, event_out: *mut CUevent);
            cuGraphEventRecordNodeSetEvent = "cuGraphEventRecordNodeSetEvent" @ 11010 (hNode: CUgraphNode, event: CUevent);
            cuGraphAddEventWaitNode = "cuGraphAddEventWaitNode" @ 11010 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, event: CUevent);
            cuGraphEventWaitNodeGetEvent = "cuGraphEventWaitNodeGetEvent" @ 11010 (hNode: CUgraphNode, event_out: *mut CUevent);
            cuGraphEventWaitNodeSetEvent = "cuGraphEventWaitNodeSetEvent" @ 11010 (hNode: CUgraphNode, event: CUevent);
            cuGraphAddExternalSemaphoresSignalNode = "cuGraphAddExternalSemaphoresSignalNode" @ 11020 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1);
            cuGraphExternalSemaphoresSignalNodeGetParams = "cuGraphExternalSemaphoresSignalNodeGetParams" @ 11020 (hNode: CUgraphNode, params_out: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1);
            cuGraphExternalSemaphoresSignalNodeSetParams = "cuGraphExternalSemaphoresSignalNodeSetParams" @ 11020 (hNode: CUgraphNode, nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1);
            cuGraphAddExternalSemaphoresWaitNode = "cuGraphAddExternalSemaphoresWaitNode" @ 11020 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1);
            cuGraphExternalSemaphoresWaitNodeGetParams = "cuGraphExternalSemaphoresWaitNodeGetParams" @ 11020 (hNode: CUgraphNode, params_out: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1);
            cuGraphExternalSemaphoresWaitNodeSetParams = "cuGraphExternalSemaphoresWaitNodeSetParams" @ 11020 (hNode: CUgraphNode, nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1);
            cuGraphAddBatchMemOpNode = "cuGraphAddBatchMemOpNode" @ 11070 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
            cuGraphBatchMemOpNodeGetParams = "cuGraphBatchMemOpNodeGetParams" @ 11070 (hNode: CUgraphNode, nodeParams_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS);
            cuGraphBatchMemOpNodeSetParams = "cuGraphBatchMemOpNodeSetParams" @ 11070 (hNode: CUgraphNode, nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);

            // Graph memory
            cuGraphAddMemAllocNode = "cuGraphAddMemAllocNode" @ 11040 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            cuGraphMemAllocNodeGetParams = "cuGraphMemAllocNodeGetParams" @ 11040 (hNode: CUgraphNode, params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            cuGraphAddMemFreeNode = "cuGraphAddMemFreeNode" @ 11040 (phGraphNode: *mut CUgraphNode, hGraph: CUgraph, dependencies: *const CUgraphNode, numDependencies: usize, dptr: CUdeviceptr);
            cuGraphMemFreeNodeGetParams = "cuGraphMemFreeNodeGetParams" @ 11040 (hNode: CUgraphNode, dptr_out: *mut CUdeviceptr);
            cuDeviceGraphMemTrim = "cuDeviceGraphMemTrim" @ 11040 (device: CUdevice);
            cuDeviceGetGraphMemAttribute = "cuDeviceGetGraphMemAttribute" @ 11040 (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void);
            cuDeviceSetGraphMemAttribute = "cuDeviceSetGraphMemAttribute" @ 11040 (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void);

            // Conditional and user objects
            cuGraphConditionalHandleCreate = "cuGraphConditionalHandleCreate" @ 12030 (pHandle_out: *mut CUgraphConditionalHandle, hGraph: CUgraph, ctx: CUcontext, defaultLaunchValue: u32, flags: u32);
            cuUserObjectCreate = "cuUserObjectCreate" @ 11030 (object_out: *mut CUuserObject, ptr: *mut c_void, destroy: CUhostFn, initialRefcount: u32, flags: u32);
            cuUserObjectRetain = "cuUserObjectRetain" @ 11030 (object: CUuserObject, count: u32);
            cuUserObjectRelease = "cuUserObjectRelease" @ 11030 (object: CUuserObject, count: u32);
            cuGraphRetainUserObject = "cuGraphRetainUserObject" @ 11030 (graph: CUgraph, object: CUuserObject, count: u32, flags: u32);
            cuGraphReleaseUserObject = "cuGraphReleaseUserObject" @ 11030 (graph: CUgraph, object: CUuserObject, count: u32);

            // Executable graph
            cuGraphInstantiate = "cuGraphInstantiate" @ 10000 (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut c_char, bufferSize: usize);
            cuGraphInstantiate_v2 = "cuGraphInstantiate" @ 11000 (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, phErrorNode: *mut CUgraphNode, logBuffer: *mut c_char, bufferSize: usize);
            cuGraphInstantiateWithFlags = "cuGraphInstantiateWithFlags" @ 11040 (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, flags: u64);
            cuGraphInstantiateWithParams = "cuGraphInstantiateWithParams" @ 12000 (phGraphExec: *mut CUgraphExec, hGraph: CUgraph, instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
            cuGraphExecGetFlags = "cuGraphExecGetFlags" @ 12000 (hGraphExec: CUgraphExec, flags: *mut u64);
            cuGraphUpload = "cuGraphUpload" @ 11010 (hGraph: CUgraphExec, hStream: CUstream);
            cuGraphLaunch = "cuGraphLaunch" @ 10000 (hGraph: CUgraphExec, hStream: CUstream);
            cuGraphExecDestroy = "cuGraphExecDestroy" @ 10000 (hGraphExec: CUgraphExec);
            cuGraphExecUpdate = "cuGraphExecUpdate" @ 10020 (hGraphExec: CUgraphExec, hGraph: CUgraph, hErrorNode_out: *mut CUgraphNode, updateResult_out: *mut CUgraphExecUpdateResult);
            cuGraphExecUpdate_v2 = "cuGraphExecUpdate" @ 12000 (hGraphExec: CUgraphExec, hGraph: CUgraph, resultInfo: *mut CUgraphExecUpdateResultInfo);
            cuGraphExecNodeSetParams = "cuGraphExecNodeSetParams" @ 12020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams);
            cuGraphExecKernelNodeSetParams = "cuGraphExecKernelNodeSetParams" @ 10010 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1);
            cuGraphExecKernelNodeSetParams_v2 = "cuGraphExecKernelNodeSetParams" @ 12000 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v2);
            cuGraphExecMemcpyNodeSetParams = "cuGraphExecMemcpyNodeSetParams" @ 10020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, copyParams: *const CUDA_MEMCPY3D_v2, ctx: CUcontext);
            cuGraphExecMemsetNodeSetParams = "cuGraphExecMemsetNodeSetParams" @ 10020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, memsetParams: *const CUDA_MEMSET_NODE_PARAMS_v1, ctx: CUcontext);
            cuGraphExecHostNodeSetParams = "cuGraphExecHostNodeSetParams" @ 10020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_HOST_NODE_PARAMS_v1);
            cuGraphExecChildGraphNodeSetParams = "cuGraphExecChildGraphNodeSetParams" @ 11010 (hGraphExec: CUgraphExec, hNode: CUgraphNode, childGraph: CUgraph);
            cuGraphExecEventRecordNodeSetEvent = "cuGraphExecEventRecordNodeSetEvent" @ 11010 (hGraphExec: CUgraphExec, hNode: CUgraphNode, event: CUevent);
            cuGraphExecEventWaitNodeSetEvent = "cuGraphExecEventWaitNodeSetEvent" @ 11010 (hGraphExec: CUgraphExec, hNode: CUgraphNode, event: CUevent);
            cuGraphExecExternalSemaphoresSignalNodeSetParams = "cuGraphExecExternalSemaphoresSignalNodeSetParams" @ 11020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1);
            cuGraphExecExternalSemaphoresWaitNodeSetParams = "cuGraphExecExternalSemaphoresWaitNodeSetParams" @ 11020 (hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1);
            cuGraphExecBatchMemOpNodeSetParams = "cuGraphExecBatchMemOpNodeSetParams" @ 11070 (graphExec: CUgraphExec, node: CUgraphNode, nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
            cuGraphNodeSetEnabled = "cuGraphNodeSetEnabled" @ 11060 (hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: u32);
            cuGraphNodeGetEnabled = "cuGraphNodeGetEnabled" @ 11060 (hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: *mut u32);

            // Init, errors, lookup, device, context
            cuInit = "cuInit" @ 2000 (Flags: u32);
            cuDriverGetVersion = "cuDriverGetVersion" @ 2020 (driverVersion: *mut i32);
            cuGetErrorName = "cuGetErrorName" @ 6000 (error: CUresult, pStr: *mut *const c_char);
            cuGetErrorString = "cuGetErrorString" @ 6000 (error: CUresult, pStr: *mut *const c_char);
            cuGetProcAddress = "cuGetProcAddress" @ 11030 (symbol: *const c_char, pfn: *mut *mut c_void, driverVersion: i32, flags: u64);
            cuGetProcAddress_v2 = "cuGetProcAddress" @ 12000 (symbol: *const c_char, pfn: *mut *mut c_void, driverVersion: i32, flags: u64, symbolFound: *mut CUdriverProcAddressQueryResult);
            cuDeviceGetCount = "cuDeviceGetCount" @ 2000 (count: *mut i32);
            cuDeviceGet = "cuDeviceGet" @ 2000 (device: *mut CUdevice, ordinal: i32);
            cuDeviceGetName = "cuDeviceGetName" @ 2000 (name: *mut c_char, len: i32, dev: CUdevice);
            cuDeviceGetUuid = "cuDeviceGetUuid" @ 9020 (uuid: *mut CUuuid, dev: CUdevice);
            cuDeviceGetUuid_v2 = "cuDeviceGetUuid" @ 11040 (uuid: *mut CUuuid, dev: CUdevice);
            cuDeviceTotalMem_v2 = "cuDeviceTotalMem" @ 3020 (bytes: *mut usize, dev: CUdevice);
            cuDeviceGetAttribute = "cuDeviceGetAttribute" @ 2000 (pi: *mut i32, attrib: CUdevice_attribute, dev: CUdevice);
            cuDeviceGetPCIBusId = "cuDeviceGetPCIBusId" @ 4010 (pciBusId: *mut c_char, len: i32, dev: CUdevice);
            cuDeviceCanAccessPeer = "cuDeviceCanAccessPeer" @ 4000 (canAccessPeer: *mut i32, dev: CUdevice, peerDev: CUdevice);
            cuDeviceGetDefaultMemPool = "cuDeviceGetDefaultMemPool" @ 11020 (pool_out: *mut CUmemoryPool, dev: CUdevice);
            cuDeviceGetMemPool = "cuDeviceGetMemPool" @ 11020 (pool: *mut CUmemoryPool, dev: CUdevice);
            cuDeviceSetMemPool = "cuDeviceSetMemPool" @ 11020 (dev: CUdevice, pool: CUmemoryPool);
            cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" @ 7000 (pctx: *mut CUcontext, dev: CUdevice);
            cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease" @ 7000 (dev: CUdevice);
            cuDevicePrimaryCtxRelease_v2 = "cuDevicePrimaryCtxRelease" @ 11000 (dev: CUdevice);
            cuDevicePrimaryCtxSetFlags = "cuDevicePrimaryCtxSetFlags" @ 7000 (dev: CUdevice, flags: u32);
            cuDevicePrimaryCtxSetFlags_v2 = "cuDevicePrimaryCtxSetFlags" @ 11000 (dev: CUdevice, flags: u32);
            cuDevicePrimaryCtxGetState = "cuDevicePrimaryCtxGetState" @ 7000 (dev: CUdevice, flags: *mut u32, active: *mut i32);
            cuDevicePrimaryCtxReset = "cuDevicePrimaryCtxReset" @ 7000 (dev: CUdevice);
            cuDevicePrimaryCtxReset_v2 = "cuDevicePrimaryCtxReset" @ 11000 (dev: CUdevice);
            cuCtxDestroy_v2 = "cuCtxDestroy" @ 4000 (ctx: CUcontext);
            cuCtxPushCurrent_v2 = "cuCtxPushCurrent" @ 4000 (ctx: CUcontext);
            cuCtxPopCurrent_v2 = "cuCtxPopCurrent" @ 4000 (pctx: *mut CUcontext);
            cuCtxSetCurrent = "cuCtxSetCurrent" @ 4000 (ctx: CUcontext);
            cuCtxGetCurrent = "cuCtxGetCurrent" @ 4000 (pctx: *mut CUcontext);
            cuCtxGetDevice = "cuCtxGetDevice" @ 2000 (device: *mut CUdevice);
            cuCtxGetFlags = "cuCtxGetFlags" @ 7000 (flags: *mut u32);
            cuCtxGetId = "cuCtxGetId" @ 12000 (ctx: CUcontext, ctxId: *mut u64);
            cuCtxGetApiVersion = "cuCtxGetApiVersion" @ 3020 (ctx: CUcontext, version: *mut u32);
            cuCtxGetStreamPriorityRange = "cuCtxGetStreamPriorityRange" @ 5050 (leastPriority: *mut i32, greatestPriority: *mut i32);
            cuCtxSetLimit = "cuCtxSetLimit" @ 3010 (limit: CUlimit, value: usize);
            cuCtxGetLimit = "cuCtxGetLimit" @ 3010 (pvalue: *mut usize, limit: CUlimit);
            cuCtxSynchronize = "cuCtxSynchronize" @ 2000 ();

            // Streams and events
            cuStreamCreate = "cuStreamCreate" @ 2000 (phStream: *mut CUstream, Flags: u32);
            cuStreamCreateWithPriority = "cuStreamCreateWithPriority" @ 5050 (phStream: *mut CUstream, flags: u32, priority: i32);
            cuStreamGetPriority = "cuStreamGetPriority" @ 5050 (hStream: CUstream, priority: *mut i32);
            cuStreamGetFlags = "cuStreamGetFlags" @ 5050 (hStream: CUstream, flags: *mut u32);
            cuStreamGetId = "cuStreamGetId" @ 12000 (hStream: CUstream, streamId: *mut u64);
            cuStreamGetCtx = "cuStreamGetCtx" @ 9020 (hStream: CUstream, pctx: *mut CUcontext);
            cuStreamGetDevice = "cuStreamGetDevice" @ 12080 (hStream: CUstream, device: *mut CUdevice);
            cuStreamDestroy_v2 = "cuStreamDestroy" @ 4000 (hStream: CUstream);
            cuStreamQuery = "cuStreamQuery" @ 2000 (hStream: CUstream);
            cuStreamSynchronize = "cuStreamSynchronize" @ 2000 (hStream: CUstream);
            cuStreamWaitEvent = "cuStreamWaitEvent" @ 3020 (hStream: CUstream, hEvent: CUevent, Flags: u32);
            cuStreamAddCallback = "cuStreamAddCallback" @ 5000 (hStream: CUstream, callback: CUstreamCallback, userData: *mut c_void, flags: u32);
            cuLaunchHostFunc = "cuLaunchHostFunc" @ 10000 (hStream: CUstream, fn_: CUhostFn, userData: *mut c_void);
            cuStreamAttachMemAsync = "cuStreamAttachMemAsync" @ 6000 (hStream: CUstream, dptr: CUdeviceptr, length: usize, flags: u32);
            cuStreamCopyAttributes = "cuStreamCopyAttributes" @ 11000 (dstStream: CUstream, srcStream: CUstream);
            cuStreamGetAttribute = "cuStreamGetAttribute" @ 11000 (hStream: CUstream, attr: CUstreamAttrID, value: *mut CUstreamAttrValue_v1);
            cuStreamSetAttribute = "cuStreamSetAttribute" @ 11000 (hStream: CUstream, attr: CUstreamAttrID, param: *const CUstreamAttrValue_v1);
            cuStreamWaitValue32_v2 = "cuStreamWaitValue32" @ 11070 (stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32);
            cuStreamWriteValue32_v2 = "cuStreamWriteValue32" @ 11070 (stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32);
            cuStreamBatchMemOp_v2 = "cuStreamBatchMemOp" @ 11070 (stream: CUstream, count: u32, paramArray: *mut CUstreamBatchMemOpParams, flags: u32);
            cuEventCreate = "cuEventCreate" @ 2000 (phEvent: *mut CUevent, Flags: u32);
            cuEventRecord = "cuEventRecord" @ 2000 (hEvent: CUevent, hStream: CUstream);
            cuEventRecordWithFlags = "cuEventRecordWithFlags" @ 11010 (hEvent: CUevent, hStream: CUstream, flags: u32);
            cuEventQuery = "cuEventQuery" @ 2000 (hEvent: CUevent);
            cuEventSynchronize = "cuEventSynchronize" @ 2000 (hEvent: CUevent);
            cuEventElapsedTime = "cuEventElapsedTime" @ 2000 (pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent);
            cuEventDestroy_v2 = "cuEventDestroy" @ 4000 (hEvent: CUevent);

            // Memory
            cuMemGetInfo_v2 = "cuMemGetInfo" @ 3020 (free: *mut usize, total: *mut usize);
            cuMemAlloc_v2 = "cuMemAlloc" @ 3020 (dptr: *mut CUdeviceptr, bytesize: usize);
            cuMemAllocPitch_v2 = "cuMemAllocPitch" @ 3020 (dptr: *mut CUdeviceptr, pPitch: *mut usize, WidthInBytes: usize, Height: usize, ElementSizeBytes: u32);
            cuMemFree_v2 = "cuMemFree" @ 3020 (dptr: CUdeviceptr);
            cuMemAllocHost_v2 = "cuMemAllocHost" @ 3020 (pp: *mut *mut c_void, bytesize: usize);
            cuMemHostAlloc = "cuMemHostAlloc" @ 2020 (pp: *mut *mut c_void, bytesize: usize, Flags: u32);
            cuMemFreeHost = "cuMemFreeHost" @ 2000 (p: *mut c_void);
            cuMemHostGetDevicePointer_v2 = "cuMemHostGetDevicePointer" @ 3020 (pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: u32);
            cuMemHostRegister_v2 = "cuMemHostRegister" @ 6050 (p: *mut c_void, bytesize: usize, Flags: u32);
            cuMemHostUnregister = "cuMemHostUnregister" @ 4000 (p: *mut c_void);
            cuMemAllocManaged = "cuMemAllocManaged" @ 6000 (dptr: *mut CUdeviceptr, bytesize: usize, flags: u32);
            cuMemGetAddressRange_v2 = "cuMemGetAddressRange" @ 3020 (pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr);
            cuPointerGetAttribute = "cuPointerGetAttribute" @ 4000 (data: *mut c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr);
            cuMemcpyHtoD_v2 = "cuMemcpyHtoD" @ 3020 (dstDevice: CUdeviceptr, srcHost: *const c_void, ByteCount: usize);
            cuMemcpyDtoH_v2 = "cuMemcpyDtoH" @ 3020 (dstHost: *mut c_void, srcDevice: CUdeviceptr, ByteCount: usize);
            cuMemcpyDtoD_v2 = "cuMemcpyDtoD" @ 3020 (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: usize);
            cuMemcpyHtoDAsync_v2 = "cuMemcpyHtoDAsync" @ 3020 (dstDevice: CUdeviceptr, srcHost: *const c_void, ByteCount: usize, hStream: CUstream);
            cuMemcpyDtoHAsync_v2 = "cuMemcpyDtoHAsync" @ 3020 (dstHost: *mut c_void, srcDevice: CUdeviceptr, ByteCount: usize, hStream: CUstream);
            cuMemcpyDtoDAsync_v2 = "cuMemcpyDtoDAsync" @ 3020 (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: usize, hStream: CUstream);
            cuMemcpyAsync = "cuMemcpyAsync" @ 4000 (dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize, hStream: CUstream);
            cuMemcpy2DAsync_v2 = "cuMemcpy2DAsync" @ 3020 (pCopy: *const CUDA_MEMCPY2D_v2, hStream: CUstream);
            cuMemcpy3DAsync_v2 = "cuMemcpy3DAsync" @ 3020 (pCopy: *const CUDA_MEMCPY3D_v2, hStream: CUstream);
            cuMemcpyPeerAsync = "cuMemcpyPeerAsync" @ 4000 (dstDevice: CUdeviceptr, dstContext: CUcontext, srcDevice: CUdeviceptr, srcContext: CUcontext, ByteCount: usize, hStream: CUstream);
            cuMemcpyBatchAsync_v2 = "cuMemcpyBatchAsync" @ 13000 (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attrs: *mut CUmemcpyAttributes_v1, attrIdxs: *mut usize, numAttrs: usize, hStream: CUstream);
            cuMemsetD8_v2 = "cuMemsetD8" @ 3020 (dstDevice: CUdeviceptr, uc: u8, N: usize);
            cuMemsetD32_v2 = "cuMemsetD32" @ 3020 (dstDevice: CUdeviceptr, ui: u32, N: usize);
            cuMemsetD8Async = "cuMemsetD8Async" @ 3020 (dstDevice: CUdeviceptr, uc: u8, N: usize, hStream: CUstream);
            cuMemsetD16Async = "cuMemsetD16Async" @ 3020 (dstDevice: CUdeviceptr, us: u16, N: usize, hStream: CUstream);
            cuMemsetD32Async = "cuMemsetD32Async" @ 3020 (dstDevice: CUdeviceptr, ui: u32, N: usize, hStream: CUstream);
            cuMemsetD2D8Async = "cuMemsetD2D8Async" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, uc: u8, Width: usize, Height: usize, hStream: CUstream);
            cuMemsetD2D16Async = "cuMemsetD2D16Async" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, us: u16, Width: usize, Height: usize, hStream: CUstream);
            cuMemsetD2D32Async = "cuMemsetD2D32Async" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, ui: u32, Width: usize, Height: usize, hStream: CUstream);
            cuMemAllocAsync = "cuMemAllocAsync" @ 11020 (dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream);
            cuMemAllocFromPoolAsync = "cuMemAllocFromPoolAsync" @ 11020 (dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream);
            cuMemFreeAsync = "cuMemFreeAsync" @ 11020 (dptr: CUdeviceptr, hStream: CUstream);
            cuMemPoolCreate = "cuMemPoolCreate" @ 11020 (pool: *mut CUmemoryPool, poolProps: *const CUmemPoolProps_v1);
            cuMemPoolDestroy = "cuMemPoolDestroy" @ 11020 (pool: CUmemoryPool);
            cuMemPoolTrimTo = "cuMemPoolTrimTo" @ 11020 (pool: CUmemoryPool, minBytesToKeep: usize);
            cuMemPoolSetAttribute = "cuMemPoolSetAttribute" @ 11020 (pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void);
            cuMemPoolGetAttribute = "cuMemPoolGetAttribute" @ 11020 (pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void);
            cuMemPoolSetAccess = "cuMemPoolSetAccess" @ 11020 (pool: CUmemoryPool, map: *const CUmemAccessDesc_v1, count: usize);
            cuMemPoolGetAccess = "cuMemPoolGetAccess" @ 11020 (flags: *mut CUmemAccess_flags, memPool: CUmemoryPool, location: *mut CUmemLocation_v1);

            // Modules, libraries, kernels, launch, occupancy
            cuModuleLoad = "cuModuleLoad" @ 2000 (module: *mut CUmodule, fname: *const c_char);
            cuModuleLoadData = "cuModuleLoadData" @ 2000 (module: *mut CUmodule, image: *const c_void);
            cuModuleLoadDataEx = "cuModuleLoadDataEx" @ 2010 (module: *mut CUmodule, image: *const c_void, numOptions: u32, options: *mut CUjit_option, optionValues: *mut *mut c_void);
            cuModuleUnload = "cuModuleUnload" @ 2000 (hmod: CUmodule);
            cuModuleGetFunction = "cuModuleGetFunction" @ 2000 (hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char);
            cuModuleGetFunctionCount = "cuModuleGetFunctionCount" @ 12040 (count: *mut u32, hmod: CUmodule);
            cuModuleEnumerateFunctions = "cuModuleEnumerateFunctions" @ 12040 (functions: *mut CUfunction, numFunctions: u32, mod_: CUmodule);
            cuModuleGetGlobal_v2 = "cuModuleGetGlobal" @ 3020 (dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const c_char);
            cuLibraryLoadData = "cuLibraryLoadData" @ 12000 (library: *mut CUlibrary, code: *const c_void, jitOptions: *mut CUjit_option, jitOptionsValues: *mut *mut c_void, numJitOptions: u32, libraryOptions: *mut CUlibraryOption, libraryOptionValues: *mut *mut c_void, numLibraryOptions: u32);
            cuLibraryUnload = "cuLibraryUnload" @ 12000 (library: CUlibrary);
            cuLibraryGetKernel = "cuLibraryGetKernel" @ 12000 (pKernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
            cuLibraryGetKernelCount = "cuLibraryGetKernelCount" @ 12040 (count: *mut u32, lib: CUlibrary);
            cuLibraryEnumerateKernels = "cuLibraryEnumerateKernels" @ 12040 (kernels: *mut CUkernel, numKernels: u32, lib: CUlibrary);
            cuLibraryGetModule = "cuLibraryGetModule" @ 12000 (pMod: *mut CUmodule, library: CUlibrary);
            cuLibraryGetGlobal = "cuLibraryGetGlobal" @ 12000 (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
            cuKernelGetFunction = "cuKernelGetFunction" @ 12000 (pFunc: *mut CUfunction, kernel: CUkernel);
            cuKernelGetName = "cuKernelGetName" @ 12030 (name: *mut *const c_char, hfunc: CUkernel);
            cuKernelGetAttribute = "cuKernelGetAttribute" @ 12000 (pi: *mut i32, attrib: CUfunction_attribute, kernel: CUkernel, dev: CUdevice);
            cuKernelSetAttribute = "cuKernelSetAttribute" @ 12000 (attrib: CUfunction_attribute, val: i32, kernel: CUkernel, dev: CUdevice);
            cuKernelGetParamInfo = "cuKernelGetParamInfo" @ 12040 (kernel: CUkernel, paramIndex: usize, paramOffset: *mut usize, paramSize: *mut usize);
            cuKernelGetParamCount = "cuKernelGetParamCount" @ 13020 (kernel: CUkernel, paramCount: *mut usize);
            cuFuncGetAttribute = "cuFuncGetAttribute" @ 2020 (pi: *mut i32, attrib: CUfunction_attribute, hfunc: CUfunction);
            cuFuncSetAttribute = "cuFuncSetAttribute" @ 9000 (hfunc: CUfunction, attrib: CUfunction_attribute, value: i32);
            cuFuncGetModule = "cuFuncGetModule" @ 11000 (hmod: *mut CUmodule, hfunc: CUfunction);
            cuFuncGetName = "cuFuncGetName" @ 12030 (name: *mut *const c_char, hfunc: CUfunction);
            cuFuncGetParamInfo = "cuFuncGetParamInfo" @ 12040 (func: CUfunction, paramIndex: usize, paramOffset: *mut usize, paramSize: *mut usize);
            cuFuncGetParamCount = "cuFuncGetParamCount" @ 13020 (func: CUfunction, paramCount: *mut usize);
            cuFuncIsLoaded = "cuFuncIsLoaded" @ 12040 (state: *mut CUfunctionLoadingState, hfunc: CUfunction);
            cuFuncLoad = "cuFuncLoad" @ 12040 (hfunc: CUfunction);
            cuLaunchKernel = "cuLaunchKernel" @ 4000 (f: CUfunction, gridDimX: u32, gridDimY: u32, gridDimZ: u32, blockDimX: u32, blockDimY: u32, blockDimZ: u32, sharedMemBytes: u32, hStream: CUstream, kernelParams: *mut *mut c_void, extra: *mut *mut c_void);
            cuLaunchKernelEx = "cuLaunchKernelEx" @ 11060 (config: *const CUlaunchConfig, f: CUfunction, kernelParams: *mut *mut c_void, extra: *mut *mut c_void);
            cuLaunchCooperativeKernel = "cuLaunchCooperativeKernel" @ 9000 (f: CUfunction, gridDimX: u32, gridDimY: u32, gridDimZ: u32, blockDimX: u32, blockDimY: u32, blockDimZ: u32, sharedMemBytes: u32, hStream: CUstream, kernelParams: *mut *mut c_void);
            cuOccupancyMaxActiveBlocksPerMultiprocessor = "cuOccupancyMaxActiveBlocksPerMultiprocessor" @ 6050 (numBlocks: *mut i32, func: CUfunction, blockSize: i32, dynamicSMemSize: usize);
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" @ 7000 (numBlocks: *mut i32, func: CUfunction, blockSize: i32, dynamicSMemSize: usize, flags: u32);
            cuOccupancyMaxPotentialBlockSize = "cuOccupancyMaxPotentialBlockSize" @ 6050 (minGridSize: *mut i32, blockSize: *mut i32, func: CUfunction, blockSizeToDynamicSMemSize: CUoccupancyB2DSize, dynamicSMemSize: usize, blockSizeLimit: i32);
            cuOccupancyMaxPotentialBlockSizeWithFlags = "cuOccupancyMaxPotentialBlockSizeWithFlags" @ 7000 (minGridSize: *mut i32, blockSize: *mut i32, func: CUfunction, blockSizeToDynamicSMemSize: CUoccupancyB2DSize, dynamicSMemSize: usize, blockSizeLimit: i32, flags: u32);
            cuOccupancyAvailableDynamicSMemPerBlock = "cuOccupancyAvailableDynamicSMemPerBlock" @ 10020 (dynamicSmemSize: *mut usize, func: CUfunction, numBlocks: i32, blockSize: i32);
            cuOccupancyMaxPotentialClusterSize = "cuOccupancyMaxPotentialClusterSize" @ 11070 (clusterSize: *mut i32, func: CUfunction, config: *const CUlaunchConfig);
            cuOccupancyMaxActiveClusters = "cuOccupancyMaxActiveClusters" @ 11070 (numClusters: *mut i32, func: CUfunction, config: *const CUlaunchConfig);

            // Private tables, profiling
            cuGetExportTable = "cuGetExportTable" @ 3000 (ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid);
            cuProfilerStart = "cuProfilerStart" @ 4000 ();
            cuProfilerStop = "cuProfilerStop" @ 4000 ();

            // Contexts: how they are set up
            cuCtxCreate_v2 = "cuCtxCreate" @ 3020 (pctx: *mut CUcontext, flags: u32, dev: CUdevice);
            cuCtxCreate_v3 = "cuCtxCreate" @ 11040 (pctx: *mut CUcontext, paramsArray: *mut CUexecAffinityParam, numParams: i32, flags: u32, dev: CUdevice);
            cuCtxCreate_v4 = "cuCtxCreate" @ 12050 (pctx: *mut CUcontext, ctxCreateParams: *mut CUctxCreateParams, flags: u32, dev: CUdevice);
            cuCtxGetCacheConfig = "cuCtxGetCacheConfig" @ 3020 (pconfig: *mut CUfunc_cache);
            cuCtxSetCacheConfig = "cuCtxSetCacheConfig" @ 3020 (config: CUfunc_cache);
            cuCtxGetSharedMemConfig = "cuCtxGetSharedMemConfig" @ 4020 (pConfig: *mut CUsharedconfig);
            cuCtxSetSharedMemConfig = "cuCtxSetSharedMemConfig" @ 4020 (config: CUsharedconfig);
            cuCtxSetFlags = "cuCtxSetFlags" @ 12010 (flags: u32);
            cuCtxResetPersistingL2Cache = "cuCtxResetPersistingL2Cache" @ 11000 ();
            cuCtxGetExecAffinity = "cuCtxGetExecAffinity" @ 11040 (pExecAffinity: *mut CUexecAffinityParam, type_: CUexecAffinityType);
            cuCtxAttach = "cuCtxAttach" @ 2000 (pctx: *mut CUcontext, flags: u32);
            cuCtxDetach = "cuCtxDetach" @ 2000 (ctx: CUcontext);
            cuCtxEnablePeerAccess = "cuCtxEnablePeerAccess" @ 4000 (peerContext: CUcontext, Flags: u32);
            cuCtxDisablePeerAccess = "cuCtxDisablePeerAccess" @ 4000 (peerContext: CUcontext);
            cuCtxGetDevice_v2 = "cuCtxGetDevice" @ 13000 (device: *mut CUdevice, ctx: CUcontext);
            cuCtxSynchronize_v2 = "cuCtxSynchronize" @ 13000 (ctx: CUcontext);
            cuCtxRecordEvent = "cuCtxRecordEvent" @ 12050 (hCtx: CUcontext, hEvent: CUevent);
            cuCtxWaitEvent = "cuCtxWaitEvent" @ 12050 (hCtx: CUcontext, hEvent: CUevent);

            // Devices: more of what they tell
            cuDeviceGetByPCIBusId = "cuDeviceGetByPCIBusId" @ 4010 (dev: *mut CUdevice, pciBusId: *const c_char);
            cuDeviceComputeCapability = "cuDeviceComputeCapability" @ 2000 (major: *mut i32, minor: *mut i32, dev: CUdevice);
            cuDeviceGetProperties = "cuDeviceGetProperties" @ 2000 (prop: *mut CUdevprop_v1, dev: CUdevice);
            cuDeviceGetP2PAttribute = "cuDeviceGetP2PAttribute" @ 8000 (value: *mut i32, attrib: CUdevice_P2PAttribute, srcDevice: CUdevice, dstDevice: CUdevice);
            cuDeviceGetTexture1DLinearMaxWidth = "cuDeviceGetTexture1DLinearMaxWidth" @ 11010 (maxWidthInElements: *mut usize, format: CUarray_format, numChannels: u32, dev: CUdevice);
            cuDeviceGetExecAffinitySupport = "cuDeviceGetExecAffinitySupport" @ 11040 (pi: *mut i32, type_: CUexecAffinityType, dev: CUdevice);

            // Streams and events: later ABIs
            cuStreamGetCtx_v2 = "cuStreamGetCtx" @ 12050 (hStream: CUstream, pctx: *mut CUcontext, pGreenCtx: *mut CUgreenCtx);
            cuStreamWaitValue64_v2 = "cuStreamWaitValue64" @ 11070 (stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32);
            cuStreamWriteValue64_v2 = "cuStreamWriteValue64" @ 11070 (stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32);
            cuEventElapsedTime_v2 = "cuEventElapsedTime" @ 12080 (pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent);

            // Memory: copies and fills that wait, managed memory
            cuMemcpy = "cuMemcpy" @ 4000 (dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize);
            cuMemcpyPeer = "cuMemcpyPeer" @ 4000 (dstDevice: CUdeviceptr, dstContext: CUcontext, srcDevice: CUdeviceptr, srcContext: CUcontext, ByteCount: usize);
            cuMemcpy2D_v2 = "cuMemcpy2D" @ 3020 (pCopy: *const CUDA_MEMCPY2D_v2);
            cuMemcpy2DUnaligned_v2 = "cuMemcpy2DUnaligned" @ 3020 (pCopy: *const CUDA_MEMCPY2D_v2);
            cuMemcpy3D_v2 = "cuMemcpy3D" @ 3020 (pCopy: *const CUDA_MEMCPY3D_v2);
            cuMemcpy3DPeer = "cuMemcpy3DPeer" @ 4000 (pCopy: *const CUDA_MEMCPY3D_PEER_v1);
            cuMemcpy3DPeerAsync = "cuMemcpy3DPeerAsync" @ 4000 (pCopy: *const CUDA_MEMCPY3D_PEER_v1, hStream: CUstream);
            cuMemsetD16_v2 = "cuMemsetD16" @ 3020 (dstDevice: CUdeviceptr, us: u16, N: usize);
            cuMemsetD2D8_v2 = "cuMemsetD2D8" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, uc: u8, Width: usize, Height: usize);
            cuMemsetD2D16_v2 = "cuMemsetD2D16" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, us: u16, Width: usize, Height: usize);
            cuMemsetD2D32_v2 = "cuMemsetD2D32" @ 3020 (dstDevice: CUdeviceptr, dstPitch: usize, ui: u32, Width: usize, Height: usize);
            cuMemHostGetFlags = "cuMemHostGetFlags" @ 2030 (pFlags: *mut u32, p: *mut c_void);
            cuMemPrefetchAsync = "cuMemPrefetchAsync" @ 8000 (devPtr: CUdeviceptr, count: usize, dstDevice: CUdevice, hStream: CUstream);
            cuMemPrefetchAsync_v2 = "cuMemPrefetchAsync" @ 12020 (devPtr: CUdeviceptr, count: usize, location: CUmemLocation, flags: u32, hStream: CUstream);
            cuMemAdvise = "cuMemAdvise" @ 8000 (devPtr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice);
            cuMemAdvise_v2 = "cuMemAdvise" @ 12020 (devPtr: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation);
            cuMemRangeGetAttribute = "cuMemRangeGetAttribute" @ 8000 (data: *mut c_void, dataSize: usize, attribute: CUmem_range_attribute, devPtr: CUdeviceptr, count: usize);
            cuMemRangeGetAttributes = "cuMemRangeGetAttributes" @ 8000 (data: *mut *mut c_void, dataSizes: *mut usize, attributes: *mut CUmem_range_attribute, numAttributes: usize, devPtr: CUdeviceptr, count: usize);
            cuPointerGetAttributes = "cuPointerGetAttributes" @ 7000 (numAttributes: u32, attributes: *mut CUpointer_attribute, data: *mut *mut c_void, ptr: CUdeviceptr);
            cuPointerSetAttribute = "cuPointerSetAttribute" @ 6000 (value: *const c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr);
            cuMemGetDefaultMemPool = "cuMemGetDefaultMemPool" @ 13000 (pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, type_: CUmemAllocationType);
            cuMemGetMemPool = "cuMemGetMemPool" @ 13000 (pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, type_: CUmemAllocationType);
            cuMemSetMemPool = "cuMemSetMemPool" @ 13000 (location: *mut CUmemLocation, type_: CUmemAllocationType, pool: CUmemoryPool);

            // Modules: more ways to load, ask and link
            cuModuleLoadFatBinary = "cuModuleLoadFatBinary" @ 2000 (module: *mut CUmodule, fatCubin: *const c_void);
            cuModuleGetLoadingMode = "cuModuleGetLoadingMode" @ 11070 (mode: *mut CUmoduleLoadingMode);
            cuLibraryLoadFromFile = "cuLibraryLoadFromFile" @ 12000 (library: *mut CUlibrary, fileName: *const c_char, jitOptions: *mut CUjit_option, jitOptionsValues: *mut *mut c_void, numJitOptions: u32, libraryOptions: *mut CUlibraryOption, libraryOptionValues: *mut *mut c_void, numLibraryOptions: u32);
            cuLibraryGetManaged = "cuLibraryGetManaged" @ 12000 (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
            cuLibraryGetUnifiedFunction = "cuLibraryGetUnifiedFunction" @ 12000 (fptr: *mut *mut c_void, library: CUlibrary, symbol: *const c_char);
            cuKernelGetLibrary = "cuKernelGetLibrary" @ 12050 (pLib: *mut CUlibrary, kernel: CUkernel);
            cuKernelSetCacheConfig = "cuKernelSetCacheConfig" @ 12000 (kernel: CUkernel, config: CUfunc_cache, dev: CUdevice);
            cuFuncSetCacheConfig = "cuFuncSetCacheConfig" @ 3000 (hfunc: CUfunction, config: CUfunc_cache);
            cuFuncSetSharedMemConfig = "cuFuncSetSharedMemConfig" @ 4020 (hfunc: CUfunction, config: CUsharedconfig);
            cuLinkCreate_v2 = "cuLinkCreate" @ 6050 (numOptions: u32, options: *mut CUjit_option, optionValues: *mut *mut c_void, stateOut: *mut CUlinkState);
            cuLinkAddData_v2 = "cuLinkAddData" @ 6050 (state: CUlinkState, type_: CUjitInputType, data: *mut c_void, size: usize, name: *const c_char, numOptions: u32, options: *mut CUjit_option, optionValues: *mut *mut c_void);
            cuLinkAddFile_v2 = "cuLinkAddFile" @ 6050 (state: CUlinkState, type_: CUjitInputType, path: *const c_char, numOptions: u32, options: *mut CUjit_option, optionValues: *mut *mut c_void);
            cuLinkComplete = "cuLinkComplete" @ 5050 (state: CUlinkState, cubinOut: *mut *mut c_void, sizeOut: *mut usize);
            cuLinkDestroy = "cuLinkDestroy" @ 5050 (state: CUlinkState);
        }
    };
}
