//! Launches in clusters: where in its cluster each block is.

mod common;

use common::Setup;
use grapture_sys::*;

/// Each block writes its place in the grid, and what it knows of its cluster.
const KERNELS: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry asks(.param .u64 p) {
 .reg .b64 %rd<4>; .reg .b32 %r<9>;
 ld.param.u64 %rd1,[p]; cvta.to.global.u64 %rd1,%rd1;
 mov.u32 %r1,%ctaid.x; mov.u32 %r2,%ctaid.y; mov.u32 %r3,%nctaid.x;
 mad.lo.u32 %r4,%r2,%r3,%r1; mul.wide.u32 %rd2,%r4,32; add.u64 %rd1,%rd1,%rd2;
 mov.u32 %r5,%clusterid.x; st.global.u32 [%rd1],%r5;
 mov.u32 %r5,%clusterid.y; st.global.u32 [%rd1+4],%r5;
 mov.u32 %r5,%cluster_ctaid.x; st.global.u32 [%rd1+8],%r5;
 mov.u32 %r5,%cluster_ctaid.y; st.global.u32 [%rd1+12],%r5;
 mov.u32 %r5,%cluster_ctarank; st.global.u32 [%rd1+16],%r5;
 mov.u32 %r5,%cluster_nctarank; st.global.u32 [%rd1+20],%r5;
 mov.u32 %r5,%nclusterid.x; st.global.u32 [%rd1+24],%r5;
 mov.u32 %r5,%cluster_nctaid.y; st.global.u32 [%rd1+28],%r5; ret; }
";

/// What the blocks of a grid of four by four write, in clusters of so many.
fn launch(setup: &Setup, [x, y]: [u32; 2]) -> Vec<[u32; 8]> {
    let function = setup.function(setup.module(KERNELS), "asks");
    let mut attribute =
        CUlaunchAttribute { id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..Default::default() };
    attribute.value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z: 1 };
    let config = CUlaunchConfig {
        gridDimX: 4,
        gridDimY: 4,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        attrs: &mut attribute,
        numAttrs: 1,
        ..Default::default()
    };
    let mut memory = setup.alloc(16 * 32);
    let mut arguments = [(&raw mut memory).cast()];
    let (list, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
    assert_eq!(call!(setup, cuLaunchKernelEx(&config, function, list, none)), 0);
    let words = setup.read::<u32>(memory, 16 * 8);
    words.chunks(8).map(|words| words.try_into().unwrap()).collect()
}

/// What a block is to write.
fn expected(block: [u32; 2], cluster: [u32; 2]) -> [u32; 8] {
    let [x, y] = [0, 1].map(|axis| block[axis] % cluster[axis]);
    [
        block[0] / cluster[0],
        block[1] / cluster[1],
        x,
        y,
        x + y * cluster[0],
        cluster[0] * cluster[1],
        4 / cluster[0],
        cluster[1],
    ]
}

#[test]
fn sim_a_block_knows_its_place_in_its_cluster() {
    let setup = Setup::new();
    for cluster in [[1, 1], [2, 1], [1, 4], [2, 2], [4, 2]] {
        let blocks = (0..16).map(|block| expected([block % 4, block / 4], cluster));
        assert_eq!(launch(&setup, cluster), blocks.collect::<Vec<_>>(), "{cluster:?}");
    }
}
