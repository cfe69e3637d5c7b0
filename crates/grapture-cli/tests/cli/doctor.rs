//! `grapture doctor`: what it says of a driver, and of none.

use crate::program::{grapture, run, simulated, without_driver};

#[test]
fn sim_the_simulated_driver_and_its_devices_are_described() {
    let ended = run(simulated().arg("doctor"));
    ended.printed(&["driver   ", "CUDA 1", "devices  0: ", "compute capability ", " GiB\n"]);
    ended.printed(&["stream capture                      10.0  yes\n"]);
}

#[test]
fn gpu_the_driver_and_its_devices_are_described() {
    let ended = run(grapture().arg("doctor"));
    ended.printed(&["driver   libcuda.so.1, CUDA 1", "devices  0: NVIDIA "]);
    ended.printed(&["stream capture                      10.0  yes\n"]);
}

#[test]
fn without_a_driver_each_reason_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(without_driver(folder.path()).arg("doctor"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let path = folder.path().display();
    let start = format!(
        "driver   none\n         libcuda.so.1: {path}/libcuda.so.1: file too short\n         \
         libcuda.so: {path}/libcuda.so: file too short\n         \
         GRAPTURE_DRIVER=sim selects the simulated driver\n\n\
         feature                            needs  here\n\
         stream capture                      10.0  no\n"
    );
    assert!(ended.output.starts_with(&start), "{}", ended.output);
    assert_eq!(ended.errors, "grapture: there is no CUDA driver to use\n");
}
