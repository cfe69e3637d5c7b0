//! What the driver tells of addresses, attribute by attribute and kind by kind.

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::saw;

/// The number that an attribute is, relative to the start of the allocation where it is an address.
fn tell(rig: &Rig, attribute: u32, address: u64, start: u64) {
    let mut value = 0_u64;
    let code = cu!(
        rig,
        cuPointerGetAttribute((&raw mut value).cast(), CUpointer_attribute(attribute), address)
    );
    if code == 0 {
        let relative = value.wrapping_sub(start);
        match attribute {
            // Handles, numbers that differ from run to run.
            1 | 7 | 20 => saw("something", value != 0),
            17 => saw("a pool", value != 0),
            // It begins no later, on a page.
            19 => saw("base", value <= start && value.is_multiple_of(4096)),
            3 | 4 | 11 if value != 0 => saw("offset", relative as i64) == 0,
            _ => saw("value", value) == 0,
        };
    }
}

/// Every attribute of an address inside an allocation.
fn tell_all(rig: &Rig, start: u64) {
    for attribute in (1..=21).filter(|attribute| *attribute != 5) {
        saw("attribute", attribute);
        tell(rig, attribute, start + 8, start);
    }
}

#[repr(align(4096))]
struct Page([std::sync::atomic::AtomicU8; 4096]);
/// Not constant, so that it lies where a driver may lock it.
static PAGE: Page = Page([const { std::sync::atomic::AtomicU8::new(0) }; 4096]);

rules! { both;
    all_that_is_told_of_device_memory(rig) {
        let address = rig.alloc(1000);
        tell_all(rig, address);
        ok!(rig, cuMemFree_v2(address));
    }
    all_that_is_told_of_pinned_memory(rig) {
        let pinned = rig.pinned(1000);
        tell_all(rig, pinned.addr() as u64);
        ok!(rig, cuMemFreeHost(pinned));
    }
    all_that_is_told_of_registered_memory(rig) {
        let page = PAGE.0.as_ptr().cast_mut().cast();
        ok!(rig, cuMemHostRegister_v2(page, 4096, 0));
        tell_all(rig, page.addr() as u64);
        ok!(rig, cuMemHostUnregister(page));
    }
    all_that_is_told_of_managed_memory(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(1000, 1));
        tell_all(rig, address);
        ok!(rig, cuMemFree_v2(address));
    }
    all_that_is_told_of_memory_of_a_pool(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocAsync(1000, rig.stream));
        rig.sync(rig.stream);
        tell_all(rig, address);
        ok!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
    }
    nothing_is_told_of_memory_of_the_program(rig) {
        let local = 0_u64;
        for attribute in [1, 2, 3, 4, 7, 8, 9, 11, 12, 13, 17] {
            saw("attribute", attribute);
            tell(rig, attribute, (&raw const local).addr() as u64, 0);
        }
    }
    nothing_is_told_of_null(rig) {
        for attribute in [1, 2, 3, 4, 8, 9, 11, 12, 13] {
            saw("attribute", attribute);
            tell(rig, attribute, 0, 0);
        }
    }
    no_such_attribute_of_an_address(rig) {
        for attribute in [0, 22, 23, 99] {
            saw("attribute", attribute);
            tell(rig, attribute, rig.buffer, rig.buffer);
        }
    }
    an_attribute_of_an_address_needs_a_place(rig) {
        let (none, what) = (std::ptr::null_mut(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        cu!(rig, cuPointerGetAttribute(none, what, rig.buffer));
        cu!(rig, cuPointerGetAttribute(none, what, 0));
    }
    the_end_of_an_allocation_is_not_in_it(rig) {
        let address = rig.alloc(4 << 20);
        for offset in [0, (4 << 20) - 1] {
            let (mut base, mut size) = (0, 0);
            cu!(rig, cuMemGetAddressRange_v2(&mut base, &mut size, address + offset));
            saw("range", (base == address, size));
        }
        ok!(rig, cuMemFree_v2(address));
    }
    the_range_of_memory_of_each_kind(rig) {
        let pooled: CUdeviceptr = make!(rig, cuMemAllocAsync(1000, rig.stream));
        let managed: CUdeviceptr = make!(rig, cuMemAllocManaged(1000, 1));
        rig.sync(rig.stream);
        for address in [pooled, managed] {
            let (mut base, mut size) = (0, 0);
            cu!(rig, cuMemGetAddressRange_v2(&mut base, &mut size, address + 8));
            saw("range", (base == address, size));
        }
        ok!(rig, cuMemFree_v2(pooled));
        ok!(rig, cuMemFree_v2(managed));
    }
    the_range_of_an_address_is_told_in_part(rig) {
        let none = std::ptr::null_mut();
        let (mut base, mut size) = (0, 0);
        cu!(rig, cuMemGetAddressRange_v2(&mut base, std::ptr::null_mut(), rig.buffer));
        cu!(rig, cuMemGetAddressRange_v2(none, &mut size, rig.buffer));
        cu!(rig, cuMemGetAddressRange_v2(none, std::ptr::null_mut(), rig.buffer));
        saw("range", (base == rig.buffer, size));
    }
}
