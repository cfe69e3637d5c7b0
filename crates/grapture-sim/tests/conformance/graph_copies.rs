//! Copies and fills as nodes, in streams and in captures: what their parameters may be, and where
//! the bytes go.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};

tiers! {
    both {
        which_memory_a_copy_takes,
        how_rows_and_slices_must_lie,
        what_of_a_copy_does_not_matter,
        rows_and_slices_lie_where_the_parameters_say,
        a_copy_node_tells_its_parameters,
        which_fills_there_are,
        where_a_fill_node_may_write,
    }
}

fn plain(rig: &Rig) -> CUDA_MEMCPY3D_v2 {
    CUDA_MEMCPY3D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: rig.buffer,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: rig.buffer + 65536,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..Default::default()
    }
}

/// The codes of a node, of a generic node, of a stream and of a capture.
fn everywhere(rig: &Rig, params: &CUDA_MEMCPY3D_v2) -> [u32; 4] {
    let graph = rig.new_graph();
    let (mut node, none) = (null_mut(), null::<CUgraphNode>());
    let typed = cu!(rig, cuGraphAddMemcpyNode(&mut node, graph, none, 0, params, rig.context));
    let mut any = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEMCPY, ..Default::default() };
    any.__bindgen_anon_1.memcpy.copyCtx = rig.context;
    any.__bindgen_anon_1.memcpy.copyParams = *params;
    let generic = cu!(rig, cuGraphAddNode_v2(&mut node, graph, none, null(), 0, &mut any));
    let direct = cu!(rig, cuMemcpy3DAsync_v2(params, rig.stream));
    rig.sync(rig.stream);
    rig.begin(rig.other, RELAXED);
    let captured = cu!(rig, cuMemcpy3DAsync_v2(params, rig.other));
    let (end, _) = rig.end_and_count(rig.other);
    assert_eq!(end, 0, "the capture goes on");
    ok!(rig, cuGraphDestroy(graph));
    [typed, generic, direct, captured]
}

fn with(rig: &Rig, change: impl FnOnce(&mut CUDA_MEMCPY3D_v2)) -> [u32; 4] {
    let mut params = plain(rig);
    change(&mut params);
    everywhere(rig, &params)
}

const GOOD: [u32; 4] = [0; 4];
const BAD: [u32; 4] = [1; 4];

fn which_memory_a_copy_takes(rig: &Rig) {
    let (pinned, managed) = (rig.pinned(4096), make!(rig, cuMemAllocManaged(4096, 1)));
    let small = rig.alloc(512);
    let mut own = vec![0_u8; 4096];
    let own: *mut c_void = own.as_mut_ptr().cast();
    let (unified, host) = (CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_HOST);
    let from_host =
        |address: *const c_void| with(rig, |p| (p.srcMemoryType, p.srcHost) = (host, address));
    let from = |kind, address| with(rig, |p| (p.srcMemoryType, p.srcDevice) = (kind, address));
    let device = CU_MEMORYTYPE_DEVICE;
    let managed_host = std::ptr::with_exposed_provenance(managed as usize);
    let good = [
        from_host(pinned),
        from_host(own),
        from_host(managed_host),
        from(device, pinned.addr() as u64),
        from(device, managed),
        from(unified, managed),
        from(unified, own.addr() as u64),
    ];
    let bad = [
        from_host(null()),
        from(device, 0),
        from(device, own.addr() as u64),
        from(device, 0x123_0000),
        with(rig, |p| p.dstDevice = 0),
        with(rig, |p| (p.srcDevice, p.WidthInBytes) = (small, 1024)),
        with(rig, |p| (p.dstDevice, p.WidthInBytes) = (small, 1024)),
        with(rig, |p| p.srcMemoryType = CUmemorytype(0)),
        with(rig, |p| p.srcMemoryType = CUmemorytype(5)),
        with(rig, |p| p.srcMemoryType = CU_MEMORYTYPE_ARRAY),
    ];
    ok!(rig, cuMemFreeHost(pinned));
    ok!(rig, cuMemFree_v2(managed));
    ok!(rig, cuMemFree_v2(small));
    assert_eq!((good, bad), ([GOOD; 7], [BAD; 10]));
}

fn how_rows_and_slices_must_lie(rig: &Rig) {
    let rows = |height, pitch, x| {
        with(rig, |p| {
            (p.Height, p.srcPitch, p.dstPitch, p.srcXInBytes) = (height, pitch, pitch, x);
        })
    };
    let slices = |height, rows, y| {
        with(rig, |p| {
            (p.Height, p.Depth, p.srcPitch, p.dstPitch) = (height, 2, 64, 64);
            (p.srcHeight, p.dstHeight, p.srcY) = (rows, rows, y);
        })
    };
    let of_rows = [rows(4, 64, 0), rows(4, 0, 0), rows(4, 8, 0), rows(4, 20, 8), rows(1, 8, 0)];
    let of_slices = [slices(4, 8, 0), slices(4, 0, 0), slices(4, 2, 0), slices(4, 5, 2)];
    assert_eq!(of_rows, [GOOD, GOOD, BAD, BAD, BAD]);
    assert_eq!((of_slices, slices(1, 1, 0)), ([GOOD, GOOD, BAD, BAD], GOOD));
    let huge = with(rig, |p| (p.Height, p.srcPitch, p.dstPitch) = (2, 1 << 40, 1 << 40));
    let nothing = with(rig, |p| p.WidthInBytes = 0);
    assert_eq!((huge, nothing), (BAD, [1, 1, 0, 0]), "no node copies nothing");
}

fn what_of_a_copy_does_not_matter(rig: &Rig) {
    let codes = [
        with(rig, |p| p.srcLOD = 1),
        with(rig, |p| p.reserved0 = std::ptr::without_provenance_mut(1)),
        with(rig, |p| p.reserved1 = std::ptr::without_provenance_mut(1)),
        with(rig, |p| p.dstDevice = p.srcDevice + 4),
        with(rig, |p| p.dstDevice = p.srcDevice),
    ];
    assert_eq!(codes, [GOOD; 5]);
}

/// Where in the target a copy of bytes that count up by row begins anew, and with which byte.
fn segments(rig: &Rig, change: impl FnOnce(&mut CUDA_MEMCPY3D_v2)) -> Vec<(usize, u8)> {
    let source: Vec<u8> = (0..1024).map(|index| (index % 251) as u8).collect();
    ok!(rig, cuMemcpyHtoD_v2(rig.buffer, source.as_ptr().cast(), source.len()));
    ok!(rig, cuMemsetD8_v2(rig.buffer + 65536, 255, 1024));
    ok!(rig, cuStreamSynchronize(crate::rig::NULL_STREAM));
    let (graph, mut params) = (rig.new_graph(), plain(rig));
    change(&mut params);
    let none = null::<CUgraphNode>();
    ok!(rig, cuGraphAddMemcpyNode(&mut null_mut(), graph, none, 0, &params, rig.context));
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    rig.release(graph, exec);
    let target = rig.read::<u8>(rig.buffer + 65536, 1024);
    let begins = |place: &usize| {
        let next = |byte: u8| (byte + 1) % 251;
        let follows = *place > 0 && target[*place - 1] != 255;
        target[*place] != 255 && !(follows && target[*place] == next(target[*place - 1]))
    };
    (0..1024).filter(begins).map(|place| (place, target[place])).collect()
}

fn rows_and_slices_lie_where_the_parameters_say(rig: &Rig) {
    let rows = |p: &mut CUDA_MEMCPY3D_v2, from, to| {
        (p.Height, p.srcPitch, p.dstPitch) = (3, from, to);
    };
    assert_eq!(segments(rig, |p| rows(p, 0, 0)), [(0, 0)], "row after row");
    assert_eq!(segments(rig, |p| rows(p, 0, 64)), [(0, 0), (64, 16), (128, 32)]);
    assert_eq!(segments(rig, |p| rows(p, 64, 0)), [(0, 0), (16, 64), (32, 128)]);
    let beside = |p: &mut CUDA_MEMCPY3D_v2| {
        rows(p, 0, 64);
        p.srcXInBytes = 4;
    };
    assert_eq!(segments(rig, beside), [(0, 4), (64, 24), (128, 44)], "a row has what is beside it");
    let below = |p: &mut CUDA_MEMCPY3D_v2| {
        rows(p, 0, 64);
        (p.Height, p.srcY) = (2, 2);
    };
    assert_eq!(segments(rig, below), [(0, 32), (64, 48)]);
    let slices = |p: &mut CUDA_MEMCPY3D_v2| {
        (p.Height, p.Depth, p.srcPitch, p.dstPitch) = (2, 2, 64, 32);
    };
    assert_eq!(segments(rig, slices), [(0, 0), (32, 64), (64, 128), (96, 192)]);
    let placed = |p: &mut CUDA_MEMCPY3D_v2| {
        slices(p);
        (p.srcHeight, p.dstHeight, p.srcZ, p.dstXInBytes, p.dstY) = (3, 4, 1, 8, 1);
    };
    assert_eq!(segments(rig, placed), [(40, 192), (72, 5), (168, 133), (200, 197)]);
    let lower = |p: &mut CUDA_MEMCPY3D_v2| {
        slices(p);
        (p.srcY, p.dstHeight) = (1, 4);
    };
    assert_eq!(segments(rig, lower), [(0, 64), (32, 128), (128, 5), (160, 69)]);
}

fn a_copy_node_tells_its_parameters(rig: &Rig) {
    let given = CUDA_MEMCPY3D_v2 {
        Height: 3,
        Depth: 2,
        srcPitch: 64,
        dstPitch: 128,
        srcHeight: 4,
        dstHeight: 5,
        srcXInBytes: 4,
        srcY: 1,
        srcZ: 1,
        dstXInBytes: 8,
        dstY: 2,
        ..plain(rig)
    };
    let (graph, mut node, none) = (rig.new_graph(), null_mut(), null::<CUgraphNode>());
    ok!(rig, cuGraphAddMemcpyNode(&mut node, graph, none, 0, &given, rig.context));
    let mut told = CUDA_MEMCPY3D_v2::default();
    ok!(rig, cuGraphMemcpyNodeGetParams(node, &mut told));
    ok!(rig, cuGraphDestroy(graph));
    let numbers = |p: &CUDA_MEMCPY3D_v2| {
        let source = [p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch, p.srcHeight];
        let target = [p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight];
        (source, target, [p.WidthInBytes, p.Height, p.Depth], [p.srcDevice, p.dstDevice])
    };
    assert_eq!(numbers(&told), numbers(&given));
    assert_eq!((told.srcMemoryType.0, told.dstMemoryType.0), (2, 2));
}

/// The code of a fill node, and what it tells of itself.
fn fill(
    rig: &Rig,
    change: impl FnOnce(&mut CUDA_MEMSET_NODE_PARAMS_v1),
) -> (u32, Option<CUDA_MEMSET_NODE_PARAMS_v1>) {
    let mut params = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        value: 1,
        elementSize: 4,
        width: 4,
        height: 1,
        ..Default::default()
    };
    change(&mut params);
    let (graph, mut node, none) = (rig.new_graph(), null_mut(), null::<CUgraphNode>());
    let code = cu!(rig, cuGraphAddMemsetNode(&mut node, graph, none, 0, &params, rig.context));
    let told = (code == 0).then(|| {
        let mut told = CUDA_MEMSET_NODE_PARAMS_v1::default();
        ok!(rig, cuGraphMemsetNodeGetParams(node, &mut told));
        told
    });
    ok!(rig, cuGraphDestroy(graph));
    (code, told)
}

fn which_fills_there_are(rig: &Rig) {
    let elements = [0, 1, 2, 3, 4, 8].map(|bytes| fill(rig, |p| p.elementSize = bytes).0);
    let unaligned = [(4, 2), (2, 1), (1, 1)]
        .map(|(bytes, by)| fill(rig, |p| (p.elementSize, p.dst) = (bytes, p.dst + by)).0);
    let rows = [(1, 8), (2, 64), (2, 8), (2, 66), (2, 0)]
        .map(|(height, pitch)| fill(rig, |p| (p.height, p.pitch) = (height, pitch)).0);
    assert_eq!((elements, unaligned), ([1, 0, 0, 1, 0, 1], [1, 1, 0]));
    assert_eq!(rows, [0, 0, 1, 1, 1]);
    let wide = fill(rig, |p| (p.elementSize, p.value) = (1, 256));
    assert_eq!(wide.1.map(|told| told.value), Some(256), "as it was given");
}

fn where_a_fill_node_may_write(rig: &Rig) {
    let (pinned, managed) = (rig.pinned(64), make!(rig, cuMemAllocManaged(64, 1)));
    let small = rig.alloc(512);
    let own = [0_u8; 64];
    let at = |address| fill(rig, |p| p.dst = address).0;
    let codes = [
        at(pinned.addr() as u64),
        at(managed),
        at(own.as_ptr().addr() as u64 & !3),
        at(0x123_0000),
        fill(rig, |p| (p.dst, p.width) = (small, 256)).0,
        fill(rig, |p| (p.dst, p.width) = (small, 128)).0,
    ];
    ok!(rig, cuMemFreeHost(pinned));
    ok!(rig, cuMemFree_v2(managed));
    ok!(rig, cuMemFree_v2(small));
    assert_eq!(codes, [0, 0, 1, 1, 1, 0]);
}
