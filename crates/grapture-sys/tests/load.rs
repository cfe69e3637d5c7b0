//! The loader against fake drivers, each in a process of its own, and the exact text of each error.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fake driver's functions use no argument"
)]

mod fake;

use std::ptr::null_mut;

use fake::{Machine, on};
use grapture_sys::*;

#[test]
fn no_driver_names_each_library_that_was_tried() {
    on("no_driver_names_each_library_that_was_tried", Machine::without_driver, |_| {
        let error = Driver::load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no CUDA driver could be loaded: tried libcuda.so.1: cannot open shared object file: \
             No such file or directory; tried libcuda.so: cannot open shared object file: \
             No such file or directory"
        );
        assert_eq!(error.code(), CUDA_ERROR_NOT_INITIALIZED);
    });
}

#[test]
fn broken_library_is_named_with_its_fault() {
    let machine = |test: &str| Machine::with_files(test, b"not a library");
    on("broken_library_is_named_with_its_fault", machine, |folder| {
        let error = Driver::load().unwrap_err();
        let folder = folder.display();
        assert_eq!(
            error.to_string(),
            format!(
                "no CUDA driver could be loaded: tried libcuda.so.1: {folder}/libcuda.so.1: \
                 file too short; tried libcuda.so: {folder}/libcuda.so: file too short"
            )
        );
    });
}

#[test]
fn missing_path_is_named() {
    // SAFETY: there is nothing to load.
    let error = unsafe { Driver::load_from("/nowhere/libcuda.so.1") }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no CUDA driver could be loaded: tried /nowhere/libcuda.so.1: \
         cannot open shared object file: No such file or directory"
    );
}

#[test]
fn library_without_cu_init_is_no_driver() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=9020", "LOOKUP=0", "NO_INIT"]);
    on("library_without_cu_init_is_no_driver", machine, |_| {
        let error = Driver::load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "libcuda.so.1 is not a CUDA driver: it has no function cuInit"
        );
        assert_eq!(error.code(), CUDA_ERROR_NOT_INITIALIZED);
    });
}

#[test]
fn driver_without_a_device_says_so() {
    let machine =
        |test: &str| Machine::with_driver(test, &["VERSION=13000", "LOOKUP=2", "INIT=100"]);
    on("driver_without_a_device_says_so", machine, |_| {
        let error = Driver::load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the CUDA driver libcuda.so.1 was loaded, but cuInit failed: no CUDA device was found \
             (CUDA_ERROR_NO_DEVICE, 100); check `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set"
        );
        assert_eq!(error.code(), CUDA_ERROR_NO_DEVICE);
    });
}

#[test]
fn stub_library_says_so() {
    let machine =
        |test: &str| Machine::with_driver(test, &["VERSION=13000", "LOOKUP=2", "INIT=34"]);
    on("stub_library_says_so", machine, |_| {
        let error = Driver::load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the CUDA driver libcuda.so.1 was loaded, but cuInit failed: the library that was loaded \
             is a stub of the driver (CUDA_ERROR_STUB_LIBRARY, 34); take the toolkit's folder `stubs` \
             out of the library search path"
        );
        assert_eq!(error.code(), CUDA_ERROR_STUB_LIBRARY);
    });
}

#[test]
fn unknown_code_of_cu_init_is_shown_as_a_number() {
    let machine =
        |test: &str| Machine::with_driver(test, &["VERSION=13000", "LOOKUP=2", "INIT=4711"]);
    on("unknown_code_of_cu_init_is_shown_as_a_number", machine, |_| {
        let error = Driver::load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the CUDA driver libcuda.so.1 was loaded, but cuInit failed: error 4711"
        );
        assert_eq!(error.code(), CUresult(4711));
    });
}

#[test]
fn driver_9_2_loads_and_answers_not_supported_to_capture() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=9020", "LOOKUP=0"]);
    on("driver_9_2_loads_and_answers_not_supported_to_capture", machine, |_| {
        let driver = Driver::load().unwrap();
        assert_eq!(driver.version(), 9020);
        assert_eq!(driver.origin(), &Origin::Library("libcuda.so.1".to_owned()));
        assert!(driver.has(Function::cuStreamCreate));
        assert!(!driver.has(Function::cuStreamBeginCapture_v2));
        let functions = driver.functions();
        let mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        let code = unsafe { (functions.cuStreamBeginCapture_v2)(null_mut(), mode) };
        assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
        let code = unsafe { (functions.cuStreamEndCapture)(null_mut(), null_mut()) };
        assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(Function::cuStreamBeginCapture_v2.info().since, 10010);
    });
}

#[test]
fn driver_10_1_is_resolved_by_its_exported_symbols() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=10010", "LOOKUP=0"]);
    on("driver_10_1_is_resolved_by_its_exported_symbols", machine, |_| {
        let driver = Driver::load().unwrap();
        assert_eq!(begin_capture_v2(&driver), 10010);
        assert_eq!(capture_info_v1(&driver), 10010);
        assert!(!driver.has(Function::cuStreamGetCaptureInfo_v2));
    });
}

#[test]
fn one_missing_function_disables_nothing_else() {
    let macros = ["VERSION=13000", "LOOKUP=2", "WITHOUT_cuGraphLaunch"];
    let machine = |test: &str| Machine::with_driver(test, &macros);
    on("one_missing_function_disables_nothing_else", machine, |_| {
        let driver = Driver::load().unwrap();
        assert!(!driver.has(Function::cuGraphLaunch));
        let launch = driver.functions().cuGraphLaunch;
        assert_eq!(unsafe { launch(null_mut(), null_mut()) }, CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(instantiate_with_flags(&driver), 11040);
        assert_eq!(begin_capture_v2(&driver), 10010);
        let missing: Vec<_> = driver.missing().iter().collect();
        assert!(missing.contains(&Function::cuGraphLaunch));
        assert!(!missing.contains(&Function::cuStreamCreate));
    });
}

#[test]
fn driver_13_0_gives_each_abi_at_its_pinned_version() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=13000", "LOOKUP=2"]);
    on("driver_13_0_gives_each_abi_at_its_pinned_version", machine, |_| {
        let driver = Driver::load().unwrap();
        assert_eq!(begin_capture_v1(&driver), 10000);
        assert_eq!(begin_capture_v2(&driver), 10010);
        assert_eq!(capture_info_v1(&driver), 10010);
        assert_eq!(capture_info_v2(&driver), 11030);
        assert_eq!(capture_info_v3(&driver), 12030);
    });
}

#[test]
fn the_name_of_the_old_instantiate_never_stands_for_the_new_one() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=13000", "LOOKUP=2"]);
    on("the_name_of_the_old_instantiate_never_stands_for_the_new_one", machine, |_| {
        let driver = Driver::load().unwrap();
        assert_eq!(instantiate_with_flags(&driver), 11040);
        assert_eq!(instantiate_v2(&driver), 11000);
    });
}

#[test]
fn driver_11_3_is_asked_through_the_first_lookup() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=11030", "LOOKUP=1"]);
    on("driver_11_3_is_asked_through_the_first_lookup", machine, |_| {
        let driver = Driver::load().unwrap();
        assert_eq!(capture_info_v2(&driver), 11030);
        // Only the lookup knows this one.
        let host = driver.functions().cuLaunchHostFunc;
        assert_eq!(unsafe { host(null_mut(), None, null_mut()) }, CUresult(10001));
        assert!(!driver.has(Function::cuGraphInstantiateWithFlags));
    });
}

#[test]
fn a_newer_abi_is_never_asked_of_an_older_driver() {
    // It would answer with its newest ABI of the name, which takes other arguments.
    for (test, macros) in
        [("v1", ["VERSION=11030", "LOOKUP=1"]), ("v2", ["VERSION=12000", "LOOKUP=2"])]
    {
        let name = "a_newer_abi_is_never_asked_of_an_older_driver";
        let machine = |name: &str| Machine::with_driver(&format!("{name}_{test}"), &macros);
        on(name, machine, |_| {
            let driver = Driver::load().unwrap();
            assert!(!driver.has(Function::cuStreamGetCaptureInfo_v3));
            assert_eq!(capture_info_v3(&driver), 801);
            assert_eq!(capture_info_v2(&driver), 11030);
        });
    }
}

#[test]
fn load_from_takes_a_path() {
    let machine = |test: &str| Machine::with_driver(test, &["VERSION=12000", "LOOKUP=2"]);
    on("load_from_takes_a_path", machine, |folder| {
        let path = folder.join("libcuda.so.1");
        // SAFETY: it is the fake driver.
        let driver = unsafe { Driver::load_from(&path) }.unwrap();
        assert_eq!(driver.origin().to_string(), path.display().to_string());
        assert!(driver.same(&driver.clone()));
        assert!(!driver.same(&Driver::load().unwrap()));
    });
}

fn begin_capture_v1(driver: &Driver) -> u32 {
    unsafe { (driver.functions().cuStreamBeginCapture)(null_mut()) }.0
}

fn begin_capture_v2(driver: &Driver) -> u32 {
    let begin = driver.functions().cuStreamBeginCapture_v2;
    unsafe { begin(null_mut(), CU_STREAM_CAPTURE_MODE_GLOBAL) }.0
}

fn capture_info_v1(driver: &Driver) -> u32 {
    unsafe { (driver.functions().cuStreamGetCaptureInfo)(null_mut(), null_mut(), null_mut()) }.0
}

fn capture_info_v2(driver: &Driver) -> u32 {
    let info = driver.functions().cuStreamGetCaptureInfo_v2;
    unsafe { info(null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), null_mut()) }.0
}

fn capture_info_v3(driver: &Driver) -> u32 {
    let info = driver.functions().cuStreamGetCaptureInfo_v3;
    let none = null_mut();
    unsafe { info(none, null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), null_mut()) }.0
}

fn instantiate_with_flags(driver: &Driver) -> u32 {
    unsafe { (driver.functions().cuGraphInstantiateWithFlags)(null_mut(), null_mut(), 0) }.0
}

fn instantiate_v2(driver: &Driver) -> u32 {
    let instantiate = driver.functions().cuGraphInstantiate_v2;
    unsafe { instantiate(null_mut(), null_mut(), null_mut(), null_mut(), 0) }.0
}
