//! What the cases about conditional nodes are built of: kernels that count and that steer.

use std::ffi::c_void;
use std::ptr::null;

use grapture_sys::*;

use crate::rig::Rig;

pub const IF: CUgraphConditionalNodeType = CU_GRAPH_COND_TYPE_IF;
pub const WHILE: CUgraphConditionalNodeType = CU_GRAPH_COND_TYPE_WHILE;
pub const SWITCH: CUgraphConditionalNodeType = CU_GRAPH_COND_TYPE_SWITCH;

/// `add` adds a number to a word, `push` appends a digit to it, `set` gives a handle a value, and
/// `count` adds one to a word and gives a handle whether it is still less than a number.
const PTX: &str = "\
.version 6.3
.target sm_52
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 h, .param .b32 v);
.visible .entry add(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<2>; .reg .b32 %r<3>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n];
 ld.global.u32 %r2,[%rd1]; add.u32 %r2,%r2,%r1; st.global.u32 [%rd1],%r2; ret;}
.visible .entry push(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<2>; .reg .b32 %r<3>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n];
 ld.global.u32 %r2,[%rd1]; mad.lo.u32 %r2,%r2,10,%r1; st.global.u32 [%rd1],%r2; ret;}
.visible .entry set(.param .u64 h, .param .u32 v){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[h]; ld.param.u32 %r1,[v];
 { .param .b64 a; st.param.b64 [a+0],%rd1; .param .b32 b; st.param.b32 [b+0],%r1;
 call.uni cudaGraphSetConditional,(a,b); } ret;}
.visible .entry count(.param .u64 h, .param .u64 p, .param .u32 n){
 .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %q;
 ld.param.u64 %rd1,[h]; ld.param.u64 %rd2,[p]; ld.param.u32 %r1,[n];
 ld.global.u32 %r2,[%rd2]; add.u32 %r2,%r2,1; st.global.u32 [%rd2],%r2;
 setp.lt.u32 %q,%r2,%r1; selp.u32 %r3,1,0,%q;
 { .param .b64 a; st.param.b64 [a+0],%rd1; .param .b32 b; st.param.b32 [b+0],%r3;
 call.uni cudaGraphSetConditional,(a,b); } ret;}
";

/// The kernels of a rig.
pub struct Steering<'r> {
    rig: &'r Rig,
    module: CUmodule,
    pub add: CUfunction,
    pub push: CUfunction,
    pub set: CUfunction,
    pub count: CUfunction,
}

impl Drop for Steering<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            ok!(self.rig, cuModuleUnload(self.module));
        }
    }
}

impl<'r> Steering<'r> {
    pub fn new(rig: &'r Rig) -> Steering<'r> {
        let module = rig.module(PTX);
        let [add, push, set, count] =
            ["add", "push", "set", "count"].map(|name| rig.function(module, name));
        Steering { rig, module, add, push, set, count }
    }

    fn word(&self, word: usize) -> u64 {
        self.rig.buffer + 4 * word as u64
    }

    /// A node that adds to a word.
    pub fn adds(&self, graph: CUgraph, after: &[CUgraphNode], word: usize, n: u32) -> CUgraphNode {
        let (mut word, mut n) = (self.word(word), n);
        self.node(graph, after, self.add, &mut [(&raw mut word).cast(), (&raw mut n).cast()])
    }

    /// A node that appends a digit to a word.
    pub fn pushes(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        word: usize,
        n: u32,
    ) -> CUgraphNode {
        let (mut word, mut n) = (self.word(word), n);
        self.node(graph, after, self.push, &mut [(&raw mut word).cast(), (&raw mut n).cast()])
    }

    /// A node that gives a handle a value.
    pub fn sets(&self, graph: CUgraph, after: &[CUgraphNode], handle: u64, n: u32) -> CUgraphNode {
        let (mut handle, mut n) = (handle, n);
        self.node(graph, after, self.set, &mut [(&raw mut handle).cast(), (&raw mut n).cast()])
    }

    /// A node that counts in a word and gives a handle whether to go on below a limit.
    pub fn counts(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        handle: u64,
        (word, limit): (usize, u32),
    ) -> CUgraphNode {
        let (mut handle, mut word, mut limit) = (handle, self.word(word), limit);
        let arguments: [*mut c_void; 3] =
            [(&raw mut handle).cast(), (&raw mut word).cast(), (&raw mut limit).cast()];
        self.node(graph, after, self.count, &mut { arguments })
    }

    fn node(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        func: CUfunction,
        arguments: &mut [*mut c_void],
    ) -> CUgraphNode {
        let params = kernel(func, arguments);
        make!(self.rig, cuGraphAddKernelNode_v2(graph, after.as_ptr(), after.len(), &params))
    }

    /// Launches, waits and reads the first words, which were zero before.
    pub fn run<const N: usize>(&self, exec: CUgraphExec) -> [u32; N] {
        ok!(self.rig, cuMemsetD8Async(self.rig.buffer, 0, 64, self.rig.stream));
        self.again(exec)
    }

    /// As [`run`](Steering::run), with the words as they are.
    pub fn again<const N: usize>(&self, exec: CUgraphExec) -> [u32; N] {
        ok!(self.rig, cuGraphLaunch(exec, self.rig.stream));
        self.rig.sync(self.rig.stream);
        self.rig.read(self.rig.buffer, N).try_into().expect("as many words")
    }
}

/// One thread of a kernel.
pub fn kernel(func: CUfunction, arguments: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS_v2 {
    CUDA_KERNEL_NODE_PARAMS_v2 {
        func,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: arguments.as_mut_ptr(),
        ..Default::default()
    }
}

/// A handle that each launch gives this value.
pub fn handle(rig: &Rig, graph: CUgraph, default: u32) -> u64 {
    make!(rig, cuGraphConditionalHandleCreate(graph, rig.context, default, 1))
}

/// The parameters of a conditional node.
pub fn conditional(
    rig: &Rig,
    handle: u64,
    kind: CUgraphConditionalNodeType,
    size: u32,
) -> CUgraphNodeParams {
    let mut params =
        CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_CONDITIONAL, ..Default::default() };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size,
        ctx: rig.context,
        ..Default::default()
    };
    params
}

/// Adds a node: the code and the node.
pub fn add(
    rig: &Rig,
    graph: CUgraph,
    after: &[CUgraphNode],
    params: &mut CUgraphNodeParams,
) -> (u32, CUgraphNode) {
    let mut node = std::ptr::null_mut();
    let (list, count) = (after.as_ptr(), after.len());
    (cu!(rig, cuGraphAddNode_v2(&mut node, graph, list, null(), count, params)), node)
}

/// The bodies of a node that was added.
pub fn bodies<const N: usize>(params: &CUgraphNodeParams) -> [CUgraph; N] {
    // SAFETY: the parameters are those of a conditional node.
    let conditional = unsafe { params.__bindgen_anon_1.conditional };
    assert!(conditional.size as usize == N && !conditional.phGraph_out.is_null(), "not added");
    // SAFETY: the node was added, so that the driver made the array of so many bodies, which lives
    // as long as the node.
    unsafe { *conditional.phGraph_out.cast() }
}

/// Adds a conditional node of `N` bodies.
pub fn branch<const N: usize>(
    rig: &Rig,
    graph: CUgraph,
    after: &[CUgraphNode],
    handle: u64,
    kind: CUgraphConditionalNodeType,
) -> (CUgraphNode, [CUgraph; N]) {
    let mut params = conditional(rig, handle, kind, N as u32);
    let (code, node) = add(rig, graph, after, &mut params);
    assert_eq!(code, 0, "cuGraphAddNode");
    (node, bodies(&params))
}

/// The code and the result of an instantiation, and the kind of the node that it names.
pub fn instantiation(rig: &Rig, graph: CUgraph) -> (u32, u32, Option<u32>) {
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    let mut exec = std::ptr::null_mut();
    let code = cu!(rig, cuGraphInstantiateWithParams(&mut exec, graph, &mut params));
    if code == 0 {
        ok!(rig, cuGraphExecDestroy(exec));
    }
    let node = (!params.hErrNode_out.is_null()).then(|| rig.kind(params.hErrNode_out));
    (code, params.result_out.0, node)
}
