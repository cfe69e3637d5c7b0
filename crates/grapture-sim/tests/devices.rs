//! Devices and drivers as a configuration describes them.

mod common;

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use common::Setup;
use grapture_sim::{DeviceConfig, SimConfig, Simulation};
use grapture_sys::*;

fn name_of(t: &Setup, device: i32) -> String {
    let mut name = [0; 64];
    assert_eq!(call!(t, cuDeviceGetName(name.as_mut_ptr(), 64, device)), 0);
    let bytes: Vec<u8> = name.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_owned()
}

fn attribute(t: &Setup, attribute: CUdevice_attribute, device: i32) -> i32 {
    make!(t, cuDeviceGetAttribute(attribute, device))
}

#[test]
fn devices_are_as_they_were_described() {
    let every = DeviceConfig::new().name("Every").memory_bytes(1 << 20);
    let second = DeviceConfig::new()
        .name("Second")
        .compute_capability(7, 5)
        .memory_bytes(1 << 16)
        .attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 7);
    let config = SimConfig::new().devices(3).every_device(every).device(1, second);
    let t = Setup::with(config);
    assert_eq!([0, 1, 2].map(|device| name_of(&t, device)), ["Every", "Second", "Every"]);
    let memory = |device| -> usize { make!(t, cuDeviceTotalMem_v2(device)) };
    assert_eq!([0, 1, 2].map(memory), [1 << 20, 1 << 16, 1 << 20]);
    let major = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    let minor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    let capability = |device| (attribute(&t, major, device), attribute(&t, minor, device));
    assert_eq!([0, 1, 2].map(capability), [(9, 0), (7, 5), (9, 0)]);
    let count = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    assert_eq!([0, 1].map(|device| attribute(&t, count, device)), [132, 7]);
    let place = |device| attribute(&t, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device);
    assert_ne!(place(0), place(1));
}

#[test]
fn a_device_has_its_own_memory() {
    let small = DeviceConfig::new().memory_bytes(1 << 16);
    let t = Setup::with(SimConfig::new().devices(2).device(1, small));
    t.alloc(1 << 20);
    let other: CUcontext = make!(t, cuDevicePrimaryCtxRetain(1));
    assert_eq!(call!(t, cuCtxSetCurrent(other)), 0);
    let mut address = 0;
    assert_eq!(call!(t, cuMemAlloc_v2(&mut address, 1 << 17)), 2);
    assert_eq!(call!(t, cuMemAlloc_v2(&mut address, 1 << 15)), 0);
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(t, cuMemGetInfo_v2(&mut free, &mut total)), 0);
    assert_eq!((free, total), (1 << 15, 1 << 16));
    let stream = t.stream();
    assert_eq!(call!(t, cuMemAllocAsync(&mut address, 1 << 20, stream)), 2);
    assert_eq!(call!(t, cuMemAllocAsync(&mut address, 1 << 14, stream)), 0);
}

#[test]
fn code_for_a_newer_device_is_refused() {
    let old = DeviceConfig::new().compute_capability(7, 0);
    let t = Setup::with(SimConfig::new().every_device(old));
    let load = |target: &str| {
        let text = format!(
            ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k(){{ret;}}\n"
        );
        let text = CString::new(text).unwrap();
        let mut module = null_mut();
        call!(t, cuModuleLoadData(&mut module, text.as_ptr().cast()))
    };
    assert_eq!((load("sm_70"), load("sm_75")), (0, 218));
    let function = t.function(t.module(common::PTX), "noarg");
    let binary = CU_FUNC_ATTRIBUTE_BINARY_VERSION;
    let version: i32 = make!(t, cuFuncGetAttribute(binary, function));
    assert_eq!(version, 70);
}

#[test]
fn a_driver_has_what_its_version_has() {
    let versions = [
        9_020, 10_000, 10_010, 10_020, 11_000, 11_010, 11_020, 11_030, 11_040, 11_050, 11_060,
        11_070, 11_080, 12_000, 12_010, 12_020, 12_030, 12_040, 12_050, 12_060, 12_080, 12_090,
        13_000,
    ];
    let newest = Simulation::new(SimConfig::new()).driver();
    let mut before = 0;
    for version in versions {
        let driver = Simulation::new(SimConfig::new().driver_version(version)).driver();
        assert_eq!(driver.version(), version);
        let mut present = 0;
        for function in Function::ALL.iter().copied() {
            let expected = newest.has(function) && function.info().since <= version;
            assert_eq!(driver.has(function), expected, "{function:?} in {version}");
            present += usize::from(expected);
        }
        assert!(present >= before, "{version} lost functions");
        before = present;
        if !driver.has(Function::cuGetProcAddress_v2) {
            continue;
        }
        for function in Function::ALL.iter().copied().filter(|function| newest.has(*function)) {
            let name = CString::new(function.info().name).unwrap();
            let (mut address, mut found) = (null_mut(), CUdriverProcAddressQueryResult(9));
            let asked = function.info().since.min(version);
            let code = call!(
                driver,
                cuGetProcAddress_v2(name.as_ptr(), &mut address, asked, 0, &mut found)
            );
            // A name that is newer altogether is unknown; an ABI that is newer is passed over.
            let known = Function::ALL
                .iter()
                .any(|other| other.info().name == function.info().name && driver.has(*other));
            assert_eq!((code, found.0), (0, u32::from(!known)), "{function:?} in {version}");
        }
    }
}

#[test]
fn versions_are_kept_within_those_that_are_simulated() {
    let version = |version| SimConfig::new().driver_version(version);
    assert_eq!(version(1), version(9_020));
    assert_eq!(version(99_000), version(13_000));
}
