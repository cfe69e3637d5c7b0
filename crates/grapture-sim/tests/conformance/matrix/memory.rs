//! Memory: what allocates, frees or asks.

use std::ptr::null_mut;
use std::sync::atomic::AtomicU8;

use grapture_sys::*;

#[repr(align(4096))]
struct Page([AtomicU8; 4096]);
/// Not constant, so that it lies where a driver may lock it.
static PAGE: Page = Page([const { AtomicU8::new(0) }; 4096]);

fn page() -> *mut std::ffi::c_void {
    PAGE.0.as_ptr().cast_mut().cast()
}

super::matrix! {
    mem_alloc(m) {
        let mut address = 0;
        if m.call(|| cu!(m, cuMemAlloc_v2(&mut address, 64))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_alloc_pitch(m) {
        let (mut address, mut pitch) = (0, 0);
        if m.call(|| cu!(m, cuMemAllocPitch_v2(&mut address, &mut pitch, 64, 2, 4))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_alloc_managed(m) {
        let mut address = 0;
        if m.call(|| cu!(m, cuMemAllocManaged(&mut address, 64, 1))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_free(m) {
        let address = m.alloc(64);
        if !m.call(|| cu!(m, cuMemFree_v2(address))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_free_of_null(m) {
        m.call(|| cu!(m, cuMemFree_v2(0)));
    }
    mem_host_alloc(m) {
        let mut at = null_mut();
        if m.call(|| cu!(m, cuMemHostAlloc(&mut at, 64, 0))) {
            ok!(m, cuMemFreeHost(at));
        }
    }
    mem_alloc_host(m) {
        let mut at = null_mut();
        if m.call(|| cu!(m, cuMemAllocHost_v2(&mut at, 64))) {
            ok!(m, cuMemFreeHost(at));
        }
    }
    mem_free_host(m) {
        let at = m.pinned(64);
        if !m.call(|| cu!(m, cuMemFreeHost(at))) {
            ok!(m, cuMemFreeHost(at));
        }
    }
    mem_host_register(m) {
        if m.call(|| cu!(m, cuMemHostRegister_v2(page(), 4096, 0))) {
            ok!(m, cuMemHostUnregister(page()));
        }
    }
    mem_host_unregister(m) {
        ok!(m, cuMemHostRegister_v2(page(), 4096, 0));
        if !m.call(|| cu!(m, cuMemHostUnregister(page()))) {
            ok!(m, cuMemHostUnregister(page()));
        }
    }
    mem_host_get_device_pointer(m) {
        let at = m.pinned(64);
        m.call(|| cu!(m, cuMemHostGetDevicePointer_v2(&mut 0, at, 0)));
        ok!(m, cuMemFreeHost(at));
    }
    mem_get_info(m) {
        m.call(|| cu!(m, cuMemGetInfo_v2(&mut 0, &mut 0)));
    }
    mem_get_address_range(m) {
        m.call(|| cu!(m, cuMemGetAddressRange_v2(&mut 0, &mut 0, m.buffer)));
    }
    pointer_get_attribute(m) {
        let (mut kind, what) = (0_u32, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        m.call(|| cu!(m, cuPointerGetAttribute((&raw mut kind).cast(), what, m.buffer)));
    }
    memcpy_to_device(m) {
        m.call(|| cu!(m, cuMemcpyHtoD_v2(m.buffer, page(), 64)));
    }
    memcpy_to_host(m) {
        m.call(|| cu!(m, cuMemcpyDtoH_v2(page(), m.buffer, 64)));
    }
    memcpy_on_the_device(m) {
        m.call(|| cu!(m, cuMemcpyDtoD_v2(m.buffer, m.buffer + 64, 64)));
    }
    memset_d8(m) {
        m.call(|| cu!(m, cuMemsetD8_v2(m.buffer, 1, 4)));
    }
    memset_d32(m) {
        m.call(|| cu!(m, cuMemsetD32_v2(m.buffer, 1, 4)));
    }
    memset_on_another_stream(m) {
        m.call(|| cu!(m, cuMemsetD32Async(m.buffer, 1, 4, m.other)));
    }
    memset_on_the_legacy_stream(m) {
        m.call(|| cu!(m, cuMemsetD32Async(m.buffer, 1, 4, null_mut())));
    }
    memcpy_to_device_on_another_stream(m) {
        m.call(|| cu!(m, cuMemcpyHtoDAsync_v2(m.buffer, page(), 64, m.other)));
    }
    memcpy_to_pageable_memory_on_another_stream(m) {
        let mut bytes = [0_u8; 64];
        m.call(|| cu!(m, cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), m.buffer, 64, m.other)));
        m.sync(m.other);
    }
}
