//! Memory: what is allocated, pinned, registered, managed and freed.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU8;

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::saw;

#[repr(align(4096))]
struct Pages([AtomicU8; 8192]);
/// Not constant, so that it lies where a driver may lock it.
static PAGES: Pages = Pages([const { AtomicU8::new(0) }; 8192]);

fn pages(offset: usize) -> *mut c_void {
    PAGES.0.as_ptr().cast_mut().wrapping_add(offset).cast()
}

/// Allocates, tells how the address is aligned and frees.
fn allocate(rig: &Rig, bytes: usize) {
    let mut address = 0;
    if cu!(rig, cuMemAlloc_v2(&mut address, bytes)) == 0 {
        saw("aligned", address.is_multiple_of(512));
        ok!(rig, cuMemFree_v2(address));
    }
}

/// Allocates pinned memory with flags and frees it.
fn pin(rig: &Rig, flags: u32) {
    let mut at = null_mut();
    saw("flags", flags);
    if cu!(rig, cuMemHostAlloc(&mut at, 64, flags)) == 0 {
        let mut address = 0;
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, at, 0));
        saw("same address", address == at.addr() as u64);
        ok!(rig, cuMemFreeHost(at));
    }
}

fn register(rig: &Rig, offset: usize, bytes: usize, flags: u32) {
    let at = pages(offset);
    if cu!(rig, cuMemHostRegister_v2(at, bytes, flags)) == 0 {
        ok!(rig, cuMemHostUnregister(at));
    }
}

fn pitch(rig: &Rig, width: usize, height: usize, element: u32) {
    let (mut address, mut pitch) = (0, 0);
    saw("asked", (width, height, element));
    if cu!(rig, cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, element)) == 0 {
        saw("pitch", pitch);
        ok!(rig, cuMemFree_v2(address));
    }
}

rules! { both;
    allocations_of_some_sizes(rig) {
        for bytes in [0, 1, 511, 4096, 3 << 20] {
            allocate(rig, bytes);
        }
    }
    allocations_that_are_too_large(rig) {
        for bytes in [1_usize << 42, 1 << 60, usize::MAX, usize::MAX - 511] {
            allocate(rig, bytes);
        }
    }
    an_allocation_needs_a_place(rig) {
        cu!(rig, cuMemAlloc_v2(null_mut(), 64));
        cu!(rig, cuMemAlloc_v2(null_mut(), 0));
        cu!(rig, cuMemAllocPitch_v2(null_mut(), &mut 0, 64, 1, 4));
        cu!(rig, cuMemAllocPitch_v2(&mut 0, null_mut(), 64, 1, 4));
        cu!(rig, cuMemHostAlloc(null_mut(), 64, 0));
        cu!(rig, cuMemAllocHost_v2(null_mut(), 64));
        cu!(rig, cuMemAllocManaged(null_mut(), 64, 1));
    }
    an_allocation_that_fails_leaves_the_address(rig) {
        let mut address = 77;
        cu!(rig, cuMemAlloc_v2(&mut address, usize::MAX));
        saw("address", address);
        cu!(rig, cuMemAlloc_v2(&mut address, 0));
        saw("address", address);
    }
    the_pitch_of_rows(rig) {
        for width in [1, 4, 100, 512, 513, 4096, 5000] {
            pitch(rig, width, 3, 4);
        }
    }
    the_pitch_for_elements(rig) {
        for element in [0, 1, 2, 4, 8, 16, 32, 5] {
            pitch(rig, 100, 3, element);
        }
    }
    no_rows_or_no_columns(rig) {
        pitch(rig, 0, 3, 4);
        pitch(rig, 100, 0, 4);
        pitch(rig, 0, 0, 4);
        pitch(rig, 0, 0, 0);
    }
    too_large_a_pitch(rig) {
        pitch(rig, usize::MAX, 1, 4);
        pitch(rig, 1 << 40, 1 << 30, 4);
        pitch(rig, 4096, usize::MAX, 4);
    }
    a_free_of_what_is_no_allocation(rig) {
        let freed = rig.alloc(64);
        ok!(rig, cuMemFree_v2(freed));
        for address in [0, 8, 0x1234, rig.buffer + 8, freed] {
            cu!(rig, cuMemFree_v2(address));
        }
    }
    a_free_of_memory_of_the_host(rig) {
        let pinned = rig.pinned(64);
        cu!(rig, cuMemFree_v2(pinned.addr() as u64));
        cu!(rig, cuMemFreeHost(std::ptr::without_provenance_mut(rig.buffer as usize)));
        cu!(rig, cuMemFreeHost(pinned));
        cu!(rig, cuMemFreeHost(pinned));
    }
    a_free_of_pinned_memory_by_its_middle(rig) {
        let pinned = rig.pinned(4096);
        cu!(rig, cuMemFreeHost(pinned.wrapping_byte_add(64)));
        cu!(rig, cuMemFreeHost(pinned));
    }
    the_flags_of_pinned_memory(rig) {
        for flags in [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 1 << 31] {
            pin(rig, flags);
        }
    }
    no_pinned_bytes(rig) {
        let mut at = std::ptr::dangling_mut();
        cu!(rig, cuMemHostAlloc(&mut at, 0, 0));
        saw("null", at.is_null());
        at = std::ptr::dangling_mut();
        cu!(rig, cuMemAllocHost_v2(&mut at, 0));
        saw("null", at.is_null());
        cu!(rig, cuMemHostAlloc(&mut at, 0, 99));
    }
    the_device_address_of_pinned_memory(rig) {
        let pinned = rig.pinned(4096);
        let mut address = 0;
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, pinned.wrapping_byte_add(8), 0));
        saw("offset", address.wrapping_sub(pinned.addr() as u64));
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, pinned, 1));
        cu!(rig, cuMemHostGetDevicePointer_v2(null_mut(), pinned, 0));
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, null_mut(), 0));
        ok!(rig, cuMemFreeHost(pinned));
    }
    the_device_address_of_other_memory(rig) {
        let (mut address, mut local) = (0, 0_u64);
        let managed: CUdeviceptr = make!(rig, cuMemAllocManaged(64, 1));
        let at = |address: u64| std::ptr::without_provenance_mut(address as usize);
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, (&raw mut local).cast(), 0));
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, at(rig.buffer), 0));
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut address, at(managed), 0));
        ok!(rig, cuMemFree_v2(managed));
    }
    the_flags_of_registered_memory(rig) {
        for flags in [0, 1, 2, 3, 4, 8, 9, 16, 1 << 31] {
            saw("flags", flags);
            register(rig, 0, 4096, flags);
        }
    }
    what_is_registered_need_not_be_whole_pages(rig) {
        register(rig, 0, 1, 0);
        register(rig, 64, 64, 0);
        register(rig, 4000, 200, 0);
    }
    nothing_is_registered(rig) {
        register(rig, 0, 0, 0);
        cu!(rig, cuMemHostRegister_v2(null_mut(), 4096, 0));
        cu!(rig, cuMemHostRegister_v2(null_mut(), 0, 0));
    }
    memory_is_registered_once(rig) {
        ok!(rig, cuMemHostRegister_v2(pages(0), 4096, 0));
        cu!(rig, cuMemHostRegister_v2(pages(0), 4096, 0));
        cu!(rig, cuMemHostRegister_v2(pages(64), 64, 0));
        cu!(rig, cuMemHostRegister_v2(pages(0), 8192, 0));
        ok!(rig, cuMemHostUnregister(pages(0)));
    }
    neighbours_are_registered_side_by_side(rig) {
        ok!(rig, cuMemHostRegister_v2(pages(0), 4096, 0));
        cu!(rig, cuMemHostRegister_v2(pages(4096), 4096, 0));
        cu!(rig, cuMemHostUnregister(pages(4096)));
        ok!(rig, cuMemHostUnregister(pages(0)));
    }
    pinned_memory_is_not_registered(rig) {
        let pinned = rig.pinned(8192);
        cu!(rig, cuMemHostRegister_v2(pinned, 4096, 0));
        cu!(rig, cuMemHostUnregister(pinned));
        ok!(rig, cuMemFreeHost(pinned));
    }
    what_was_not_registered_is_not_unregistered(rig) {
        let mut local = 0_u64;
        cu!(rig, cuMemHostUnregister((&raw mut local).cast()));
        cu!(rig, cuMemHostUnregister(null_mut()));
        ok!(rig, cuMemHostRegister_v2(pages(0), 8192, 0));
        cu!(rig, cuMemHostUnregister(pages(64)));
        cu!(rig, cuMemHostUnregister(pages(4096)));
        cu!(rig, cuMemFreeHost(pages(0)));
        cu!(rig, cuMemHostUnregister(pages(0)));
        cu!(rig, cuMemHostUnregister(pages(0)));
    }
    the_flags_of_managed_memory(rig) {
        for flags in [0, 1, 2, 3, 4, 8] {
            let mut address = 0;
            saw("flags", flags);
            if cu!(rig, cuMemAllocManaged(&mut address, 64, flags)) == 0 {
                ok!(rig, cuMemFree_v2(address));
            }
        }
        cu!(rig, cuMemAllocManaged(&mut 0, 0, 1));
    }
    managed_memory_is_written_by_both(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(64, 1));
        ok!(rig, cuMemsetD32Async(address, 5, 1, rig.stream));
        rig.sync(rig.stream);
        let at = std::ptr::with_exposed_provenance_mut::<u32>(address as usize);
        // SAFETY: managed memory is the host's while no work of the device uses it.
        saw("word", unsafe { at.read_volatile() });
        ok!(rig, cuMemFree_v2(address));
    }
    the_memory_of_the_device_is_told_in_part(rig) {
        let (mut free, mut total) = (0, 0);
        cu!(rig, cuMemGetInfo_v2(&mut free, null_mut()));
        cu!(rig, cuMemGetInfo_v2(null_mut(), &mut total));
        cu!(rig, cuMemGetInfo_v2(null_mut(), null_mut()));
        saw("some are free", free > 0 && free < total);
    }
    a_copy_of_no_bytes(rig) {
        let (b, mut local) = (rig.buffer, 0_u64);
        let at = (&raw mut local).cast();
        cu!(rig, cuMemcpyHtoD_v2(b, at, 0));
        cu!(rig, cuMemcpyDtoH_v2(at, b, 0));
        cu!(rig, cuMemcpyDtoD_v2(b, b, 0));
        cu!(rig, cuMemcpyHtoD_v2(0, null_mut(), 0));
        cu!(rig, cuMemcpyDtoH_v2(null_mut(), 0, 0));
        cu!(rig, cuMemcpyDtoD_v2(0, 0, 0));
        cu!(rig, cuMemcpyAsync(0, 0, 0, rig.stream));
    }
    a_copy_from_or_to_nothing(rig) {
        let (b, mut local) = (rig.buffer, 0_u64);
        let at = (&raw mut local).cast();
        cu!(rig, cuMemcpyHtoD_v2(0, at, 8));
        cu!(rig, cuMemcpyHtoD_v2(b, null_mut(), 8));
        cu!(rig, cuMemcpyDtoH_v2(null_mut(), b, 8));
        cu!(rig, cuMemcpyDtoH_v2(at, 0, 8));
        cu!(rig, cuMemcpyDtoD_v2(0, b, 8));
        cu!(rig, cuMemcpyDtoD_v2(b, 0, 8));
        cu!(rig, cuMemcpyAsync(b, 0, 8, rig.stream));
    }
    a_copy_past_the_end(rig) {
        let end = rig.buffer + crate::rig::BUFFER_BYTES as u64;
        let mut local = [0_u8; 64];
        let at = local.as_mut_ptr().cast();
        cu!(rig, cuMemcpyHtoD_v2(end - 8, at, 64));
        cu!(rig, cuMemcpyDtoH_v2(at, end - 8, 64));
        cu!(rig, cuMemcpyDtoD_v2(rig.buffer, end - 8, 64));
    }
    a_copy_within_one_allocation_may_overlap(rig) {
        cu!(rig, cuMemcpyDtoD_v2(rig.buffer, rig.buffer + 8, 64));
        cu!(rig, cuMemcpyDtoDAsync_v2(rig.buffer + 8, rig.buffer, 64, rig.stream));
        cu!(rig, cuMemcpyDtoD_v2(rig.buffer, rig.buffer, 64));
        rig.sync(rig.stream);
    }
    a_copy_between_kinds_that_are_not_named(rig) {
        let (pinned, mut local) = (rig.pinned(64), 5_u64);
        let (host, at) = (pinned.addr() as u64, (&raw mut local).addr() as u64);
        cu!(rig, cuMemcpyAsync(rig.buffer, host, 8, rig.stream));
        cu!(rig, cuMemcpyAsync(host, rig.buffer, 8, rig.stream));
        cu!(rig, cuMemcpyAsync(rig.buffer, at, 8, rig.stream));
        rig.sync(rig.stream);
        saw("word", rig.read_word(0));
        ok!(rig, cuMemFreeHost(pinned));
    }
    a_device_copy_to_memory_of_the_program(rig) {
        let mut local = 5_u64;
        let at = (&raw mut local).addr() as u64;
        cu!(rig, cuMemcpyDtoD_v2(at, rig.buffer, 8));
        cu!(rig, cuMemsetD32_v2(at, 1, 1));
        cu!(rig, cuMemsetD32Async(at, 1, 1, rig.stream));
    }
    fills_are_aligned_to_their_elements(rig) {
        for offset in [1, 2, 3] {
            cu!(rig, cuMemsetD8Async(rig.buffer + offset, 1, 4, rig.stream));
            cu!(rig, cuMemsetD16Async(rig.buffer + offset, 1, 4, rig.stream));
            cu!(rig, cuMemsetD32Async(rig.buffer + offset, 1, 4, rig.stream));
            cu!(rig, cuMemsetD32_v2(rig.buffer + offset, 1, 4));
        }
        rig.sync(rig.stream);
    }
    fills_of_rows(rig) {
        let (b, s) = (rig.buffer, rig.stream);
        for (pitch, width, height) in [(64, 4, 4), (16, 4, 4), (15, 4, 4), (0, 4, 1), (0, 4, 2), (64, 0, 4), (18, 4, 4)] {
            saw("rows", (pitch, width, height));
            cu!(rig, cuMemsetD2D8Async(b, pitch, 1, width, height, s));
            cu!(rig, cuMemsetD2D16Async(b, pitch, 1, width, height, s));
            cu!(rig, cuMemsetD2D32Async(b, pitch, 1, width, height, s));
        }
        rig.sync(s);
    }
}
