//! Which memory a node of an executable takes in the place of other memory, and what the nodes of
//! copies and fills need of a context.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::{quietly, saw};

tiers! {
    both {
        where_a_copy_may_write_instead,
        where_a_copy_may_read_instead,
        a_copy_node_takes_all_memory,
        a_kind_of_memory_outlives_it,
        a_fill_may_write_anywhere_instead,
    }
    alone {
        copies_and_fills_without_a_context,
    }
}

/// The code of a call, which the case shows with others.
macro_rules! code {
    ($rig:expr, $($call:tt)*) => { quietly(|| cu!($rig, $($call)*)) };
}

/// Memory of every kind, as an end of a copy.
struct Places<'r> {
    rig: &'r Rig,
    pool: CUmemoryPool,
    module: CUmodule,
    graph: CUgraph,
    exec: CUgraphExec,
    host: [*mut c_void; 2],
    async_memory: [CUdeviceptr; 2],
    managed: CUdeviceptr,
    pageable: Box<[u8]>,
    ends: Vec<(&'static str, CUmemorytype, u64)>,
}

const BYTES: usize = 4096;

impl<'r> Places<'r> {
    fn new(rig: &'r Rig) -> Places<'r> {
        let mut props =
            CUmemPoolProps_v1 { allocType: CU_MEM_ALLOCATION_TYPE_PINNED, ..Default::default() };
        props.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let pool: CUmemoryPool = make!(rig, cuMemPoolCreate(&props));
        let of_default = make!(rig, cuMemAllocAsync(BYTES, rig.stream));
        let of_pool = make!(rig, cuMemAllocFromPoolAsync(BYTES, pool, rig.stream));
        let module = rig.module(crate::rig::PTX);
        let (mut global, mut bytes) = (0, 0);
        let name = c"counter".as_ptr();
        ok!(rig, cuModuleGetGlobal_v2(&mut global, &mut bytes, module, name));
        let (graph, of_graph) = allocating(rig);
        let exec = rig.instantiate(graph);
        ok!(rig, cuGraphLaunch(exec, rig.stream));
        rig.sync(rig.stream);
        let pinned = rig.pinned(BYTES);
        let managed = make!(rig, cuMemAllocManaged(BYTES, 1));
        let mut pageable = vec![0_u8; BYTES].into_boxed_slice();
        let own = pageable.as_mut_ptr().expose_provenance() as u64;
        let (mut pitched, mut pitch) = (0, 0);
        ok!(rig, cuMemAllocPitch_v2(&mut pitched, &mut pitch, 64, 4, 4));
        let at = |host: *mut c_void| host.expose_provenance() as u64;
        let (device, of_host) = (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
        let unified = CU_MEMORYTYPE_UNIFIED;
        let ends = vec![
            ("device", device, rig.buffer),
            ("pitched", device, pitched),
            ("default pool", device, of_default),
            ("own pool", device, of_pool),
            ("graph", device, of_graph),
            ("global", device, global),
            ("managed", device, managed),
            ("pinned as device", device, at(pinned)),
            ("pinned as host", of_host, at(pinned)),
            ("pageable", of_host, own),
            ("device as unified", unified, rig.buffer),
            ("pool as unified", unified, of_default),
            ("managed as unified", unified, managed),
            ("pinned as unified", unified, at(pinned)),
        ];
        Places {
            rig,
            pool,
            module,
            graph,
            exec,
            host: [pinned, null_mut()],
            async_memory: [of_default, of_pool],
            managed,
            pageable,
            ends,
        }
    }

    fn close(self) {
        let rig = self.rig;
        for memory in self.async_memory {
            ok!(rig, cuMemFreeAsync(memory, rig.stream));
        }
        let of_graph = self.ends[4].2;
        ok!(rig, cuMemFreeAsync(of_graph, rig.stream));
        rig.sync(rig.stream);
        rig.release(self.graph, self.exec);
        ok!(rig, cuMemPoolDestroy(self.pool));
        ok!(rig, cuModuleUnload(self.module));
        ok!(rig, cuMemFreeHost(self.host[0]));
        ok!(rig, cuMemFree_v2(self.managed));
        ok!(rig, cuMemFree_v2(self.ends[1].2));
        drop(self.pageable);
    }

    /// A copy between an end and the device's memory.
    fn copy(&self, end: usize, reads: bool) -> CUDA_MEMCPY3D_v2 {
        let (_, kind, address) = self.ends[end];
        let mut copy = CUDA_MEMCPY3D_v2 {
            srcMemoryType: CU_MEMORYTYPE_DEVICE,
            srcDevice: self.rig.buffer + 65536,
            dstMemoryType: CU_MEMORYTYPE_DEVICE,
            dstDevice: self.rig.buffer + 65536,
            WidthInBytes: 4,
            Height: 1,
            Depth: 1,
            ..Default::default()
        };
        let host = std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        match (reads, kind == CU_MEMORYTYPE_HOST) {
            (true, true) => (copy.srcMemoryType, copy.srcHost) = (kind, host),
            (true, false) => (copy.srcMemoryType, copy.srcDevice) = (kind, address),
            (false, true) => (copy.dstMemoryType, copy.dstHost) = (kind, host),
            (false, false) => (copy.dstMemoryType, copy.dstDevice) = (kind, address),
        }
        copy
    }

    fn graph_of(&self, copy: &CUDA_MEMCPY3D_v2) -> (u32, CUgraph, CUgraphNode) {
        let (graph, mut node) = (self.rig.new_graph(), null_mut());
        let (none, context) = (null(), self.rig.context);
        let code = code!(self.rig, cuGraphAddMemcpyNode(&mut node, graph, none, 0, copy, context));
        (code, graph, node)
    }

    /// What an executable of one copy says to another: where it is set, typed and not, where it
    /// comes with a graph, and with an embedded one.
    fn change(&self, old: usize, new: usize, reads: bool) {
        let rig = self.rig;
        let (from, to) = (self.copy(old, reads), self.copy(new, reads));
        let ((made, graph, node), (made_too, other, _)) =
            (self.graph_of(&from), self.graph_of(&to));
        let names = format!("{} to {}", self.ends[old].0, self.ends[new].0);
        if (made, made_too) == (0, 0) {
            let with = |change: &dyn Fn(CUgraphExec) -> (u32, u32)| {
                let exec = rig.instantiate(graph);
                let codes = change(exec);
                ok!(rig, cuGraphExecDestroy(exec));
                codes
            };
            let typed = with(&|exec| {
                let context = rig.context;
                (code!(rig, cuGraphExecMemcpyNodeSetParams(exec, node, &to, context)), 0)
            });
            let generic = with(&|exec| {
                let mut any = generic_copy(rig, &to);
                (code!(rig, cuGraphExecNodeSetParams(exec, node, &mut any)), 0)
            });
            let update = with(&|exec| {
                let mut info = CUgraphExecUpdateResultInfo::default();
                let code = code!(rig, cuGraphExecUpdate_v2(exec, other, &mut info));
                (code, info.result.0)
            });
            saw(&names, (typed.0, generic.0, update));
        } else {
            saw(&names, (made, made_too));
        }
        for graph in [graph, other] {
            ok!(rig, cuGraphDestroy(graph));
        }
    }
}

fn generic_copy(rig: &Rig, copy: &CUDA_MEMCPY3D_v2) -> CUgraphNodeParams {
    let mut any = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEMCPY, ..Default::default() };
    any.__bindgen_anon_1.memcpy.copyCtx = rig.context;
    any.__bindgen_anon_1.memcpy.copyParams = *copy;
    any
}

/// A graph that allocates and does not free, and the address.
fn allocating(rig: &Rig) -> (CUgraph, CUdeviceptr) {
    let graph = rig.new_graph();
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: BYTES, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    ok!(rig, cuGraphAddMemAllocNode(&mut null_mut(), graph, null(), 0, &mut params));
    (graph, params.dptr)
}

fn every_change(rig: &Rig, reads: bool) {
    let places = Places::new(rig);
    for old in 0..places.ends.len() {
        for new in 0..places.ends.len() {
            places.change(old, new, reads);
        }
    }
    places.close();
}

fn where_a_copy_may_write_instead(rig: &Rig) {
    every_change(rig, false);
}

fn where_a_copy_may_read_instead(rig: &Rig) {
    every_change(rig, true);
}

/// A node of a graph, and what an executable of it is after that.
fn a_copy_node_takes_all_memory(rig: &Rig) {
    let places = Places::new(rig);
    for new in 0..places.ends.len() {
        let (_, graph, node) = places.graph_of(&places.copy(0, false));
        let to = places.copy(new, false);
        let code = code!(rig, cuGraphMemcpyNodeSetParams(node, &to));
        let mut any = generic_copy(rig, &to);
        let generic = code!(rig, cuGraphNodeSetParams(node, &mut any));
        saw(places.ends[new].0, (code, generic));
        ok!(rig, cuGraphDestroy(graph));
    }
    places.close();
}

/// Memory is freed, and what an executable has of it is replaced.
fn a_kind_of_memory_outlives_it(rig: &Rig) {
    let places = Places::new(rig);
    let context = rig.context;
    for (old, new) in [(0, 0), (0, 2), (2, 0), (2, 3)] {
        let address = match old {
            0 => rig.alloc(BYTES),
            _ => make!(rig, cuMemAllocAsync(BYTES, rig.stream)),
        };
        let copy = CUDA_MEMCPY3D_v2 { dstDevice: address, ..places.copy(0, false) };
        let (_, graph, node) = places.graph_of(&copy);
        let exec = rig.instantiate(graph);
        match old {
            0 => ok!(rig, cuMemFree_v2(address)),
            _ => ok!(rig, cuMemFreeAsync(address, rig.stream)),
        }
        rig.sync(rig.stream);
        let to = places.copy(new, false);
        let code = code!(rig, cuGraphExecMemcpyNodeSetParams(exec, node, &to, context));
        saw(&format!("freed {} to {}", places.ends[old].0, places.ends[new].0), code);
        rig.release(graph, exec);
    }
    places.close();
}

fn fill_at(address: CUdeviceptr) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: address,
        value: 1,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    }
}

fn generic_fill(fill: &CUDA_MEMSET_NODE_PARAMS_v1, ctx: CUcontext) -> CUgraphNodeParams {
    let mut any = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEMSET, ..Default::default() };
    any.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: fill.dst,
        pitch: fill.pitch,
        value: fill.value,
        elementSize: fill.elementSize,
        width: fill.width,
        height: fill.height,
        ctx,
    };
    any
}

fn a_fill_may_write_anywhere_instead(rig: &Rig) {
    let places = Places::new(rig);
    let context = rig.context;
    for (old, new) in (0..8).flat_map(|old| (0..8).map(move |new| (old, new))) {
        let [from, to] = [old, new].map(|end| fill_at(places.ends[end].2));
        let [(graph, node), (other, _)] = [from, to].map(|fill| {
            let graph = rig.new_graph();
            let node: CUgraphNode =
                make!(rig, cuGraphAddMemsetNode(graph, null(), 0, &fill, context));
            (graph, node)
        });
        let exec = rig.instantiate(graph);
        let mut info = CUgraphExecUpdateResultInfo::default();
        let update = code!(rig, cuGraphExecUpdate_v2(exec, other, &mut info));
        ok!(rig, cuGraphExecDestroy(exec));
        let exec = rig.instantiate(graph);
        let set = code!(rig, cuGraphExecMemsetNodeSetParams(exec, node, &to, context));
        let names = format!("{} to {}", places.ends[old].0, places.ends[new].0);
        saw(&names, (set, update, info.result.0));
        rig.release(graph, exec);
        ok!(rig, cuGraphDestroy(other));
    }
    places.close();
}

/// Adds and sets nodes with a context current and with none; the parameters name a context where
/// they can.
fn copies_and_fills_without_a_context(rig: &Rig) {
    let places = Places::new(rig);
    let context = rig.context;
    let (unlaunched, not_yet) = allocating(rig);
    let mut ends: Vec<_> = places.ends[..10].to_vec();
    ends.push(("graph not launched", CU_MEMORYTYPE_DEVICE, not_yet));
    ends.push(("nothing", CU_MEMORYTYPE_DEVICE, 0x123_0000));
    let places = Places { ends, ..places };
    for current in [context, null_mut()] {
        for end in 0..places.ends.len() {
            let graph = rig.new_graph();
            let (mut fill_node, mut copy_node) = (null_mut(), null_mut());
            let (first, plain) = (fill_at(rig.buffer), places.copy(0, false));
            ok!(rig, cuGraphAddMemsetNode(&mut fill_node, graph, null(), 0, &first, context));
            ok!(rig, cuGraphAddMemcpyNode(&mut copy_node, graph, null(), 0, &plain, context));
            let exec = rig.instantiate(graph);
            let (fill, copy) = (fill_at(places.ends[end].2), places.copy(end, false));
            let mut any_fill = generic_fill(&fill, context);
            let mut any_copy = generic_copy(rig, &copy);
            let none = null::<CUgraphNode>();
            ok!(rig, cuCtxSetCurrent(current));
            let mut node = null_mut();
            let fills = [
                code!(rig, cuGraphMemsetNodeSetParams(fill_node, &fill)),
                code!(rig, cuGraphNodeSetParams(fill_node, &mut any_fill)),
                code!(rig, cuGraphExecMemsetNodeSetParams(exec, fill_node, &fill, context)),
                code!(rig, cuGraphExecNodeSetParams(exec, fill_node, &mut any_fill)),
                code!(rig, cuGraphAddMemsetNode(&mut node, graph, none, 0, &fill, context)),
                code!(rig, cuGraphAddNode_v2(&mut node, graph, none, null(), 0, &mut any_fill)),
            ];
            let copies = [
                code!(rig, cuGraphMemcpyNodeSetParams(copy_node, &copy)),
                code!(rig, cuGraphNodeSetParams(copy_node, &mut any_copy)),
                code!(rig, cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context)),
                code!(rig, cuGraphExecNodeSetParams(exec, copy_node, &mut any_copy)),
                code!(rig, cuGraphAddMemcpyNode(&mut node, graph, none, 0, &copy, context)),
                code!(rig, cuGraphAddNode_v2(&mut node, graph, none, null(), 0, &mut any_copy)),
            ];
            ok!(rig, cuCtxSetCurrent(context));
            let name = format!("{}, current {}", places.ends[end].0, !current.is_null());
            saw(&name, (fills, copies));
            rig.release(graph, exec);
        }
    }
    ok!(rig, cuGraphDestroy(unlaunched));
    places.close();
}
