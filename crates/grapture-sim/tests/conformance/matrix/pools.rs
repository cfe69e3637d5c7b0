//! Memory pools and stream-ordered allocation.

use std::ptr::null_mut;

use grapture_sys::*;

use super::Field;

fn default_pool(m: &Field<'_>) -> CUmemoryPool {
    make!(m, cuDeviceGetDefaultMemPool(0))
}

fn props() -> CUmemPoolProps_v1 {
    let mut props =
        CUmemPoolProps_v1 { allocType: CU_MEM_ALLOCATION_TYPE_PINNED, ..Default::default() };
    props.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    props
}

fn access() -> CUmemAccessDesc_v1 {
    CUmemAccessDesc_v1 { location: props().location, flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
}

super::matrix! {
    mem_pool_create(m) {
        let mut pool = null_mut();
        if m.call(|| cu!(m, cuMemPoolCreate(&mut pool, &props()))) {
            ok!(m, cuMemPoolDestroy(pool));
        }
    }
    mem_pool_destroy(m) {
        let pool = make!(m, cuMemPoolCreate(&props()));
        if !m.call(|| cu!(m, cuMemPoolDestroy(pool))) {
            ok!(m, cuMemPoolDestroy(pool));
        }
    }
    mem_pool_trim_to(m) {
        let pool = default_pool(m);
        m.call(|| cu!(m, cuMemPoolTrimTo(pool, 0)));
    }
    mem_pool_get_attribute(m) {
        let (pool, mut value) = (default_pool(m), 0_u64);
        let what = CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        m.call(|| cu!(m, cuMemPoolGetAttribute(pool, what, (&raw mut value).cast())));
    }
    mem_pool_set_attribute(m) {
        let (pool, mut value) = (default_pool(m), 0_u64);
        let what = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        m.call(|| cu!(m, cuMemPoolSetAttribute(pool, what, (&raw mut value).cast())));
    }
    mem_pool_set_access(m) {
        let pool = default_pool(m);
        m.call(|| cu!(m, cuMemPoolSetAccess(pool, &access(), 1)));
    }
    mem_pool_get_access(m) {
        let (pool, mut location) = (default_pool(m), props().location);
        let mut flags = CUmemAccess_flags(0);
        m.call(|| cu!(m, cuMemPoolGetAccess(&mut flags, pool, &mut location)));
    }
    device_get_default_mem_pool(m) {
        m.call(|| cu!(m, cuDeviceGetDefaultMemPool(&mut null_mut(), 0)));
    }
    device_get_mem_pool(m) {
        m.call(|| cu!(m, cuDeviceGetMemPool(&mut null_mut(), 0)));
    }
    device_set_mem_pool(m) {
        let pool = default_pool(m);
        m.call(|| cu!(m, cuDeviceSetMemPool(0, pool)));
    }
    mem_alloc_async_on_another_stream(m) {
        let mut address = 0;
        if m.call(|| cu!(m, cuMemAllocAsync(&mut address, 64, m.other))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_alloc_from_pool_async_on_another_stream(m) {
        let (pool, mut address) = (default_pool(m), 0);
        if m.call(|| cu!(m, cuMemAllocFromPoolAsync(&mut address, 64, pool, m.other))) {
            ok!(m, cuMemFree_v2(address));
        }
    }
    mem_free_async_on_another_stream(m) {
        let address = make!(m, cuMemAllocAsync(64, m.other));
        if !m.call(|| cu!(m, cuMemFreeAsync(address, m.other))) {
            ok!(m, cuMemFree_v2(address));
        }
        m.sync(m.other);
    }
    device_graph_mem_trim(m) {
        m.call(|| cu!(m, cuDeviceGraphMemTrim(0)));
    }
}
