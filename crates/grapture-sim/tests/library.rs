//! The shared library that stands in for `libcuda.so.1`, loaded as a program would load it.
#![cfg(target_os = "linux")]

mod common;

use core::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::OnceLock;

use grapture_sys::*;

/// Tells the test that runs as a child where the library is.
const PATH: &str = "GRAPTURE_SIM_TEST_LIBRARY";

/// Builds the library once.
fn library() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("library");
        // Unoptimised: it is built for a few calls only.
        let quick = "profile.dev.package.grapture-sim.opt-level=0";
        let arguments = ["rustc", "--quiet", "--lib", "--features", "export", "--config", quick];
        let status = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(arguments)
            .args(["--crate-type", "cdylib", "--offline", "--target-dir"])
            .arg(&target)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the library does not build");
        target.join("debug/libgrapture_sim.so")
    })
}

/// Runs a test of this file in a process of its own, in an environment.
fn child(test: &str, environment: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(PATH, library())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn load() -> Result<Driver, LoadError> {
    let path = std::env::var(PATH).unwrap();
    // SAFETY: the library is the one that this test built, which exports the driver API.
    unsafe { Driver::load_from(path) }
}

#[test]
fn it_is_a_driver_that_the_environment_configures() {
    child("child_runs_a_kernel", &[]);
    child("child_asks_before_the_start", &[]);
    child("child_has_streams_per_thread", &[]);
    child("child_has_no_device", &[("GRAPTURE_SIM_DEVICES", "0")]);
    let old = [("GRAPTURE_SIM_DRIVER_VERSION", "11020"), ("GRAPTURE_SIM_MEMORY", "1048576")];
    child("child_is_old_and_small", &old);
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("library.trace");
    let described = [
        ("GRAPTURE_SIM_DEVICE_NAME", "Named"),
        ("GRAPTURE_SIM_CAPABILITY", "75"),
        ("GRAPTURE_SIM_FAIL", "cuCtxSynchronize@2=999"),
        ("GRAPTURE_SIM_TRACE", trace.to_str().unwrap()),
    ];
    child("child_is_described_and_fails", &described);
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.contains("cuCtxSynchronize() = 999 CUDA_ERROR_UNKNOWN"), "{text}");
    std::fs::remove_file(trace).unwrap();
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_runs_a_kernel() {
    let driver = load().unwrap();
    assert_eq!(driver.version(), 13_000);
    let context: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let text = std::ffi::CString::new(common::PTX).unwrap();
    let module: CUmodule = make!(driver, cuModuleLoadData(text.as_ptr().cast()));
    let k: CUfunction = make!(driver, cuModuleGetFunction(module, c"k".as_ptr()));
    let (mut buffer, mut seven): (CUdeviceptr, _) = (make!(driver, cuMemAlloc_v2(4)), 7_u32);
    assert_eq!(call!(driver, cuMemsetD32_v2(buffer, 1, 1)), 0);
    let mut params: [*mut c_void; 2] = [(&raw mut buffer).cast(), (&raw mut seven).cast()];
    let params = params.as_mut_ptr();
    let none = null_mut();
    let stream: CUstream = null_mut();
    assert_eq!(call!(driver, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, params, none)), 0);
    let mut value = 0_u32;
    let out = (&raw mut value).cast();
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(out, buffer, 4)), 0);
    assert_eq!(value, 8);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_asks_before_the_start() {
    let path = std::env::var(PATH).unwrap();
    // SAFETY: the library is the one that this test built.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    // SAFETY: the library exports the function with this signature.
    let count =
        unsafe { library.get::<unsafe extern "C" fn(*mut i32) -> CUresult>(b"cuDeviceGetCount\0") };
    let mut devices = 9;
    // SAFETY: the out-pointer is a live local.
    let code = unsafe { count.unwrap()(&mut devices) };
    assert_eq!((code.0, devices), (3, 9));
    // SAFETY: the library exports the function with this signature.
    let init =
        unsafe { library.get::<unsafe extern "C" fn(u32) -> CUresult>(b"cuInit\0") }.unwrap();
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init(1) }.0, 1);
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init(0) }.0, 0);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_has_streams_per_thread() {
    let driver = load().unwrap();
    let context: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let id = |flags| {
        let mut address = null_mut();
        let mut status = CUdriverProcAddressQueryResult(9);
        let name = c"cuStreamGetId".as_ptr();
        let code =
            call!(driver, cuGetProcAddress_v2(name, &mut address, 12_000, flags, &mut status));
        assert_eq!((code, status.0), (0, 0));
        type GetId = unsafe extern "C" fn(CUstream, *mut u64) -> CUresult;
        // SAFETY: the driver gave the address of the function of this name.
        let get_id = unsafe { std::mem::transmute::<*mut c_void, GetId>(address) };
        let mut id = 0;
        // SAFETY: the out-pointer is a live local.
        assert_eq!(unsafe { get_id(null_mut(), &mut id) }.0, 0);
        id
    };
    let mut per_thread = 0;
    let handle = std::ptr::without_provenance_mut(2);
    assert_eq!(call!(driver, cuStreamGetId(handle, &mut per_thread)), 0);
    assert_eq!(id(2), per_thread);
    assert_ne!(id(0), per_thread);
    // A program that is compiled for such a null stream is linked with other names.
    let path = std::env::var(PATH).unwrap();
    // SAFETY: the library is the one that this test built.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    type GetId = unsafe extern "C" fn(CUstream, *mut u64) -> CUresult;
    for name in [b"cuStreamGetId_ptsz\0", b"cuStreamGetId_ptds\0"] {
        // SAFETY: the library exports the function with this signature.
        let get_id = unsafe { library.get::<GetId>(name) }.unwrap();
        let mut id = 0;
        // SAFETY: the out-pointer is a live local.
        assert_eq!(unsafe { get_id(null_mut(), &mut id) }.0, 0);
        assert_eq!(id, per_thread);
    }
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_is_described_and_fails() {
    let driver = load().unwrap();
    let mut name = [0; 16];
    assert_eq!(call!(driver, cuDeviceGetName(name.as_mut_ptr(), 16, 0)), 0);
    assert_eq!(&name.map(|c| c as u8)[..6], b"Named\0");
    let (mut major, mut minor) = (0, 0);
    assert_eq!(call!(driver, cuDeviceComputeCapability(&mut major, &mut minor, 0)), 0);
    assert_eq!((major, minor), (7, 5));
    let context: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let codes = [(); 3].map(|()| call!(driver, cuCtxSynchronize()));
    assert_eq!(codes, [0, 999, 0]);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_has_no_device() {
    let LoadError::Init { code, .. } = load().unwrap_err() else { panic!("another error") };
    assert_eq!(code, CUDA_ERROR_NO_DEVICE);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_is_old_and_small() {
    let driver = load().unwrap();
    assert_eq!(driver.version(), 11_020);
    let mut bytes = 0;
    assert_eq!(call!(driver, cuDeviceTotalMem_v2(&mut bytes, 0)), 0);
    assert_eq!(bytes, 1 << 20);
    let mut id = 0;
    assert_eq!(call!(driver, cuCtxGetId(null_mut(), &mut id)), 801);
}
