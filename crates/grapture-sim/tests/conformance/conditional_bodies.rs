//! What the bodies of conditional nodes may hold, which shows at instantiation.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};
use crate::steering::{IF, Steering, WHILE, add, branch, conditional, handle, instantiation};

tiers! {
    both {
        kernels_fills_and_empty_nodes,
        copies_of_memory_that_devices_reach,
        host_functions,
        child_graphs,
        events,
        allocations,
        batches,
        conditional_nodes,
        another_context,
        cycles,
        what_a_capture_puts_there,
        memory_of_its_graph,
    }
}

/// What an instantiation comes to.
type Verdict = (u32, u32, Option<u32>);

const FINE: Verdict = (0, 0, None);

/// What is unsupported in a body.
const fn unsupported(kind: u32) -> Verdict {
    (1, 3, Some(kind))
}

/// Adds something to a body: its code, and what the instantiation then comes to.
fn with(rig: &Rig, put: impl FnOnce(CUgraph, CUgraph) -> u32) -> (u32, Verdict) {
    let graph = rig.new_graph();
    let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    let code = put(graph, body);
    let verdict = instantiation(rig, graph);
    ok!(rig, cuGraphDestroy(graph));
    (code, verdict)
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

fn host(rig: &Rig, graph: CUgraph) -> u32 {
    let params = CUDA_HOST_NODE_PARAMS_v1 { fn_: Some(nothing), userData: null_mut() };
    cu!(rig, cuGraphAddHostNode(&mut null_mut(), graph, null(), 0, &params))
}

fn fill(rig: &Rig, graph: CUgraph, context: CUcontext) -> u32 {
    let params = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    };
    cu!(rig, cuGraphAddMemsetNode(&mut null_mut(), graph, null(), 0, &params, context))
}

fn kernels_fills_and_empty_nodes(rig: &Rig) {
    let steering = Steering::new(rig);
    let all = with(rig, |_, body| {
        steering.adds(body, &[], 0, 1);
        ok!(rig, cuGraphAddEmptyNode(&mut null_mut(), body, null(), 0));
        fill(rig, body, rig.context)
    });
    assert_eq!([all, with(rig, |_, _| 0)], [(0, FINE); 2], "and nothing at all");
}

fn copies_of_memory_that_devices_reach(rig: &Rig) {
    let pinned = rig.pinned(64);
    let mut own = [0_u8; 64];
    let own: *mut c_void = own.as_mut_ptr().cast();
    let device = CUDA_MEMCPY3D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: rig.buffer,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: rig.buffer + 4096,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..Default::default()
    };
    let copy = |params: CUDA_MEMCPY3D_v2| {
        with(rig, |_, body| {
            let (none, context) = (null(), rig.context);
            cu!(rig, cuGraphAddMemcpyNode(&mut null_mut(), body, none, 0, &params, context))
        })
    };
    let from =
        |host| CUDA_MEMCPY3D_v2 { srcMemoryType: CU_MEMORYTYPE_HOST, srcHost: host, ..device };
    let to = |host| CUDA_MEMCPY3D_v2 { dstMemoryType: CU_MEMORYTYPE_HOST, dstHost: host, ..device };
    let good = [device, from(pinned), to(pinned)].map(copy);
    let pageable = [from(own), to(own)].map(copy);
    ok!(rig, cuMemFreeHost(pinned));
    assert_eq!((good, pageable), ([(0, FINE); 3], [(0, (1, 4, Some(1))); 2]));
}

fn host_functions(rig: &Rig) {
    assert_eq!(with(rig, |_, body| host(rig, body)), (0, unsupported(3)));
}

fn child_graphs(rig: &Rig) {
    let child = |put: &dyn Fn(CUgraph) -> u32| {
        with(rig, |_, body| {
            let graph = rig.new_graph();
            assert_eq!(put(graph), 0);
            let mut node = null_mut();
            let code = cu!(rig, cuGraphAddChildGraphNode(&mut node, body, null(), 0, graph));
            ok!(rig, cuGraphDestroy(graph));
            code
        })
    };
    let codes =
        [child(&|_| 0), child(&|graph| fill(rig, graph, rig.context)), child(&|g| host(rig, g))];
    assert_eq!(codes, [(0, FINE), (0, FINE), (0, unsupported(3))]);
}

fn events(rig: &Rig) {
    let record = with(rig, |_, body| {
        cu!(rig, cuGraphAddEventRecordNode(&mut null_mut(), body, null(), 0, rig.event))
    });
    let wait = with(rig, |_, body| {
        cu!(rig, cuGraphAddEventWaitNode(&mut null_mut(), body, null(), 0, rig.event))
    });
    assert_eq!([record, wait], [(0, unsupported(7)), (0, unsupported(6))]);
}

fn allocation(rig: &Rig, graph: CUgraph) -> (u32, CUdeviceptr) {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 512, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params));
    (code, params.dptr)
}

fn allocations(rig: &Rig) {
    let made = with(rig, |_, body| allocation(rig, body).0);
    let freed = with(rig, |graph, body| {
        let (code, address) = allocation(rig, graph);
        assert_eq!(code, 0);
        cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), body, null(), 0, address))
    });
    assert_eq!([made, freed], [(0, unsupported(10)), (0, unsupported(11))]);
}

fn batches(rig: &Rig) {
    let write = CUstreamBatchMemOpParams {
        writeValue: CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
            operation: CU_STREAM_MEM_OP_WRITE_VALUE_32,
            address: rig.buffer,
            ..Default::default()
        },
    };
    let batch = with(rig, |_, body| {
        let mut list = [write];
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: rig.context,
            count: 1,
            paramArray: list.as_mut_ptr(),
            flags: 0,
        };
        cu!(rig, cuGraphAddBatchMemOpNode(&mut null_mut(), body, null(), 0, &params))
    });
    assert_eq!(batch, (0, unsupported(12)));
}

fn conditional_nodes(rig: &Rig) {
    let nested = |of_body: bool| {
        with(rig, |graph, body| {
            let made = handle(rig, if of_body { body } else { graph }, 1);
            add(rig, body, &[], &mut conditional(rig, made, WHILE, 1)).0
        })
    };
    assert_eq!([nested(false), nested(true)], [(0, FINE); 2]);
}

fn another_context(rig: &Rig) {
    let context = rig.new_context();
    let kernel = with(rig, |_, body| {
        rig.in_context(context, || {
            let module = rig.module(crate::rig::PTX);
            let params = crate::steering::kernel(rig.function(module, "noarg"), &mut []);
            cu!(rig, cuGraphAddKernelNode_v2(&mut null_mut(), body, null(), 0, &params))
        })
    });
    let fills = with(rig, |_, body| fill(rig, body, context));
    ok!(rig, cuCtxDestroy_v2(context));
    assert_eq!([kernel, fills], [(0, (1, 4, Some(0))), (0, FINE)]);
}

fn cycles(rig: &Rig) {
    let cycle = with(rig, |_, body| {
        let (mut a, mut b) = (null_mut(), null_mut());
        ok!(rig, cuGraphAddEmptyNode(&mut a, body, null(), 0));
        ok!(rig, cuGraphAddEmptyNode(&mut b, body, &a, 1));
        cu!(rig, cuGraphAddDependencies(body, &b, &a, 1))
    });
    assert_eq!(cycle, (0, (1, 2, Some(5))));
}

fn what_a_capture_puts_there(rig: &Rig) {
    let s = rig.stream;
    let capture = |call: &dyn Fn() -> u32| {
        with(rig, |_, body| {
            let mode = CUstreamCaptureMode(RELAXED);
            ok!(rig, cuStreamBeginCaptureToGraph(s, body, null(), null(), 0, mode));
            let code = call();
            assert_eq!((rig.status(s), rig.end(s)), (1, (0, body)));
            code
        })
    };
    let word = rig.buffer;
    let made = [
        capture(&|| rig.fill(s)),
        capture(&|| cu!(rig, cuLaunchHostFunc(s, Some(nothing), null_mut()))),
        capture(&|| cu!(rig, cuMemAllocAsync(&mut 0, 512, s))),
        capture(&|| cu!(rig, cuStreamWriteValue32_v2(s, word, 1, 0))),
        capture(&|| cu!(rig, cuEventRecordWithFlags(rig.event, s, 1))),
        capture(&|| cu!(rig, cuStreamWaitEvent(s, rig.event, 1))),
    ];
    let verdicts =
        [FINE, unsupported(3), unsupported(10), unsupported(12), unsupported(7), unsupported(6)];
    assert_eq!(made, verdicts.map(|verdict| (0, verdict)));
}

/// The allocations of a graph may stand beside its conditional nodes.
fn memory_of_its_graph(rig: &Rig) {
    let beside = with(rig, |graph, _| allocation(rig, graph).0);
    assert_eq!(beside, (0, FINE));
}
