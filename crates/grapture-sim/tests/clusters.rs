//! Launches in clusters, which the interpreter does not know.

mod common;

use common::Setup;
use grapture_sys::*;

const KERNELS: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry asks(){ .reg .b32 %r; mov.u32 %r, %cluster_ctarank; ret; }
.visible .entry plain(){ .reg .b32 %r; mov.u32 %r, %ctaid.x; ret; }
";

/// The code of a launch of four blocks in clusters of so many.
fn launch(setup: &Setup, name: &str, blocks: u32) -> u32 {
    let function = setup.function(setup.module(KERNELS), name);
    let mut attribute =
        CUlaunchAttribute { id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..Default::default() };
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    let config = CUlaunchConfig {
        gridDimX: 4,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        attrs: &mut attribute,
        numAttrs: 1,
        ..Default::default()
    };
    let null = std::ptr::null_mut();
    call!(setup, cuLaunchKernelEx(&config, function, null, null))
}

#[test]
fn sim_a_kernel_that_asks_for_its_cluster_is_not_launched_in_one() {
    let setup = Setup::new();
    assert_eq!(launch(&setup, "asks", 1), 0);
    assert_eq!(launch(&setup, "asks", 2), 801);
    assert_eq!(launch(&setup, "plain", 2), 0);
    assert_eq!(call!(setup, cuCtxSynchronize()), 0);
}
