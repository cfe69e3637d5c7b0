//! Memory pools and stream-ordered allocation.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{NULL_STREAM, Rig, per_thread};
use crate::transcript::saw;

fn props() -> CUmemPoolProps_v1 {
    let mut props =
        CUmemPoolProps_v1 { allocType: CU_MEM_ALLOCATION_TYPE_PINNED, ..Default::default() };
    props.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    props
}

fn new_pool(rig: &Rig) -> CUmemoryPool {
    make!(rig, cuMemPoolCreate(&props()))
}

fn default_pool(rig: &Rig) -> CUmemoryPool {
    make!(rig, cuDeviceGetDefaultMemPool(0))
}

/// Reads an attribute, which has four bytes or eight.
fn get(rig: &Rig, pool: CUmemoryPool, attribute: u32) -> u64 {
    let mut value = 0_u64;
    let at = (&raw mut value).cast();
    cu!(rig, cuMemPoolGetAttribute(pool, CUmemPool_attribute(attribute), at));
    value
}

fn set(rig: &Rig, pool: CUmemoryPool, attribute: u32, mut value: u64) -> u32 {
    let at = (&raw mut value).cast();
    cu!(rig, cuMemPoolSetAttribute(pool, CUmemPool_attribute(attribute), at))
}

/// Creates a pool with these properties, or not.
fn create(rig: &Rig, props: &CUmemPoolProps_v1) {
    let mut pool = null_mut();
    if cu!(rig, cuMemPoolCreate(&mut pool, props)) == 0 {
        ok!(rig, cuMemPoolDestroy(pool));
    }
}

rules! { both;
    the_attributes_of_a_new_pool(rig) {
        let pool = new_pool(rig);
        for attribute in 0..=16 {
            saw("attribute", attribute);
            saw("value", get(rig, pool, attribute));
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    which_attributes_of_a_pool_are_set(rig) {
        let pool = new_pool(rig);
        for attribute in 0..=16 {
            saw("attribute", attribute);
            set(rig, pool, attribute, 0);
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_reuse_policy_is_on_or_off(rig) {
        let pool = new_pool(rig);
        for attribute in [1, 2, 3] {
            for value in [0, 1, 2] {
                set(rig, pool, attribute, value);
                saw("value", get(rig, pool, attribute));
            }
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_release_threshold_is_kept(rig) {
        let pool = new_pool(rig);
        for value in [1 << 20, u64::MAX, 0] {
            set(rig, pool, 4, value);
            saw("value", get(rig, pool, 4));
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_high_mark_is_reset_to_zero_alone(rig) {
        let pool = new_pool(rig);
        for attribute in [6, 8] {
            for value in [0, 1] {
                set(rig, pool, attribute, value);
            }
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_pool_counts_what_is_in_use(rig) {
        let pool = new_pool(rig);
        let address = make!(rig, cuMemAllocFromPoolAsync(1000, pool, rig.stream));
        rig.sync(rig.stream);
        saw("used", get(rig, pool, 7));
        saw("most", get(rig, pool, 8));
        ok!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
        saw("used", get(rig, pool, 7));
        saw("most", get(rig, pool, 8));
        set(rig, pool, 8, 0);
        saw("most", get(rig, pool, 8));
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_pool_reserves_in_large_pieces(rig) {
        let pool = new_pool(rig);
        set(rig, pool, 4, u64::MAX);
        let address = make!(rig, cuMemAllocFromPoolAsync(1000, pool, rig.stream));
        rig.sync(rig.stream);
        saw("reserved", get(rig, pool, 5));
        ok!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
        saw("kept", get(rig, pool, 5));
        cu!(rig, cuMemPoolTrimTo(pool, 0));
        saw("trimmed", get(rig, pool, 5));
        saw("most", get(rig, pool, 6));
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_pool_keeps_nothing_by_default(rig) {
        let pool = new_pool(rig);
        let address = make!(rig, cuMemAllocFromPoolAsync(1000, pool, rig.stream));
        ok!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
        saw("kept", get(rig, pool, 5));
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_freed_address_of_a_pool_is_used_again(rig) {
        let pool = new_pool(rig);
        let first = make!(rig, cuMemAllocFromPoolAsync(1000, pool, rig.stream));
        ok!(rig, cuMemFreeAsync(first, rig.stream));
        let second = make!(rig, cuMemAllocFromPoolAsync(1000, pool, rig.stream));
        ok!(rig, cuMemFreeAsync(second, rig.stream));
        rig.sync(rig.stream);
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_pool_is_of_pinned_memory(rig) {
        for kind in [0, 1, 99] {
            let mut props = props();
            props.allocType = CUmemAllocationType(kind);
            saw("kind", kind);
            create(rig, &props);
        }
    }
    a_pool_is_on_a_device(rig) {
        for (kind, id) in [(0, 0), (1, 0), (1, 9), (1, -1), (99, 0)] {
            let mut props = props();
            props.location.type_ = CUmemLocationType(kind);
            props.location.__bindgen_anon_1.id = id;
            saw("location", (kind, id));
            create(rig, &props);
        }
    }
    the_size_of_a_pool_may_be_bounded(rig) {
        let mut props = props();
        props.maxSize = 4 << 20;
        let pool: CUmemoryPool = make!(rig, cuMemPoolCreate(&props));
        let mut address = 0;
        cu!(rig, cuMemAllocFromPoolAsync(&mut address, 256 << 20, pool, rig.stream));
        rig.sync(rig.stream);
        ok!(rig, cuMemPoolDestroy(pool));
    }
    reserved_bytes_of_properties_are_zero(rig) {
        let mut props = props();
        props.reserved[0] = 1;
        create(rig, &props);
    }
    a_pool_with_an_unknown_kind_of_handle(rig) {
        for kind in [1, 2, 4, 8, 64] {
            let mut props = props();
            props.handleTypes = CUmemAllocationHandleType(kind);
            saw("handle type", kind);
            create(rig, &props);
        }
    }
    a_pool_needs_its_arguments(rig) {
        cu!(rig, cuMemPoolCreate(null_mut(), &props()));
        cu!(rig, cuMemPoolCreate(&mut null_mut(), null_mut()));
    }
    no_pool_at_all(rig) {
        let mut value = 0_u64;
        let (at, none) = ((&raw mut value).cast(), null_mut());
        cu!(rig, cuMemPoolDestroy(none));
        cu!(rig, cuMemPoolTrimTo(none, 0));
        cu!(rig, cuMemPoolGetAttribute(none, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, at));
        cu!(rig, cuMemPoolSetAttribute(none, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, at));
        cu!(rig, cuMemAllocFromPoolAsync(&mut 0, 64, none, rig.stream));
        cu!(rig, cuDeviceSetMemPool(0, none));
    }
    the_default_pool_is_not_destroyed(rig) {
        cu!(rig, cuMemPoolDestroy(default_pool(rig)));
    }
    the_default_pool_is_the_current_one(rig) {
        let current: CUmemoryPool = make!(rig, cuDeviceGetMemPool(0));
        saw("same", current == default_pool(rig));
    }
    the_pool_of_a_device_that_is_not_there(rig) {
        let mut pool = null_mut();
        cu!(rig, cuDeviceGetDefaultMemPool(&mut pool, 9));
        cu!(rig, cuDeviceGetMemPool(&mut pool, 9));
        cu!(rig, cuDeviceSetMemPool(9, default_pool(rig)));
        cu!(rig, cuDeviceGetDefaultMemPool(null_mut(), 0));
        cu!(rig, cuDeviceGetMemPool(null_mut(), 0));
        cu!(rig, cuDeviceGraphMemTrim(9));
    }
    allocations_come_from_the_current_pool(rig) {
        let pool = new_pool(rig);
        cu!(rig, cuDeviceSetMemPool(0, pool));
        let address = make!(rig, cuMemAllocAsync(64, rig.stream));
        let mut of: CUmemoryPool = null_mut();
        let what = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        cu!(rig, cuPointerGetAttribute((&raw mut of).cast(), what, address));
        saw("of the pool", of == pool);
        ok!(rig, cuMemFreeAsync(address, rig.stream));
        cu!(rig, cuDeviceSetMemPool(0, default_pool(rig)));
        ok!(rig, cuMemPoolDestroy(pool));
    }
    a_destroyed_pool_that_was_current(rig) {
        let pool = new_pool(rig);
        ok!(rig, cuDeviceSetMemPool(0, pool));
        cu!(rig, cuMemPoolDestroy(pool));
        let current: CUmemoryPool = make!(rig, cuDeviceGetMemPool(0));
        saw("default again", current == default_pool(rig));
    }
    a_pool_is_destroyed_before_its_memory(rig) {
        let pool = new_pool(rig);
        let address = make!(rig, cuMemAllocFromPoolAsync(64, pool, rig.stream));
        rig.sync(rig.stream);
        cu!(rig, cuMemPoolDestroy(pool));
        cu!(rig, cuMemsetD32Async(address, 0, 4, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
    }
    the_access_of_the_own_device(rig) {
        let (pool, mut location) = (new_pool(rig), props().location);
        let mut flags = CUmemAccess_flags(9);
        cu!(rig, cuMemPoolGetAccess(&mut flags, pool, &mut location));
        saw("flags", flags.0);
        for flags in [3, 1, 0, 2] {
            let access = CUmemAccessDesc_v1 { location, flags: CUmemAccess_flags(flags) };
            saw("set", flags);
            cu!(rig, cuMemPoolSetAccess(pool, &access, 1));
        }
        ok!(rig, cuMemPoolDestroy(pool));
    }
    access_of_what_is_no_device(rig) {
        let (pool, mut flags) = (new_pool(rig), CUmemAccess_flags(9));
        for (kind, id) in [(1, 9), (0, 0), (2, 0), (99, 0)] {
            let mut location = props().location;
            (location.type_, location.__bindgen_anon_1.id) = (CUmemLocationType(kind), id);
            saw("location", (kind, id));
            cu!(rig, cuMemPoolGetAccess(&mut flags, pool, &mut location));
            let access = CUmemAccessDesc_v1 { location, flags: CUmemAccess_flags(3) };
            cu!(rig, cuMemPoolSetAccess(pool, &access, 1));
        }
        cu!(rig, cuMemPoolSetAccess(pool, null_mut(), 0));
        cu!(rig, cuMemPoolSetAccess(pool, null_mut(), 1));
        ok!(rig, cuMemPoolDestroy(pool));
    }
    no_bytes_from_a_pool(rig) {
        let (pool, mut address) = (new_pool(rig), 99);
        cu!(rig, cuMemAllocFromPoolAsync(&mut address, 0, pool, rig.stream));
        saw("address", address);
        cu!(rig, cuMemAllocAsync(&mut address, 0, rig.stream));
        saw("address", address);
        ok!(rig, cuMemPoolDestroy(pool));
    }
    an_allocation_needs_a_place_for_its_address(rig) {
        cu!(rig, cuMemAllocAsync(null_mut(), 64, rig.stream));
        cu!(rig, cuMemAllocAsync(null_mut(), 0, rig.stream));
        cu!(rig, cuMemAllocFromPoolAsync(null_mut(), 64, default_pool(rig), rig.stream));
    }
    too_many_bytes_from_a_pool(rig) {
        for bytes in [1_usize << 40, 1 << 60, usize::MAX] {
            cu!(rig, cuMemAllocAsync(&mut 0, bytes, rig.stream));
        }
    }
    allocation_on_the_default_streams(rig) {
        for stream in [NULL_STREAM, per_thread(), rig.blocking] {
            let mut address = 0;
            cu!(rig, cuMemAllocAsync(&mut address, 64, stream));
            cu!(rig, cuMemFreeAsync(address, stream));
        }
        ok!(rig, cuCtxSynchronize());
    }
    memory_of_a_pool_is_freed_on_another_stream(rig) {
        let address = make!(rig, cuMemAllocAsync(64, rig.stream));
        rig.link(rig.stream, rig.other);
        cu!(rig, cuMemFreeAsync(address, rig.other));
        rig.sync(rig.other);
    }
    memory_of_a_pool_is_freed_at_once(rig) {
        let address = make!(rig, cuMemAllocAsync(64, rig.stream));
        cu!(rig, cuMemFree_v2(address));
        rig.sync(rig.stream);
        cu!(rig, cuMemFree_v2(address));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
    }
    memory_of_a_pool_is_freed_twice_in_order(rig) {
        let address = make!(rig, cuMemAllocAsync(64, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
        cu!(rig, cuMemFreeAsync(address, rig.stream));
    }
    what_a_free_in_order_refuses(rig) {
        let address = make!(rig, cuMemAllocAsync(4096, rig.stream));
        let pinned = rig.pinned(64);
        cu!(rig, cuMemFreeAsync(0, rig.stream));
        cu!(rig, cuMemFreeAsync(address + 64, rig.stream));
        cu!(rig, cuMemFreeAsync(0x1234, rig.stream));
        cu!(rig, cuMemFreeAsync(pinned.addr() as u64, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
        ok!(rig, cuMemFreeHost(pinned));
    }
    memory_of_the_device_is_freed_in_order(rig) {
        let address = rig.alloc(64);
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        rig.sync(rig.stream);
    }
    managed_memory_is_not_freed_in_order(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(64, 1));
        if cu!(rig, cuMemFreeAsync(address, rig.stream)) != 0 {
            ok!(rig, cuMemFree_v2(address));
        }
        rig.sync(rig.stream);
    }
    memory_of_a_pool_is_allocated_in_a_capture(rig) {
        let pool = new_pool(rig);
        let mut address = 0;
        rig.begin(rig.stream, 0);
        cu!(rig, cuMemAllocFromPoolAsync(&mut address, 64, pool, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
        ok!(rig, cuMemPoolDestroy(pool));
    }
}
