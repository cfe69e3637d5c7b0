//! What a graph prints of itself.

use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::Rig;
use crate::steering::{IF, Steering, branch, handle};

tiers! {
    both {
        each_flag_adds_the_parameters_of_its_kind,
        embedded_graphs_and_bodies_are_printed,
        what_printing_needs,
    }
}

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

fn path(name: &str) -> (PathBuf, CString) {
    let path = std::env::temp_dir().join(format!("{name}-{}.dot", std::process::id()));
    let text = CString::new(path.to_str().expect("a path")).expect("no NUL");
    (path, text)
}

fn text(rig: &Rig, graph: CUgraph, flags: u32) -> String {
    let (path, name) = path("graph-text");
    ok!(rig, cuGraphDebugDotPrint(graph, name.as_ptr(), flags));
    let text = std::fs::read_to_string(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    text
}

fn each_flag_adds_the_parameters_of_its_kind(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let first = steering.adds(graph, &[], 0, 1);
    let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    };
    let copy = CUDA_MEMCPY3D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: rig.buffer,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: rig.buffer + 64,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..Default::default()
    };
    let host = CUDA_HOST_NODE_PARAMS_v1 { fn_: Some(nothing), userData: null_mut() };
    let mut write = CUstreamBatchMemOpParams {
        writeValue: CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
            operation: CU_STREAM_MEM_OP_WRITE_VALUE_32,
            address: rig.buffer,
            ..Default::default()
        },
    };
    let batch = CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: rig.context,
        count: 1,
        paramArray: &mut write,
        flags: 0,
    };
    let (mut node, none) = (null_mut(), null::<CUgraphNode>());
    ok!(rig, cuGraphAddMemsetNode(&mut node, graph, &first, 1, &fill, rig.context));
    ok!(rig, cuGraphAddMemcpyNode(&mut node, graph, none, 0, &copy, rig.context));
    ok!(rig, cuGraphAddHostNode(&mut node, graph, none, 0, &host));
    ok!(rig, cuGraphAddEventRecordNode(&mut node, graph, none, 0, rig.event));
    ok!(rig, cuGraphAddBatchMemOpNode(&mut node, graph, none, 0, &batch));
    branch::<1>(rig, graph, &[], handle(rig, graph, 1), IF);
    let bare = text(rig, graph, 0);
    let adds = |bit: u32| text(rig, graph, 1 << bit).len() != bare.len();
    let adding: Vec<u32> = (0..17).filter(|bit| adds(*bit)).collect();
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(adding, [0, 2, 3, 4, 5, 6, 9, 10, 13, 14]);
}

fn embedded_graphs_and_bodies_are_printed(rig: &Rig) {
    let (graph, child) = (rig.new_graph(), rig.new_graph());
    ok!(rig, cuGraphAddEmptyNode(&mut null_mut(), child, null(), 0));
    ok!(rig, cuGraphAddChildGraphNode(&mut null_mut(), graph, null(), 0, child));
    branch::<2>(rig, graph, &[], handle(rig, graph, 1), IF);
    let text = text(rig, graph, 0);
    for graph in [graph, child] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!(text.matches("subgraph cluster_").count(), 4, "{text}");
    assert_eq!(text.to_lowercase().matches("empty").count(), 1, "{text}");
    assert!(text.to_lowercase().contains("conditional"), "{text}");
}

fn what_printing_needs(rig: &Rig) {
    let graph = rig.new_graph();
    let (file, name) = path("graph-nothing");
    let codes = [
        cu!(rig, cuGraphDebugDotPrint(graph, null(), 0)),
        cu!(rig, cuGraphDebugDotPrint(null_mut(), name.as_ptr(), 0)),
        cu!(rig, cuGraphDebugDotPrint(graph, c"/no/such/folder/graph.dot".as_ptr(), 0)),
        cu!(rig, cuGraphDebugDotPrint(graph, name.as_ptr(), 0)),
    ];
    std::fs::remove_file(&file).expect("the file");
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [1, 1, 304, 0]);
}
