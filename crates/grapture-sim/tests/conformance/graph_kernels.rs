//! Kernels in captures and graphs.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{GLOBAL, RELAXED, Rig, THREAD_LOCAL};
use crate::subject::Subject;

tiers! {
    both {
        replays_run_captured_kernels,
        kernel_nodes_by_hand,
        programmatic_serialization_shows_in_the_edges,
        bad_launches_break_the_capture_or_not,
        a_kernel_of_another_context_is_refused_and_the_capture_survives,
        captures_bar_the_end_of_modules_alone,
        a_kernel_is_captured_without_a_current_context_and_modules_pass_a_relaxed_guard,
    }
    simulator {
        dangerous_kernel_nodes_without_a_context,
    }
}

/// `add_one(words, by)` adds to the word of each thread; `idle` does nothing.
const PTX: &std::ffi::CStr = c"
.version 7.8
.target sm_80
.address_size 64
.visible .entry add_to(.param .u64 words, .param .u32 by)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<5>;
    ld.param.u64 %rd1, [words];
    ld.param.u32 %r1, [by];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    add.u32 %r4, %r3, %r1;
    st.global.u32 [%rd3], %r4;
    ret;
}
.visible .entry idle()
{
    ret;
}
";

struct Kernels {
    module: CUmodule,
    add: CUfunction,
    idle: CUfunction,
}

impl Kernels {
    fn load(rig: &Rig) -> Kernels {
        let mut module = null_mut();
        ok!(rig, cuModuleLoadData(&mut module, PTX.as_ptr().cast()));
        let function = |name: &std::ffi::CStr| {
            let mut function = null_mut();
            ok!(rig, cuModuleGetFunction(&mut function, module, name.as_ptr()));
            function
        };
        Kernels { module, add: function(c"add_to"), idle: function(c"idle") }
    }
}

/// The arguments of `add_to`, with the pointers to them.
struct Arguments {
    words: CUdeviceptr,
    by: u32,
}

impl Arguments {
    fn pointers(&mut self) -> [*mut c_void; 2] {
        [(&raw mut self.words).cast(), (&raw mut self.by).cast()]
    }
}

fn add(rig: &Rig, kernels: &Kernels, by: u32, stream: CUstream) -> u32 {
    let mut arguments = Arguments { words: rig.buffer, by };
    let mut pointers = arguments.pointers();
    let at = pointers.as_mut_ptr();
    cu!(rig, cuLaunchKernel(kernels.add, 1, 1, 1, 4, 1, 1, 0, stream, at, null_mut()))
}

fn config(stream: CUstream, attribute: &mut CUlaunchAttribute) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: 4,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        hStream: stream,
        attrs: attribute,
        numAttrs: 1,
        ..Default::default()
    }
}

fn serialized() -> CUlaunchAttribute {
    let mut attribute = CUlaunchAttribute {
        id: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        ..Default::default()
    };
    attribute.value.programmaticStreamSerializationAllowed = 1;
    attribute
}

fn clustered(blocks: u32) -> CUlaunchAttribute {
    let mut attribute =
        CUlaunchAttribute { id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..Default::default() };
    attribute.value.clusterDim =
        CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 };
    attribute
}

fn replays_run_captured_kernels(rig: &Rig) {
    let kernels = Kernels::load(rig);
    rig.begin(rig.stream, THREAD_LOCAL);
    rig.fill_word(0, 10, rig.stream);
    assert_eq!(add(rig, &kernels, 1, rig.stream), 0);
    assert_eq!(add(rig, &kernels, 100, rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    assert_eq!(rig.shape(graph), "2 0 0 | 0>1 1>2");
    let exec = rig.instantiate(graph);
    for round in 1..=2 {
        ok!(rig, cuGraphLaunch(exec, rig.stream));
        rig.sync(rig.stream);
        assert_eq!(
            [0, 1, 3, 4].map(|word| rig.read_word(word)),
            [111, 101 * round, 101 * round, 0]
        );
    }

    // The node tells its parameters, and an executable takes others.
    let node = rig.nodes(graph)[1];
    let mut params = CUDA_KERNEL_NODE_PARAMS_v2::default();
    ok!(rig, cuGraphKernelNodeGetParams_v2(node, &mut params));
    assert_eq!((params.func, params.gridDimX, params.blockDimX), (kernels.add, 1, 4));
    let second = params.kernelParams.wrapping_add(1);
    // SAFETY: the driver gave a pointer to each argument, which live as long as the node.
    let by = unsafe { second.read() };
    // SAFETY: as above.
    assert_eq!(unsafe { by.cast::<u32>().read() }, 1);
    let mut arguments = Arguments { words: rig.buffer, by: 5 };
    let mut pointers = arguments.pointers();
    params.kernelParams = pointers.as_mut_ptr();
    params.blockDimX = 1;
    ok!(rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!([0, 1].map(|word| rig.read_word(word)), [115, 302]);
    params.gridDimX = 0;
    assert_eq!(cu!(rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params)), 1);
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuModuleUnload(kernels.module));
}

fn kernel_nodes_by_hand(rig: &Rig) {
    let kernels = Kernels::load(rig);
    let graph = rig.new_graph();
    let mut arguments = Arguments { words: rig.buffer, by: 3 };
    let mut pointers = arguments.pointers();
    let mut params = CUDA_KERNEL_NODE_PARAMS_v1 {
        func: kernels.add,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 2,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: pointers.as_mut_ptr(),
        ..Default::default()
    };
    let (mut first, mut second) = (null_mut(), null_mut());
    ok!(rig, cuGraphAddKernelNode(&mut first, graph, null(), 0, &params));
    let mut arguments = Arguments { words: rig.buffer, by: 20 };
    let mut pointers = arguments.pointers();
    params.kernelParams = pointers.as_mut_ptr();
    ok!(rig, cuGraphAddKernelNode(&mut second, graph, &first, 1, &params));
    let mut end = [std::ptr::null_mut::<c_void>()];
    params.extra = end.as_mut_ptr();
    let mut both = null_mut();
    // Where pointers and a list are given, the list does not count.
    ok!(rig, cuGraphAddKernelNode(&mut both, graph, null(), 0, &params));
    ok!(rig, cuGraphDestroyNode(both));
    let data = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
    let mut third = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut third, graph, null(), 0));
    let codes = [
        cu!(rig, cuGraphAddDependencies_v2(graph, &first, &third, &data, 1)),
        cu!(rig, cuGraphRemoveDependencies(graph, &first, &second, 1)),
        cu!(rig, cuGraphAddDependencies_v2(graph, &first, &second, &data, 1)),
    ];
    assert_eq!((codes, rig.shape(graph).as_str()), ([1, 0, 0], "0 0 5 | 0>1(1,1)"));
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    // The second kernel does not wait for what the first wrote: a GPU may have the one or the other.
    rig.on_simulation(|_| {
        assert_eq!([0, 1, 2].map(|word| rig.read_word(word)), [23, 23, 0]);
    });
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuModuleUnload(kernels.module));
}

fn programmatic_serialization_shows_in_the_edges(rig: &Rig) {
    let kernels = Kernels::load(rig);
    let mut attribute = serialized();
    let config = config(rig.stream, &mut attribute);
    let overlapped = || cu!(rig, cuLaunchKernelEx(&config, kernels.idle, null_mut(), null_mut()));
    rig.begin(rig.stream, THREAD_LOCAL);
    assert_eq!(add(rig, &kernels, 1, rig.stream), 0);
    assert_eq!(overlapped(), 0);
    assert_eq!(add(rig, &kernels, 1, rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    assert_eq!(rig.shape(graph), "0 0 0 | 0>1(1,1) 1>2");
    let (mut from, mut to, mut count) = ([null_mut(); 9], [null_mut(); 9], 9);
    let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
    assert_eq!(cu!(rig, cuGraphGetEdges(graph, from, to, &mut count)), 402);
    assert_eq!(cu!(rig, cuGraphGetEdges_v2(graph, from, to, null_mut(), &mut count)), 402);
    ok!(rig, cuGraphDestroy(graph));
    rig.begin(rig.stream, THREAD_LOCAL);
    assert_eq!(rig.fill(rig.stream), 0);
    assert_eq!(overlapped(), 0);
    let graph = rig.end_good(rig.stream);
    assert_eq!(rig.shape(graph), "2 0 | 0>1", "after a fill there is nothing to overlap with");
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuModuleUnload(kernels.module));
}

/// What a driver (13.0, on an H200) answered to launches: outside a capture, and inside with the
/// status, the code of the end and the nodes.
fn bad_launches_break_the_capture_or_not(rig: &Rig) {
    let kernels = Kernels::load(rig);
    let (s, none) = (rig.stream, null_mut());
    let mut arguments = Arguments { words: rig.buffer, by: 0 };
    let mut pointers = arguments.pointers();
    let some = pointers.as_mut_ptr();
    let check = |name: &str, code: u32, inside: (u32, u32, usize), call: &dyn Fn() -> u32| {
        assert_eq!(call(), code, "{name}");
        rig.sync(s);
        rig.begin(s, THREAD_LOCAL);
        assert_eq!(call(), code, "{name}");
        let status = rig.status(s);
        let (end, nodes) = rig.end_and_count(s);
        assert_eq!((status, end, nodes), inside, "{name}");
    };
    let broken = (2, 901, 0);
    let launch = |grid: [u32; 3], block: [u32; 3], shared| {
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let function = kernels.add;
        cu!(rig, cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, s, some, none))
    };
    let one = [1, 1, 1];
    check("no blocks", 1, broken, &|| launch([0, 1, 1], one, 0));
    check("too many blocks", 1, broken, &|| launch([1, 65_536, 1], one, 0));
    check("far too many blocks", 1, broken, &|| launch([1 << 31, 1, 1], one, 0));
    check("no threads", 1, broken, &|| launch(one, [0, 1, 1], 0));
    check("too many threads", 1, broken, &|| launch(one, [2048, 1, 1], 0));
    check("too deep a block", 1, broken, &|| launch(one, [1, 1, 65], 0));
    check("too much memory", 1, broken, &|| launch(one, one, 49_153));
    check("far too much memory", 1, broken, &|| launch(one, one, 300_000));
    let with = |function, params, extra| {
        cu!(rig, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, params, extra))
    };
    check("no function", 400, (1, 0, 0), &|| with(null_mut(), some, none));
    check("no parameters", 1, (1, 0, 0), &|| with(kernels.add, none, none));
    let end = std::cell::Cell::new([std::ptr::null_mut::<c_void>()]);
    check("both kinds", 0, (1, 0, 1), &|| with(kernels.add, some, end.as_ptr().cast()));
    let cooperative = |blocks, threads| {
        let function = kernels.add;
        cu!(rig, cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, 0, s, some))
    };
    check("too many cooperate", 720, broken, &|| cooperative(1_000_000, 256));
    check("cooperate", 0, (1, 0, 1), &|| cooperative(1, 32));
    let extended = |mut attribute: CUlaunchAttribute, blocks| {
        let mut config = config(s, &mut attribute);
        config.gridDimX = blocks;
        cu!(rig, cuLaunchKernelEx(&config, kernels.idle, none, none))
    };
    check("clusters that do not divide", 912, broken, &|| extended(clustered(3), 4));
    check("clusters", 0, (1, 0, 1), &|| extended(clustered(2), 4));
    check("clusters too large", 912, broken, &|| extended(clustered(16), 16));
    check("overlap", 0, (1, 0, 1), &|| extended(serialized(), 4));
    ok!(rig, cuModuleUnload(kernels.module));
}

fn a_kernel_of_another_context_is_refused_and_the_capture_survives(rig: &Rig) {
    let other = rig.new_context();
    let (theirs, their_stream) = rig.in_context(other, || (Kernels::load(rig), rig.new_stream(1)));
    let ours = Kernels::load(rig);
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(add(rig, &theirs, 1, rig.stream), 400);
    assert_eq!(rig.end_and_count(rig.stream), (0, 0));
    // A graph runs on a stream of another context.
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(add(rig, &ours, 1, rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, their_stream));
    rig.sync(their_stream);
    assert_eq!(rig.read_word(0), 1);
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuStreamDestroy_v2(their_stream));
    ok!(rig, cuModuleUnload(theirs.module));
    ok!(rig, cuModuleUnload(ours.module));
    ok!(rig, cuCtxDestroy_v2(other));
}

fn captures_bar_the_end_of_modules_alone(rig: &Rig) {
    let kernels = Kernels::load(rig);
    let s = rig.stream;
    for (mode, own) in [(GLOBAL, true), (THREAD_LOCAL, true), (RELAXED, false)] {
        for thread in [None, Some(GLOBAL), Some(THREAD_LOCAL), Some(RELAXED)] {
            let barred = match thread {
                None => own,
                Some(thread) => mode == GLOBAL && thread == GLOBAL,
            };
            let run = |call: &(dyn Fn() -> u32 + Sync)| match thread {
                None => call(),
                Some(thread) => rig.elsewhere(thread, call),
            };
            let (module, function) = (kernels.module.addr(), kernels.idle.addr());
            let module = move || std::ptr::without_provenance_mut(module);
            let function = move || std::ptr::without_provenance_mut(function);
            let loaded = std::sync::atomic::AtomicUsize::new(0);
            rig.begin(s, mode);
            let load = || {
                let mut module = null_mut();
                let code = cu!(rig, cuModuleLoadData(&mut module, PTX.as_ptr().cast()));
                loaded.store(module.addr(), std::sync::atomic::Ordering::SeqCst);
                code
            };
            assert_eq!(run(&load), 0);
            let get = || {
                let mut found = null_mut();
                cu!(rig, cuModuleGetFunction(&mut found, module(), c"idle".as_ptr()))
            };
            assert_eq!(run(&get), 0);
            let set = || {
                let what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                cu!(rig, cuFuncSetAttribute(function(), what, 1024))
            };
            assert_eq!(run(&set), 0);
            let ask = || {
                let mut blocks = 0;
                let f = function();
                cu!(rig, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, f, 32, 0))
            };
            assert_eq!(run(&ask), 0);
            assert_eq!(rig.status(s), 1);
            let loaded = || {
                let loaded = loaded.load(std::sync::atomic::Ordering::SeqCst);
                std::ptr::without_provenance_mut(loaded)
            };
            let unload = || cu!(rig, cuModuleUnload(loaded()));
            let code = run(&unload);
            let status = rig.status(s);
            let (end, _) = rig.end_and_count(s);
            let expected = if barred { (900, 2, 901) } else { (0, 1, 0) };
            assert_eq!((code, status, end), expected, "mode {mode}, thread {thread:?}");
            if barred {
                ok!(rig, cuModuleUnload(loaded()));
            }
        }
    }
    ok!(rig, cuModuleUnload(kernels.module));
}

fn a_kernel_is_captured_without_a_current_context_and_modules_pass_a_relaxed_guard(rig: &Rig) {
    let kernels = Kernels::load(rig);
    ok!(rig, cuCtxSetCurrent(null_mut()));
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(add(rig, &kernels, 1, rig.stream), 0);
    assert_eq!(rig.end_and_count(rig.stream), (0, 1));
    ok!(rig, cuCtxSetCurrent(rig.context));
    rig.begin(rig.stream, GLOBAL);
    rig.exchange(RELAXED);
    ok!(rig, cuModuleUnload(Kernels::load(rig).module));
    rig.exchange(GLOBAL);
    assert_eq!(rig.end_and_count(rig.stream), (0, 0));
    ok!(rig, cuModuleUnload(kernels.module));
}

#[test]
fn sim_a_launch_of_a_kernel_that_is_gone_is_told() {
    let rig = &Rig::on(Subject::simulated());
    let kernels = Kernels::load(rig);
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(add(rig, &kernels, 1, rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    ok!(rig, cuModuleUnload(kernels.module));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert_eq!(cu!(rig, cuStreamSynchronize(rig.stream)), 719);
    rig.on_simulation(|sim| {
        let told = sim.last_fault().expect("a fault");
        assert!(told.contains("unloaded"), "{told}");
    });
}

/// For the simulated driver alone: a real one (13.0, beside an H200) crashes, also with the context
/// in the parameters.
fn dangerous_kernel_nodes_without_a_context(rig: &Rig) {
    let kernels = Kernels::load(rig);
    let graph = rig.new_graph();
    let mut arguments = Arguments { words: rig.buffer, by: 3 };
    let mut pointers = arguments.pointers();
    let params = CUDA_KERNEL_NODE_PARAMS_v2 {
        func: kernels.add,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 2,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: pointers.as_mut_ptr(),
        ctx: rig.context,
        ..Default::default()
    };
    let none = null::<CUgraphNode>();
    let node = make!(rig, cuGraphAddKernelNode_v2(graph, none, 0, &params));
    let exec = rig.instantiate(graph);
    ok!(rig, cuCtxSetCurrent(null_mut()));
    let codes = [
        cu!(rig, cuGraphAddKernelNode_v2(&mut null_mut(), graph, none, 0, &params)),
        cu!(rig, cuGraphKernelNodeSetParams_v2(node, &params)),
        cu!(rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params)),
    ];
    ok!(rig, cuCtxSetCurrent(rig.context));
    assert_eq!((codes, rig.nodes(graph).len()), ([201; 3], 1));
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuModuleUnload(kernels.module));
}
