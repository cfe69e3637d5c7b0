//! What becomes of the clusters of kernels where an executable is changed.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};
use crate::transcript::{quietly, saw};

rules! { both;
    a_cluster_in_an_update(rig) {
        let kernels = Kernels::load(rig);
        for [old, new] in pairs([0, 2, 4]) {
            let old = Launch { cluster: old, ..Launch::of("see") };
            let new = Launch { cluster: new, ..old };
            let changes = [
                new,
                Launch { n: 2, ..new },
                Launch { grid: 16, ..new },
                Launch { block: 2, ..new },
                Launch { shared: 1024, ..new },
                Launch { kernel: "also", ..new },
            ];
            for new in changes {
                kernels.updated(&[old, new]);
            }
        }
        // Three clusters of three, if the one before stays.
        kernels.updated(&[Launch { cluster: 2, ..Launch::of("see") }, Launch { grid: 9, ..Launch::of("see") }]);
    }

    a_kernel_compiled_for_a_cluster_in_an_update(rig) {
        let kernels = Kernels::load(rig);
        for [old, new] in pairs(compiled()) {
            kernels.updated(&[old, new]);
            kernels.updated(&[old, Launch { grid: 16, ..new }]);
        }
    }

    a_cluster_after_launches_between_updates(rig) {
        histories(rig, 80);
    }

    a_cluster_after_several_updates(rig) {
        let kernels = Kernels::load(rig);
        let see = Launch::of("see");
        let (two, four) = (Launch { cluster: 2, ..see }, Launch { cluster: 4, ..see });
        let wide = |launch| Launch { grid: 16, ..launch };
        kernels.updated(&[see, two, wide(two), wide(see), see, four, wide(four), two]);
        kernels.updated(&[two, see, four, wide(four), see, wide(see)]);
        let compiled = Launch::of("two");
        kernels.updated(&[see, compiled, see, wide(see), wide(four), compiled, see]);
        kernels.updated(&[compiled, see, Launch::of("also"), see, compiled, four]);
    }

    a_cluster_in_an_embedded_graph(rig) {
        let kernels = Kernels::load(rig);
        let see = Launch::of("see");
        for [old, new] in pairs([0, 2, 4]) {
            let (old, new) = (Launch { cluster: old, ..see }, Launch { cluster: new, ..see });
            for new in [new, Launch { grid: 16, ..new }] {
                kernels.embedded(old, new);
            }
        }
    }

    a_cluster_of_a_node_is_told(rig) {
        let kernels = Kernels::load(rig);
        for [first, second] in pairs(compiled()) {
            let graph = rig.new_graph();
            let node = kernels.add(graph, first);
            saw(&format!("{first}"), kernels.told(node));
            let mut other = Arguments::new(rig, second);
            let params = kernels.params(second, &mut other);
            cu!(rig, cuGraphKernelNodeSetParams_v2(node, &params));
            saw(&format!("{first}, then {second}"), kernels.told(node));
            let exec = rig.instantiate(graph);
            saw("ran", kernels.run(exec));
            rig.release(graph, exec);
        }
    }

    a_cluster_of_a_captured_kernel_is_told(rig) {
        let kernels = Kernels::load(rig);
        for launch in compiled() {
            rig.begin(rig.stream, RELAXED);
            let code = kernels.launch(launch, rig.stream);
            let (end, graph) = rig.end(rig.stream);
            if (code, end) == (0, 0) && !rig.nodes(graph).is_empty() {
                let node = rig.nodes(graph)[0];
                saw(&format!("{launch}"), kernels.told(node));
                let clone: CUgraph = make!(rig, cuGraphClone(graph));
                saw("clone", kernels.told(rig.nodes(clone)[0]));
                let exec = rig.instantiate(clone);
                saw("ran", kernels.run(exec));
                rig.release(clone, exec);
            }
            if end == 0 {
                ok!(rig, cuGraphDestroy(graph));
            }
        }
    }

    a_cluster_of_a_node_set_and_copied(rig) {
        let kernels = Kernels::load(rig);
        for [first, second] in pairs(compiled()) {
            let graph = rig.new_graph();
            let (to, from) = (kernels.add(graph, first), kernels.add(graph, second));
            cu!(rig, cuGraphKernelNodeCopyAttributes(to, from));
            saw(&format!("{first}, attributes of {second}"), kernels.told(to));
            for blocks in [0, 1, 4, 3, 16] {
                let code = kernels.give(to, blocks);
                saw(&format!("given {blocks}"), (code, kernels.told(to)));
            }
            ok!(rig, cuGraphDestroy(graph));
        }
    }

    a_launch_in_another_cluster_than_compiled_for(rig) {
        let kernels = Kernels::load(rig);
        for (kernel, cluster) in [("two", 4), ("two", 1), ("four", 2), ("four", 4)] {
            let launch = Launch { cluster, ..Launch::of(kernel) };
            saw(&format!("{launch}"), kernels.launch(launch, rig.stream));
        }
        rig.sync(rig.stream);
    }

    what_a_kernel_sees_of_its_cluster(rig) {
        let kernels = Kernels::load(rig);
        for launch in compiled() {
            let whole = Launch { kernel: "whole", grid: 8, ..launch };
            let zeros = || quietly(|| ok!(rig, cuMemsetD8_v2(rig.buffer, 0, 4096)));
            zeros();
            kernels.launch(whole, rig.stream);
            rig.sync(rig.stream);
            saw(&format!("{whole}"), rig.read::<u32>(rig.buffer, 8 * 8));
        }
    }
}

mod set {
    use super::*;

    rules! { alone;
        a_cluster_where_parameters_are_set(rig) {
            set_all(rig, false, |old| old.kernel == "see");
        }
        a_cluster_where_generic_parameters_are_set(rig) {
            set_all(rig, true, |old| old.kernel == "see");
        }
        parameters_in_the_place_of_a_kernel_compiled_for_a_cluster(rig) {
            set_all(rig, false, |old| old.kernel != "see");
        }
        generic_parameters_in_the_place_of_a_kernel_compiled_for_a_cluster(rig) {
            set_all(rig, true, |old| old.kernel != "see");
        }
        a_grid_that_the_cluster_does_not_divide_is_set(rig) {
            let kernels = Kernels::load(rig);
            for [old, new] in pairs(compiled()).into_iter().filter(|[_, new]| new.cluster == 0) {
                for generic in [false, true] {
                    kernels.set(old, Launch { grid: 9, ..new }, generic, false);
                }
            }
        }
    }

    fn set_all(rig: &Rig, generic: bool, of: fn(&Launch) -> bool) {
        let kernels = Kernels::load(rig);
        for [old, new] in pairs(compiled()) {
            if new.cluster == 0 && of(&old) {
                for new in [new, Launch { n: 2, ..new }, Launch { grid: 16, ..new }] {
                    kernels.set(old, new, generic, true);
                }
            }
        }
    }
}

/// Random updates of executables, which are launched and uploaded between them.
fn histories(rig: &Rig, count: usize) {
    let kernels = Kernels::load(rig);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) % limit
    };
    for _ in 0..count {
        let mut launch = || Launch {
            cluster: [0, 2, 4][below(3) as usize],
            grid: [8, 8, 16][below(3) as usize],
            ..Launch::of("see")
        };
        let steps: Vec<Launch> = (0..5).map(|_| launch()).collect();
        let updates = 1 + below(4) as usize;
        // Before an update the executable is left as it is, launched, or uploaded.
        let before: Vec<u64> = (0..updates).map(|_| below(5)).collect();
        kernels.history(&steps[..=updates], &before);
    }
}

/// All pairs of some.
fn pairs<T: Copy, const N: usize>(of: [T; N]) -> Vec<[T; 2]> {
    of.iter().flat_map(|a| of.iter().map(move |b| [*a, *b])).collect()
}

/// Kernels compiled for a cluster, and others, with clusters given and without.
fn compiled() -> [Launch; 6] {
    let see = Launch::of("see");
    let two = Launch::of("two");
    [
        see,
        Launch { cluster: 2, ..see },
        Launch { cluster: 4, ..see },
        two,
        Launch { cluster: 2, ..two },
        Launch::of("four"),
    ]
}

/// What is launched; a cluster of none is not given.
#[derive(Clone, Copy)]
struct Launch {
    kernel: &'static str,
    cluster: u32,
    grid: u32,
    block: u32,
    shared: u32,
    n: u32,
}

impl Launch {
    fn of(kernel: &'static str) -> Launch {
        Launch { kernel, cluster: 0, grid: 8, block: 1, shared: 0, n: 1 }
    }
}

impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Launch { kernel, cluster, grid, block, shared, n } = self;
        write!(f, "{kernel}({n}) {grid}x{block}")?;
        if *shared > 0 {
            write!(f, " shared {shared}")?;
        }
        if *cluster > 0 {
            write!(f, " cluster {cluster}")?;
        }
        Ok(())
    }
}

/// `see` and `also` write down their cluster, grid, block and argument, `two` and `four` are
/// compiled for clusters, and each block of `whole` writes all that it knows of its cluster.
const PTX: &str = "\
.version 7.8
.target sm_90
.address_size 64
.visible .entry see(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<2>; .reg .b32 %r<5>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; st.global.u32 [%rd1+12],%r1;
 mov.u32 %r2,%cluster_nctaid.x; st.global.u32 [%rd1],%r2;
 mov.u32 %r3,%nctaid.x; st.global.u32 [%rd1+4],%r3;
 mov.u32 %r4,%ntid.x; st.global.u32 [%rd1+8],%r4; ret;}
.visible .entry also(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<2>; .reg .b32 %r<5>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; add.u32 %r1,%r1,100; st.global.u32 [%rd1+12],%r1;
 mov.u32 %r2,%cluster_nctaid.x; st.global.u32 [%rd1],%r2;
 mov.u32 %r3,%nctaid.x; st.global.u32 [%rd1+4],%r3;
 mov.u32 %r4,%ntid.x; st.global.u32 [%rd1+8],%r4; ret;}
.visible .entry two(.param .u64 p, .param .u32 n) .reqnctapercluster 2, 1, 1 {
 .reg .b64 %rd<2>; .reg .b32 %r<5>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; add.u32 %r1,%r1,200; st.global.u32 [%rd1+12],%r1;
 mov.u32 %r2,%cluster_nctaid.x; st.global.u32 [%rd1],%r2;
 mov.u32 %r3,%nctaid.x; st.global.u32 [%rd1+4],%r3;
 mov.u32 %r4,%ntid.x; st.global.u32 [%rd1+8],%r4; ret;}
.visible .entry four(.param .u64 p, .param .u32 n) .reqnctapercluster 4, 1, 1 {
 .reg .b64 %rd<2>; .reg .b32 %r<5>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; add.u32 %r1,%r1,400; st.global.u32 [%rd1+12],%r1;
 mov.u32 %r2,%cluster_nctaid.x; st.global.u32 [%rd1],%r2;
 mov.u32 %r3,%nctaid.x; st.global.u32 [%rd1+4],%r3;
 mov.u32 %r4,%ntid.x; st.global.u32 [%rd1+8],%r4; ret;}
.visible .entry whole(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<4>; .reg .b32 %r<9>;
 ld.param.u64 %rd1,[p];
 mov.u32 %r1,%ctaid.x; mul.wide.u32 %rd2,%r1,32; add.u64 %rd1,%rd1,%rd2;
 mov.u32 %r2,%clusterid.x; st.global.u32 [%rd1],%r2;
 mov.u32 %r2,%nclusterid.x; st.global.u32 [%rd1+4],%r2;
 mov.u32 %r2,%cluster_ctaid.x; st.global.u32 [%rd1+8],%r2;
 mov.u32 %r2,%cluster_nctaid.x; st.global.u32 [%rd1+12],%r2;
 mov.u32 %r2,%cluster_ctarank; st.global.u32 [%rd1+16],%r2;
 mov.u32 %r2,%cluster_nctarank; st.global.u32 [%rd1+20],%r2;
 mov.u32 %r2,%cluster_nctaid.y; st.global.u32 [%rd1+24],%r2;
 mov.u32 %r2,%cluster_ctaid.y; st.global.u32 [%rd1+28],%r2; ret;}
\0";

/// The arguments of a kernel, with the pointers to them.
struct Arguments {
    words: CUdeviceptr,
    n: u32,
    pointers: [*mut c_void; 2],
}

impl Arguments {
    fn new(rig: &Rig, launch: Launch) -> Arguments {
        Arguments { words: rig.buffer, n: launch.n, pointers: [null_mut(); 2] }
    }

    fn pointers(&mut self) -> &mut [*mut c_void] {
        self.pointers = [(&raw mut self.words).cast(), (&raw mut self.n).cast()];
        &mut self.pointers
    }
}

struct Kernels<'r> {
    rig: &'r Rig,
    module: CUmodule,
}

impl Drop for Kernels<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            ok!(self.rig, cuModuleUnload(self.module));
        }
    }
}

impl<'r> Kernels<'r> {
    fn load(rig: &'r Rig) -> Kernels<'r> {
        Kernels { rig, module: make!(rig, cuModuleLoadData(PTX.as_ptr().cast())) }
    }

    fn params(&self, launch: Launch, arguments: &mut Arguments) -> CUDA_KERNEL_NODE_PARAMS_v2 {
        let func = quietly(|| self.rig.function(self.module, launch.kernel));
        CUDA_KERNEL_NODE_PARAMS_v2 {
            gridDimX: launch.grid,
            blockDimX: launch.block,
            sharedMemBytes: launch.shared,
            ..crate::steering::kernel(func, arguments.pointers())
        }
    }

    /// A node with its cluster.
    fn add(&self, graph: CUgraph, launch: Launch) -> CUgraphNode {
        let mut arguments = Arguments::new(self.rig, launch);
        let params = self.params(launch, &mut arguments);
        let node = make!(self.rig, cuGraphAddKernelNode_v2(graph, null(), 0, &params));
        if launch.cluster > 0 {
            let code = self.give(node, launch.cluster);
            if code != 0 {
                saw(&format!("cluster of {launch}"), code);
            }
        }
        node
    }

    /// Gives a node a cluster.
    fn give(&self, node: CUgraphNode, blocks: u32) -> u32 {
        let value = cluster(blocks);
        let id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        quietly(|| cu!(self.rig, cuGraphKernelNodeSetAttribute(node, id, &value)))
    }

    /// The cluster that a node tells, with the code.
    fn told(&self, node: CUgraphNode) -> (u32, [u32; 3]) {
        let mut value = cluster(9);
        let id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        let ask = || cu!(self.rig, cuGraphKernelNodeGetAttribute(node, id, &mut value));
        let code = quietly(ask);
        // SAFETY: the union was a cluster, and the driver writes one.
        let told = unsafe { value.clusterDim };
        (code, [told.x, told.y, told.z])
    }

    fn graph(&self, launch: Launch) -> (CUgraph, CUgraphNode) {
        let graph = self.rig.new_graph();
        (graph, self.add(graph, launch))
    }

    /// The code of a launch, and what it writes down: cluster, grid, block and argument.
    fn run(&self, exec: CUgraphExec) -> (u32, Vec<u32>) {
        ok!(self.rig, cuMemsetD8_v2(self.rig.buffer, 0, 64));
        ok!(self.rig, cuStreamSynchronize(null_mut()));
        let code = quietly(|| cu!(self.rig, cuGraphLaunch(exec, self.rig.stream)));
        self.rig.sync(self.rig.stream);
        (code, self.rig.read(self.rig.buffer, 4))
    }

    /// The code of an update and the reason that it gives.
    fn update(&self, exec: CUgraphExec, graph: CUgraph) -> (u32, u32) {
        let mut info = CUgraphExecUpdateResultInfo::default();
        let code = quietly(|| cu!(self.rig, cuGraphExecUpdate_v2(exec, graph, &mut info)));
        (code, info.result.0)
    }

    /// Updates an executable of the first from each of the others.
    fn updated(&self, launches: &[Launch]) {
        let (graph, _) = self.graph(launches[0]);
        let exec = self.rig.instantiate(graph);
        let mut old = launches[0];
        for new in &launches[1..] {
            let (other, _) = self.graph(*new);
            let updated = self.update(exec, other);
            saw(&format!("{old} to {new}"), (updated, self.run(exec)));
            ok!(self.rig, cuGraphDestroy(other));
            old = *new;
        }
        self.rig.release(graph, exec);
    }

    /// Updates an executable of the first from each of the others, with what is done to it before
    /// each: 0 and 1 launch it, 2 uploads it.
    fn history(&self, launches: &[Launch], before: &[u64]) {
        let (graph, _) = self.graph(launches[0]);
        let exec = self.rig.instantiate(graph);
        let mut text = launches[0].to_string();
        let mut seen = Vec::new();
        for (new, before) in launches[1..].iter().zip(before) {
            match before {
                0 | 1 => {
                    text += ", run";
                    seen.push(self.run(exec).1[0]);
                }
                2 => {
                    text += ", upload";
                    ok!(self.rig, cuGraphUpload(exec, self.rig.stream));
                }
                _ => {}
            }
            text += &format!(", {new}");
            let (other, _) = self.graph(*new);
            assert_eq!(self.update(exec, other), (0, 0));
            ok!(self.rig, cuGraphDestroy(other));
        }
        seen.push(self.run(exec).1[0]);
        saw(&text, seen);
        self.rig.release(graph, exec);
    }

    /// Sets the parameters of an executable's node; `runs` says that it is launched then.
    fn set(&self, old: Launch, new: Launch, generic: bool, runs: bool) {
        let (graph, node) = self.graph(old);
        let exec = self.rig.instantiate(graph);
        let mut arguments = Arguments::new(self.rig, new);
        let mut params = self.params(new, &mut arguments);
        params.ctx = self.rig.context;
        let code = if generic {
            let mut any =
                CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_KERNEL, ..Default::default() };
            any.__bindgen_anon_1.kernel = CUDA_KERNEL_NODE_PARAMS_v3 {
                func: params.func,
                gridDimX: params.gridDimX,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: params.blockDimX,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: params.sharedMemBytes,
                kernelParams: params.kernelParams,
                ctx: params.ctx,
                ..Default::default()
            };
            quietly(|| cu!(self.rig, cuGraphExecNodeSetParams(exec, node, &mut any)))
        } else {
            quietly(|| cu!(self.rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params)))
        };
        let ran = runs.then(|| self.run(exec));
        saw(&format!("{old} set to {new}"), (code, ran));
        self.rig.release(graph, exec);
    }

    /// The same change, of a graph that another embeds: by an update and where the child is set.
    fn embedded(&self, old: Launch, new: Launch) {
        let hold = |launch| {
            let (child, _) = self.graph(launch);
            let graph = self.rig.new_graph();
            let node: CUgraphNode =
                make!(self.rig, cuGraphAddChildGraphNode(graph, null(), 0, child));
            (graph, node, child)
        };
        let ((graph, node, child), (other, _, new_child)) = (hold(old), hold(new));
        let exec = self.rig.instantiate(graph);
        let updated = self.update(exec, other);
        saw(&format!("{old} to {new}"), (updated, self.run(exec)));
        ok!(self.rig, cuGraphExecDestroy(exec));
        let exec = self.rig.instantiate(graph);
        let set = || cu!(self.rig, cuGraphExecChildGraphNodeSetParams(exec, node, new_child));
        let code = quietly(set);
        saw(&format!("{old} set to {new}"), (code, self.run(exec)));
        ok!(self.rig, cuGraphExecDestroy(exec));
        for graph in [graph, child, other, new_child] {
            ok!(self.rig, cuGraphDestroy(graph));
        }
    }

    /// A launch on a stream, with its cluster.
    fn launch(&self, launch: Launch, stream: CUstream) -> u32 {
        let mut arguments = Arguments::new(self.rig, launch);
        let params = self.params(launch, &mut arguments);
        let mut attribute = CUlaunchAttribute {
            id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            value: cluster(launch.cluster),
            ..Default::default()
        };
        let config = CUlaunchConfig {
            gridDimX: params.gridDimX,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: params.blockDimX,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: params.sharedMemBytes,
            hStream: stream,
            attrs: &mut attribute,
            numAttrs: u32::from(launch.cluster > 0),
        };
        let (arguments, none) = (params.kernelParams, null_mut());
        cu!(self.rig, cuLaunchKernelEx(&config, params.func, arguments, none))
    }
}

fn cluster(blocks: u32) -> CUlaunchAttributeValue {
    let dim = CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 };
    CUlaunchAttributeValue { clusterDim: dim }
}
