//! Devices, errors and look-up: what needs no context.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::saw;

fn attribute(rig: &Rig, number: u32, device: i32) {
    let mut value = 0;
    cu!(rig, cuDeviceGetAttribute(&mut value, CUdevice_attribute(number), device));
    saw("value", value);
}

/// What a look-up finds, and how.
fn lookup(rig: &Rig, name: &CStr, version: i32, flags: u64) {
    let (mut at, mut status) = (null_mut(), CUdriverProcAddressQueryResult(9));
    saw("asked", (name, version, flags));
    cu!(rig, cuGetProcAddress_v2(name.as_ptr(), &mut at, version, flags, &mut status));
    saw("found", (!at.is_null(), status.0));
}

rules! { both;
    what_a_device_can_do(rig) {
        for number in (1..=146).filter(|number| !matches!(number, 13 | 33 | 34 | 36 | 50)) {
            saw("attribute", number);
            attribute(rig, number, 0);
        }
    }
    what_no_device_tells(rig) {
        for number in [0, 147, 148, 149, 150, 999, u32::MAX] {
            saw("attribute", number);
            attribute(rig, number, 0);
        }
    }
    an_attribute_of_a_device_needs_a_place(rig) {
        cu!(rig, cuDeviceGetAttribute(null_mut(), CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        cu!(rig, cuDeviceGetAttribute(null_mut(), CUdevice_attribute(0), 9));
    }
    an_unknown_attribute_of_no_device(rig) {
        attribute(rig, 0, 9);
        attribute(rig, 1, 9);
        attribute(rig, 1, -1);
    }
    devices_are_counted_from_zero(rig) {
        let mut device = 77;
        for ordinal in [0, -1, 99] {
            cu!(rig, cuDeviceGet(&mut device, ordinal));
        }
        saw("device", device);
        cu!(rig, cuDeviceGet(null_mut(), 0));
        cu!(rig, cuDeviceGet(null_mut(), 99));
        cu!(rig, cuDeviceGetCount(null_mut()));
    }
    the_name_of_a_device_is_cut(rig) {
        let mut name: [c_char; 8] = [1; 8];
        for len in [1, 2, 8] {
            cu!(rig, cuDeviceGetName(name.as_mut_ptr(), len, 0));
        }
        saw("ended", name.contains(&0));
        cu!(rig, cuDeviceGetName(name.as_mut_ptr(), 8, 9));
    }
    the_place_of_a_device_on_the_bus(rig) {
        let mut id: [c_char; 16] = [1; 16];
        for len in [0, 1, 12, 13, 16] {
            cu!(rig, cuDeviceGetPCIBusId(id.as_mut_ptr(), len, 0));
        }
        cu!(rig, cuDeviceGetPCIBusId(null_mut(), 16, 0));
        cu!(rig, cuDeviceGetPCIBusId(id.as_mut_ptr(), 16, 9));
    }
    the_number_and_the_memory_of_a_device_need_a_place(rig) {
        let mut uuid = CUuuid::default();
        cu!(rig, cuDeviceGetUuid(&mut uuid, 0));
        cu!(rig, cuDeviceGetUuid_v2(&mut uuid, 9));
        cu!(rig, cuDeviceGetUuid(null_mut(), 0));
        cu!(rig, cuDeviceTotalMem_v2(null_mut(), 0));
        cu!(rig, cuDeviceTotalMem_v2(&mut 0, 9));
    }
    a_device_is_no_peer_of_itself(rig) {
        let mut can = 77;
        cu!(rig, cuDeviceCanAccessPeer(&mut can, 0, 0));
        saw("can", can);
        cu!(rig, cuDeviceCanAccessPeer(&mut can, 0, 9));
        cu!(rig, cuDeviceCanAccessPeer(null_mut(), 0, 0));
    }
    a_driver_is_initialised_without_flags(rig) {
        cu!(rig, cuInit(0));
        cu!(rig, cuInit(1));
        cu!(rig, cuDriverGetVersion(null_mut()));
    }
    each_code_has_a_name(rig) {
        let known = [
            0, 1, 2, 3, 4, 34, 46, 100, 101, 200, 201, 209, 215, 218, 221, 222, 301, 400, 401, 402, 500,
            600, 700, 701, 702, 708, 709, 710, 712, 713, 715, 716, 717, 718, 719, 720, 800, 801, 900, 901,
            902, 903, 904, 905, 906, 907, 908, 909, 910, 911, 912, 999, 913, 914, 915, 916, 917, 918, 5, 99,
        ];
        for code in known {
            let mut at = null();
            cu!(rig, cuGetErrorName(CUresult(code), &mut at));
            if at.is_null() {
                saw("no name", code);
            } else {
                // SAFETY: the driver's texts end with NUL and are never freed.
                saw("name", unsafe { CStr::from_ptr(at) });
            }
        }
    }
    an_unknown_code_has_no_text(rig) {
        let mut at = std::ptr::dangling();
        cu!(rig, cuGetErrorName(CUresult(98), &mut at));
        saw("null", at.is_null());
        at = std::ptr::dangling();
        cu!(rig, cuGetErrorString(CUresult(98), &mut at));
        saw("null", at.is_null());
    }
    a_function_is_found_by_its_version(rig) {
        for version in [9000, 10_000, 10_010, 13_000, 13_050] {
            lookup(rig, c"cuStreamBeginCapture", version, 0);
        }
        lookup(rig, c"cuGraphInstantiateWithParams", 11_080, 0);
        lookup(rig, c"cuGraphInstantiateWithParams", 12_000, 0);
    }
    a_function_that_is_not_there(rig) {
        lookup(rig, c"cuNope", 13_000, 0);
        lookup(rig, c"", 13_000, 0);
        lookup(rig, c"cuMemAlloc_v2", 13_000, 0);
        lookup(rig, c"cuStreamBeginRecaptureToGraph", 13_030, 0);
    }
    a_look_up_has_known_flags(rig) {
        for flags in [0, 1, 4] {
            lookup(rig, c"cuStreamQuery", 13_000, flags);
        }
    }
    a_look_up_needs_its_arguments(rig) {
        let (mut at, mut status) = (null_mut::<c_void>(), CUdriverProcAddressQueryResult(9));
        let name = c"cuInit".as_ptr();
        cu!(rig, cuGetProcAddress_v2(name, &mut at, 13_000, 0, null_mut()));
        saw("found", !at.is_null());
        cu!(rig, cuGetProcAddress_v2(name, &mut at, 0, 0, &mut status));
        cu!(rig, cuGetProcAddress_v2(name, &mut at, -1, 0, &mut status));
        cu!(rig, cuGetProcAddress(c"cuNope".as_ptr(), &mut at, 13_000, 0));
    }
}
