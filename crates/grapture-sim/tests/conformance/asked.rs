//! What programs ask beside captures and graphs: contexts and their settings, devices by their
//! place, copies that wait, managed memory, addresses.

use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{BUFFER_BYTES, GLOBAL, RELAXED, Rig, THREAD_LOCAL};

tiers! {
    both {
        a_context_has_the_flags_that_it_was_asked_to_have,
        contexts_take_no_parameters,
        preferences_of_a_context_are_kept,
        attachments_are_counted,
        a_context_is_no_peer_of_its_own_device,
        a_device_is_found_by_its_place,
        old_questions_about_devices_have_answers,
        copies_that_wait_are_held_against_the_memory,
        fills_that_wait_are_held_against_the_memory,
        flags_of_host_memory_are_told_back,
        managed_memory_is_prefetched_and_advised,
        advice_is_told_page_by_page,
        attributes_of_an_address_come_together,
        settings_of_kernels_are_checked,
        what_a_capture_says_to_these_calls,
    }
}

/// The flags of the current context. Whether it keeps the memory of kernels (16) is what the
/// process did before.
fn flags(rig: &Rig) -> u32 {
    let flags: u32 = make!(rig, cuCtxGetFlags());
    flags & !CU_CTX_LMEM_RESIZE_TO_MAX.0
}

fn a_context_has_the_flags_that_it_was_asked_to_have(rig: &Rig) {
    let create = |flags| {
        let mut context: CUcontext = null_mut();
        (cu!(rig, cuCtxCreate_v2(&mut context, flags, 0)), context)
    };
    for asked in [0, 1, 2, 4, 8, 16, 24, 28, 0x8c] {
        let (code, context) = create(asked);
        assert_eq!((code, flags(rig)), (0, asked & !16));
        // Whether host memory is mapped stays, and the rest is replaced.
        assert_eq!(cu!(rig, cuCtxSetFlags(4)), 0);
        assert_eq!(flags(rig), 4 | (asked & 8));
        for (wanted, told) in [(16, 0), (8, 0), (24, 0), (0, 0)] {
            assert_eq!(cu!(rig, cuCtxSetFlags(wanted)), 0);
            assert_eq!(flags(rig), told | (asked & 8));
        }
        assert_eq!(cu!(rig, cuCtxSetFlags(3)), 1);
        ok!(rig, cuCtxDestroy_v2(context));
    }
    assert_eq!((create(3).0, create(0x100).0, create(0xff00).0), (1, 1, 1));
    assert_eq!(cu!(rig, cuDevicePrimaryCtxSetFlags_v2(0, 8)), 1);
    let (mut state, mut active) = (0, 0);
    ok!(rig, cuDevicePrimaryCtxSetFlags_v2(0, 4));
    ok!(rig, cuDevicePrimaryCtxGetState(0, &mut state, &mut active));
    assert_eq!((flags(rig) & 12, state), (12, 4));
    ok!(rig, cuDevicePrimaryCtxSetFlags_v2(0, 0));
}

fn contexts_take_no_parameters(rig: &Rig) {
    let mut context: CUcontext = null_mut();
    let mut affinity = CUexecAffinityParam {
        type_: CU_EXEC_AFFINITY_TYPE_SM_COUNT,
        param: CUexecAffinityParam_st__bindgen_ty_1 { smCount: CUexecAffinitySmCount { val: 4 } },
    };
    let mut with = |affinity, count| {
        let mut params = CUctxCreateParams {
            execAffinityParams: affinity,
            numExecAffinityParams: count,
            cigParams: null_mut(),
        };
        let newer = cu!(rig, cuCtxCreate_v4(&mut context, &mut params, 0, 0));
        if newer == 0 {
            ok!(rig, cuCtxDestroy_v2(context));
        }
        let older = cu!(rig, cuCtxCreate_v3(&mut context, affinity, count, 0, 0));
        if older == 0 {
            ok!(rig, cuCtxDestroy_v2(context));
        }
        (newer, older)
    };
    assert_eq!(with(null_mut(), 0), (0, 0));
    assert_eq!(with(&mut affinity, 0), (0, 0));
    assert_eq!(with(&mut affinity, 1), (224, 224));
    assert_eq!(with(null_mut(), 1), (1, 1));
    assert_eq!(cu!(rig, cuCtxCreate_v4(null_mut(), null_mut(), 0, 0)), 1);
    assert_eq!(cu!(rig, cuCtxCreate_v4(&mut context, null_mut(), 0, 99)), 101);
    let mut supported = 9;
    let kind = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    assert_eq!(cu!(rig, cuDeviceGetExecAffinitySupport(&mut supported, kind, 0)), 0);
    assert_eq!(supported, 0);
    assert_eq!(cu!(rig, cuCtxGetExecAffinity(&mut affinity, kind)), 0);
    // SAFETY: the call wrote the number of multiprocessors.
    assert_eq!(unsafe { affinity.param.smCount.val }, 132);
    assert_eq!(cu!(rig, cuCtxGetExecAffinity(&mut affinity, CUexecAffinityType_enum(5))), 224);
}

fn preferences_of_a_context_are_kept(rig: &Rig) {
    let cache = || {
        let mut cache = CUfunc_cache_enum(9);
        (cu!(rig, cuCtxGetCacheConfig(&mut cache)), cache.0)
    };
    assert_eq!(cache(), (0, 0));
    assert_eq!(cu!(rig, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1)), 0);
    assert_eq!(cache(), (0, 2));
    assert_eq!(cu!(rig, cuCtxSetCacheConfig(CUfunc_cache_enum(4))), 1);
    ok!(rig, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    assert_eq!(cu!(rig, cuCtxGetCacheConfig(null_mut())), 1);
    let mut banks = CUsharedconfig_enum(9);
    ok!(rig, cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
    ok!(rig, cuCtxGetSharedMemConfig(&mut banks));
    assert_eq!(banks, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
    assert_eq!(cu!(rig, cuCtxSetSharedMemConfig(CUsharedconfig_enum(7))), 1);
    ok!(rig, cuCtxResetPersistingL2Cache());
    let mut device = 9;
    ok!(rig, cuCtxGetDevice_v2(&mut device, rig.context));
    ok!(rig, cuCtxGetDevice_v2(&mut device, null_mut()));
    assert_eq!((device, cu!(rig, cuCtxGetDevice_v2(null_mut(), null_mut()))), (0, 1));
    ok!(rig, cuCtxSynchronize_v2(rig.context));
    ok!(rig, cuCtxSynchronize_v2(null_mut()));
    let mut context = null_mut();
    let mut green = std::ptr::dangling_mut();
    ok!(rig, cuStreamGetCtx_v2(rig.stream, &mut context, &mut green));
    assert!(context == rig.context && green.is_null());
    assert_eq!(cu!(rig, cuStreamGetCtx_v2(rig.stream, null_mut(), null_mut())), 1);
}

fn attachments_are_counted(rig: &Rig) {
    let current = || -> CUcontext { make!(rig, cuCtxGetCurrent()) };
    let own: CUcontext = make!(rig, cuCtxCreate_v2(0, 0));
    let attached: CUcontext = make!(rig, cuCtxAttach(0));
    assert_eq!(attached, own);
    assert_eq!((cu!(rig, cuCtxDetach(own)), current()), (0, own));
    assert_eq!((cu!(rig, cuCtxDetach(own)), current()), (0, rig.context));
    // The primary context is counted by its retains alone.
    assert_eq!((cu!(rig, cuCtxDetach(rig.context)), current()), (0, rig.context));
    assert_eq!(cu!(rig, cuCtxDetach(null_mut())), 201);
    assert_eq!(cu!(rig, cuCtxAttach(null_mut(), 0)), 1);
    assert_eq!(cu!(rig, cuCtxAttach(&mut null_mut(), 1)), 1);
}

fn a_context_is_no_peer_of_its_own_device(rig: &Rig) {
    assert_eq!(cu!(rig, cuCtxEnablePeerAccess(rig.context, 0)), 217);
    assert_eq!(cu!(rig, cuCtxEnablePeerAccess(null_mut(), 0)), 201);
    assert_eq!(cu!(rig, cuCtxDisablePeerAccess(rig.context)), 705);
    assert_eq!(cu!(rig, cuCtxDisablePeerAccess(null_mut())), 201);
    let own: CUcontext = make!(rig, cuCtxCreate_v2(0, 0));
    assert_eq!(cu!(rig, cuCtxEnablePeerAccess(rig.context, 0)), 217);
    assert_eq!(cu!(rig, cuCtxEnablePeerAccess(rig.context, 1)), 1);
    ok!(rig, cuCtxDestroy_v2(own));
    let mut value = 9;
    for number in 0..8 {
        let attribute = CUdevice_P2PAttribute_enum(number);
        assert_eq!(cu!(rig, cuDeviceGetP2PAttribute(&mut value, attribute, 0, 0)), 101);
    }
    let attribute = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    assert_eq!(cu!(rig, cuDeviceGetP2PAttribute(null_mut(), attribute, 0, 0)), 1);
    ok!(rig, cuDeviceCanAccessPeer(&mut value, 0, 0));
    assert_eq!(value, 0);
}

fn a_device_is_found_by_its_place(rig: &Rig) {
    let mut place = [0; 32];
    ok!(rig, cuDeviceGetPCIBusId(place.as_mut_ptr(), 13, 0));
    assert_eq!(cu!(rig, cuDeviceGetPCIBusId([0; 32].as_mut_ptr(), 12, 0)), 1);
    let bytes = place.map(|c| c as u8);
    let text = std::ffi::CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_owned();
    let find = |text: &str| {
        let text = CString::new(text).unwrap();
        let mut device = 9;
        (cu!(rig, cuDeviceGetByPCIBusId(&mut device, text.as_ptr())), device)
    };
    let (domain, rest) = text.split_once(':').unwrap();
    let without_function = rest.split_once('.').unwrap().0;
    assert_eq!(find(&text), (0, 0));
    assert_eq!(find(&text.to_lowercase()), (0, 0));
    assert_eq!(find(rest), (0, 0));
    assert_eq!(find(&format!("{domain}:{without_function}")), (0, 0));
    assert_eq!(find(without_function), (1, 9));
    assert_eq!(find("0000:7f:1f.0"), (101, 9));
    assert_eq!((find("hello"), find("")), ((1, 9), (1, 9)));
    assert_eq!(cu!(rig, cuDeviceGetByPCIBusId(&mut 0, null())), 1);
}

fn old_questions_about_devices_have_answers(rig: &Rig) {
    let (mut major, mut minor) = (0, 0);
    ok!(rig, cuDeviceComputeCapability(&mut major, &mut minor, 0));
    assert_eq!((major, minor), (9, 0));
    assert_eq!(cu!(rig, cuDeviceComputeCapability(null_mut(), &mut minor, 0)), 1);
    assert_eq!(cu!(rig, cuDeviceComputeCapability(&mut major, &mut minor, 9)), 101);
    let properties: CUdevprop_v1 = make!(rig, cuDeviceGetProperties(0));
    let expected = (1024, [1024, 1024, 64], [i32::MAX, 65_535, 65_535], 49_152, 32, 512);
    let p = properties;
    let told = (
        p.maxThreadsPerBlock,
        p.maxThreadsDim,
        p.maxGridSize,
        p.sharedMemPerBlock,
        p.SIMDWidth,
        p.textureAlign,
    );
    assert_eq!(told, expected);
    assert_eq!(cu!(rig, cuDeviceGetProperties(null_mut(), 0)), 1);
    let width = |format, channels| {
        let mut width = 0;
        let format = CUarray_format_enum(format);
        (cu!(rig, cuDeviceGetTexture1DLinearMaxWidth(&mut width, format, channels, 0)), width)
    };
    assert_eq!(
        [width(1, 1), width(32, 2), width(3, 4)],
        [(0, 1 << 30), (0, 1 << 29), (0, 1 << 28)]
    );
    assert_eq!([width(1, 3), width(7, 1), width(1, 0)], [(1, 0); 3]);
    let mut table = std::ptr::dangling();
    let id = CUuuid { bytes: [7; 16] };
    assert_eq!(cu!(rig, cuGetExportTable(&mut table, &id)), 1);
    assert!(table.is_null());
    assert_eq!(cu!(rig, cuGetExportTable(null_mut(), &id)), 1);
    let mut mode = CUmoduleLoadingMode_enum(9);
    ok!(rig, cuModuleGetLoadingMode(&mut mode));
    assert_eq!(mode, CU_MODULE_LAZY_LOADING);
    let ask = |version, flags| {
        let (mut address, mut found) = (null_mut(), CUdriverProcAddressQueryResult_enum(9));
        let name = c"cuInit".as_ptr();
        let code = cu!(rig, cuGetProcAddress_v2(name, &mut address, version, flags, &mut found));
        (code, address.is_null(), found.0)
    };
    let newer = rig.driver.version() + 10;
    assert_eq!([ask(newer, 0), ask(99_000, 0), ask(12_000, 4)], [(1, true, 9); 3]);
    assert_eq!(
        [ask(2_000, 0), ask(-1, 0), ask(1_999, 0)],
        [(0, false, 0), (0, false, 0), (0, true, 2)]
    );
    for _ in 0..2 {
        ok!(rig, cuProfilerStart());
    }
    ok!(rig, cuProfilerStop());
}

fn copies_that_wait_are_held_against_the_memory(rig: &Rig) {
    let mut host = [1_u8; 256];
    let at = host.as_mut_ptr().expose_provenance() as u64;
    let (a, b) = (rig.buffer, rig.buffer + 1024);
    let past = BUFFER_BYTES + 1;
    let copy = |to, from, bytes| cu!(rig, cuMemcpy(to, from, bytes));
    assert_eq!([copy(a, at, 16), copy(at, a, 16), copy(a, b, 16), copy(at, at + 64, 16)], [0; 4]);
    assert_eq!([copy(0, 0, 0), copy(0, a, 0)], [0; 2]);
    assert_eq!([copy(0, a, 4), copy(a, 0, 4), copy(a, a, past)], [1; 3]);
    let (c, null_context) = (rig.context, null_mut());
    let peer = |to, to_context, from, from_context, bytes| {
        cu!(rig, cuMemcpyPeer(to, to_context, from, from_context, bytes))
    };
    assert_eq!([peer(a, c, b, c, 16), peer(a, null_context, b, null_context, 16)], [0; 2]);
    assert_eq!([peer(0, c, 0, c, 0), peer(0, c, b, c, 4), peer(a, c, at, c, 4)], [0, 1, 1]);
    let flat = CUDA_MEMCPY2D_v2 {
        srcMemoryType: CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcPitch: 64,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: a,
        dstPitch: 64,
        WidthInBytes: 16,
        Height: 4,
        // SAFETY: numbers and pointers may be all zeros.
        ..unsafe { std::mem::zeroed() }
    };
    let both = |copy: &CUDA_MEMCPY2D_v2| {
        (cu!(rig, cuMemcpy2D_v2(copy)), cu!(rig, cuMemcpy2DUnaligned_v2(copy)))
    };
    assert_eq!(both(&flat), (0, 0));
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { srcPitch: 8, ..flat }), (1, 1));
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { Height: 0, ..flat }), (0, 0));
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { WidthInBytes: 0, ..flat }), (0, 0));
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { Height: 1 << 20, ..flat }), (1, 1));
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { dstXInBytes: 60, ..flat }), (1, 1));
    let wrong = CUmemorytype_enum(9);
    assert_eq!(both(&CUDA_MEMCPY2D_v2 { srcMemoryType: wrong, ..flat }), (1, 1));
    assert_eq!(cu!(rig, cuMemcpy2D_v2(null())), 1);
    assert_eq!(cu!(rig, cuMemcpy3D_v2(null())), 1);
    // Without a pitch, rows lie one behind the other.
    let source: Vec<u8> = (0..64).collect();
    let tight = CUDA_MEMCPY2D_v2 { srcHost: source.as_ptr().cast(), srcPitch: 0, ..flat };
    assert_eq!(cu!(rig, cuMemcpy2D_v2(&tight)), 0);
    let mut back = [0_u8; 256];
    ok!(rig, cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), a, 256));
    assert_eq!([back[0], back[64], back[128], back[192]], [0, 16, 32, 48]);
    let tight =
        CUDA_MEMCPY2D_v2 { srcHost: source.as_ptr().cast(), srcPitch: 16, dstPitch: 0, ..flat };
    ok!(rig, cuMemcpy2DAsync_v2(&tight, rig.stream));
    ok!(rig, cuStreamSynchronize(rig.stream));
    ok!(rig, cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), a, 256));
    assert_eq!(back[..64], source[..]);
}

fn fills_that_wait_are_held_against_the_memory(rig: &Rig) {
    let a = rig.buffer;
    let fill = |at, count| cu!(rig, cuMemsetD16_v2(at, 1, count));
    assert_eq!([fill(a, 8), fill(a, 0), fill(0, 0)], [0; 3]);
    assert_eq!([fill(a + 1, 8), fill(0, 4)], [1; 2]);
    let bytes = |pitch, width, height| cu!(rig, cuMemsetD2D8_v2(a, pitch, 1, width, height));
    assert_eq!([bytes(64, 16, 4), bytes(0, 16, 1), bytes(64, 0, 4), bytes(64, 16, 0)], [0; 4]);
    assert_eq!(bytes(8, 16, 4), 1);
    let halves = |at, pitch| cu!(rig, cuMemsetD2D16_v2(at, pitch, 1, 16, 4));
    assert_eq!([halves(a, 64), halves(a, 63), halves(a + 1, 64)], [0, 1, 1]);
    let words = |at, pitch, height| cu!(rig, cuMemsetD2D32_v2(at, pitch, 1, 15, height));
    assert_eq!([words(a, 64, 4), words(a, 62, 4), words(a + 2, 64, 4)], [0, 1, 1]);
    assert_eq!(words(a, 64, 1 << 20), 1);
}

fn flags_of_host_memory_are_told_back(rig: &Rig) {
    let flags = |host| {
        let mut flags = 99;
        (cu!(rig, cuMemHostGetFlags(&mut flags, host)), flags)
    };
    for (asked, told) in [(0, 2), (1, 3), (2, 2), (3, 3), (4, 6), (5, 7), (7, 7)] {
        let host: *mut c_void = make!(rig, cuMemHostAlloc(64, asked));
        assert_eq!(flags(host), (0, told), "{asked}");
        assert_eq!(flags(host.wrapping_byte_add(10)), (0, told));
        ok!(rig, cuMemFreeHost(host));
    }
    let mut own = vec![0_u8; 3 << 12];
    let page = own.as_mut_ptr().map_addr(|at| at.next_multiple_of(1 << 12)).cast::<c_void>();
    for (asked, told) in [(0, 2), (1, 3), (2, 2), (3, 3), (8, 2)] {
        ok!(rig, cuMemHostRegister_v2(page, 1 << 12, asked));
        assert_eq!(flags(page), (0, told), "{asked}");
        ok!(rig, cuMemHostUnregister(page));
    }
    let managed: CUdeviceptr = make!(rig, cuMemAllocManaged(64, 1));
    assert_eq!(flags(std::ptr::without_provenance_mut(managed as usize)), (0, 2));
    ok!(rig, cuMemFree_v2(managed));
    assert_eq!([flags(null_mut()), flags(page)], [(1, 99); 2]);
    assert_eq!(flags(std::ptr::without_provenance_mut(rig.buffer as usize)), (1, 99));
    assert_eq!(cu!(rig, cuMemHostGetFlags(null_mut(), page)), 1);
}

/// A place for memory.
fn location(kind: CUmemLocationType, id: i32) -> CUmemLocation {
    let __bindgen_anon_1 = CUmemLocation_st__bindgen_ty_1 { id };
    CUmemLocation { type_: kind, __bindgen_anon_1 }
}

const MANAGED: usize = 1 << 21;

fn managed_memory_is_prefetched_and_advised(rig: &Rig) {
    let u: CUdeviceptr = make!(rig, cuMemAllocManaged(MANAGED, 1));
    let device = location(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    let host = location(CU_MEM_LOCATION_TYPE_HOST, 0);
    let bad = location(CU_MEM_LOCATION_TYPE_DEVICE, 99);
    let none = location(CU_MEM_LOCATION_TYPE_INVALID, 0);
    let fetch =
        |at, bytes, to, flags| cu!(rig, cuMemPrefetchAsync_v2(at, bytes, to, flags, rig.stream));
    assert_eq!([fetch(u, 4096, device, 0), fetch(u, 4096, host, 0)], [0; 2]);
    assert_eq!(fetch(u, 4096, bad, 0), 101);
    assert_eq!(
        [fetch(u, 4096, none, 0), fetch(u, 4096, device, 1), fetch(u, 0, device, 0)],
        [1; 3]
    );
    assert_eq!([fetch(rig.buffer, 16, device, 0), fetch(0, 16, device, 0)], [1; 2]);
    assert_eq!(fetch(u, MANAGED * 4, device, 0), 1);
    let advise = |at, bytes, advice, to| cu!(rig, cuMemAdvise_v2(at, bytes, advice, to));
    let read = CU_MEM_ADVISE_SET_READ_MOSTLY;
    let preferred = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    assert_eq!([advise(u, 4096, read, device), advise(u, 4096, read, bad)], [0; 2]);
    assert_eq!([advise(u, 4096, preferred, device), advise(u, 4096, preferred, bad)], [0, 1]);
    assert_eq!(advise(u, 4096, CUmem_advise_enum(0), device), 1);
    assert_eq!(advise(u, 4096, CUmem_advise_enum(9), device), 1);
    assert_eq!([advise(rig.buffer, 16, read, device), advise(u, 0, read, device)], [1; 2]);
    ok!(rig, cuStreamSynchronize(rig.stream));
    ok!(rig, cuMemFree_v2(u));
}

fn advice_is_told_page_by_page(rig: &Rig) {
    let u: CUdeviceptr = make!(rig, cuMemAllocManaged(MANAGED, 1));
    let device = location(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    ok!(rig, cuMemAdvise_v2(u, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    ok!(rig, cuMemAdvise_v2(u, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    ok!(rig, cuMemAdvise_v2(u, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    ok!(rig, cuMemPrefetchAsync_v2(u, 4096, device, 0, rig.stream));
    ok!(rig, cuStreamSynchronize(rig.stream));
    let ask = |attribute, size, at, bytes| {
        let mut values = [77_i32; 8];
        let out = values.as_mut_ptr().cast();
        let attribute = CUmem_range_attribute_enum(attribute);
        let code = cu!(rig, cuMemRangeGetAttribute(out, size, attribute, at, bytes));
        (code, values[0], values[1])
    };
    let told = [1, 2, 4, 5, 6, 7, 8].map(|number| ask(number, 4, u, 4096));
    assert_eq!(told, [1, 0, 0, 1, 0, 1, 0].map(|value| (0, value, 77)));
    assert_eq!(ask(3, 32, u, 4096), (0, 0, -2));
    assert_eq!(ask(1, 4, u, MANAGED), (0, 0, 77));
    assert_eq!([ask(0, 4, u, 4096), ask(1, 8, u, 4096), ask(1, 4, u, 0)], [(1, 77, 77); 3]);
    assert_eq!(ask(1, 4, rig.buffer, 4), (1, 77, 77));
    ok!(rig, cuMemAdvise_v2(u, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
    assert_eq!(ask(1, 4, u, 4096), (0, 0, 77));
    let unsaid = [1, 2, 4, 5, 6, 7, 8].map(|number| ask(number, 4, u + 8192, 4096));
    assert_eq!(unsaid, [0, -2, -2, 0, -2, 0, -2].map(|value| (0, value, 77)));
    assert_eq!(ask(3, 32, u + 8192, 4096), (0, -2, -2));
    assert_eq!([ask(1, 3, u, 4), ask(3, 6, u, 4)], [(1, 77, 77); 2]);
    ok!(rig, cuMemAdvise_v2(u, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    let said = [u + 2048, u + 4096].map(|at| ask(1, 4, at, 4));
    assert_eq!(said, [(0, 1, 77), (0, 0, 77)]);
    for kind in [CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT] {
        ok!(rig, cuMemPrefetchAsync_v2(u, 4096, location(kind, 0), 0, rig.stream));
        ok!(rig, cuStreamSynchronize(rig.stream));
        let told = [4, 7, 8].map(|number| ask(number, 4, u, 4096).1);
        assert_eq!(told, [-1, kind.0 as i32, 0]);
    }
    ok!(rig, cuMemFree_v2(u));
}

fn attributes_of_an_address_come_together(rig: &Rig) {
    let ask = |numbers: [u32; 4], address| {
        let mut attributes = numbers.map(CUpointer_attribute_enum);
        let (mut context, mut kind, mut device, mut host) = (5_usize, 55_u32, 55_u64, 55_u64);
        let mut data: [*mut c_void; 4] = [
            (&raw mut context).cast(),
            (&raw mut kind).cast(),
            (&raw mut device).cast(),
            (&raw mut host).cast(),
        ];
        let (attributes, data) = (attributes.as_mut_ptr(), data.as_mut_ptr());
        let code = cu!(rig, cuPointerGetAttributes(4, attributes, data, address));
        (code, context, kind, device, host)
    };
    let context = rig.context.addr();
    assert_eq!(ask([1, 2, 3, 4], rig.buffer), (0, context, 2, rig.buffer, 0));
    let local = 0_u8;
    let pageable = (&raw const local).addr() as u64;
    assert_eq!(ask([1, 2, 3, 4], pageable), (0, 0, 0, 0, pageable));
    assert_eq!(ask([1, 2, 3, 4], 0), (0, 0, 0, 0, 0));
    assert_eq!(ask([1, 2, 3, 99], rig.buffer), (1, context, 2, rig.buffer, 55));
    assert_eq!(cu!(rig, cuPointerGetAttributes(0, null_mut(), null_mut(), rig.buffer)), 1);
    assert_eq!(ask([1, 2, 3, 5], rig.buffer), (1, context, 2, rig.buffer, 55));
    assert_eq!(ask([1, 5, 3, 4], rig.buffer), (1, context, 55, 55, 55));
    assert_eq!(ask([1, 2, 11, 4], 0), (0, 0, 0, 55, 0));
    assert_eq!(ask([1, 9, 3, 4], 0), (0, 0, -2_i32 as u32, 0, 0));
    let one = 1_u32;
    let set = |value: *const u32, number, address| {
        let attribute = CUpointer_attribute_enum(number);
        cu!(rig, cuPointerSetAttribute(value.cast(), attribute, address))
    };
    assert_eq!([set(&one, 6, rig.buffer), set(&one, 1, rig.buffer)], [0, 1]);
    assert_eq!([set(null(), 6, rig.buffer), set(&one, 6, 0)], [1; 2]);
    let waits: u32 = {
        let mut waits = 9_u32;
        let attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
        ok!(rig, cuPointerGetAttribute((&raw mut waits).cast(), attribute, rig.buffer));
        waits
    };
    assert_eq!(waits, 1);
}

fn settings_of_kernels_are_checked(rig: &Rig) {
    let text = c".version 8.0\n.target sm_50\n.address_size 64\n.visible .entry k(){ ret; }\n";
    let text = text.as_ptr().cast::<c_void>();
    let none = null_mut();
    let load = |option: u32| {
        let mut library: CUlibrary = null_mut();
        let mut option = CUlibraryOption_enum(option);
        let code = cu!(
            rig,
            cuLibraryLoadData(&mut library, text, none, null_mut(), 0, &mut option, null_mut(), 1)
        );
        (code, library)
    };
    let (code, library) = load(CU_LIBRARY_BINARY_IS_PRESERVED.0);
    assert_eq!(code, 0);
    let kernel: CUkernel = make!(rig, cuLibraryGetKernel(library, c"k".as_ptr()));
    let of: CUlibrary = make!(rig, cuKernelGetLibrary(kernel));
    assert_eq!(of, library);
    assert_eq!(cu!(rig, cuKernelGetLibrary(null_mut(), kernel)), 1);
    assert_eq!(cu!(rig, cuKernelGetLibrary(&mut null_mut(), null_mut())), 400);
    let prefer = |kernel, config, device| {
        cu!(rig, cuKernelSetCacheConfig(kernel, CUfunc_cache_enum(config), device))
    };
    assert_eq!([prefer(kernel, 2, 0), prefer(kernel, 9, 0), prefer(kernel, 2, 9)], [0, 1, 101]);
    assert_eq!(prefer(null_mut(), 2, 0), 400);
    let function: CUfunction = make!(rig, cuKernelGetFunction(kernel));
    assert_eq!(cu!(rig, cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1)), 0);
    assert_eq!(cu!(rig, cuFuncSetCacheConfig(function, CUfunc_cache_enum(9))), 1);
    assert_eq!(cu!(rig, cuFuncSetCacheConfig(null_mut(), CU_FUNC_CACHE_PREFER_L1)), 400);
    assert_eq!(cu!(rig, cuFuncSetSharedMemConfig(function, CUsharedconfig_enum(9))), 1);
    let (mut address, mut bytes) = (0, 0);
    let managed = |address, bytes| {
        cu!(rig, cuLibraryGetManaged(address, bytes, library, c"nothing".as_ptr()))
    };
    assert_eq!([managed(&mut address, &mut bytes), managed(null_mut(), null_mut())], [500, 1]);
    let mut pointer = null_mut();
    assert_eq!(cu!(rig, cuLibraryGetUnifiedFunction(&mut pointer, library, c"k".as_ptr())), 1);
    ok!(rig, cuLibraryUnload(library));
    let from_file = |path: *const std::ffi::c_char| {
        let mut library = null_mut();
        let none = null_mut();
        let nothing = null_mut();
        cu!(
            rig,
            cuLibraryLoadFromFile(&mut library, path, none, null_mut(), 0, nothing, null_mut(), 0)
        )
    };
    assert_eq!([from_file(c"/nonexistent".as_ptr()), from_file(null())], [301, 1]);
    let mut module = null_mut();
    ok!(rig, cuModuleLoadFatBinary(&mut module, text));
    ok!(rig, cuModuleUnload(module));
    assert_eq!(cu!(rig, cuModuleLoadFatBinary(&mut module, null())), 1);
}

/// What a call during a capture in each mode answers: 900 breaks the capture.
fn what_a_capture_says_to_these_calls(rig: &Rig) {
    let u: CUdeviceptr = make!(rig, cuMemAllocManaged(MANAGED, 1));
    let device = location(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    let one = 1_u32;
    let one = (&raw const one).cast::<c_void>();
    let sync = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    let read = CU_MEM_ADVISE_SET_READ_MOSTLY;
    let (a, c) = (rig.buffer, rig.context);
    let always = [
        rig.codes(|| cu!(rig, cuMemcpyPeerAsync(a, c, a + 64, c, 16, rig.stream))),
        rig.codes(|| cu!(rig, cuMemPrefetchAsync_v2(u, 4096, device, 0, rig.stream))),
        rig.codes(|| cu!(rig, cuCtxSynchronize_v2(c))),
    ];
    assert_eq!(always, [[900; 3]; 3]);
    let barred = [
        rig.codes(|| cu!(rig, cuMemAdvise_v2(u, 4096, read, device))),
        rig.codes(|| cu!(rig, cuPointerSetAttribute(one, sync, a))),
        rig.codes(|| cu!(rig, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE))),
        rig.codes(|| cu!(rig, cuProfilerStart())),
        rig.codes(|| cu!(rig, cuProfilerStop())),
    ];
    assert_eq!(barred, [[900, 900, 0]; 5]);
    let mut cache = CUfunc_cache_enum(0);
    let free = [
        rig.codes(|| cu!(rig, cuMemcpy(a, a + 64, 16))),
        rig.codes(|| cu!(rig, cuMemsetD16_v2(a, 1, 8))),
        rig.codes(|| cu!(rig, cuMemPrefetchAsync_v2(u, 4096, device, 0, rig.other))),
        rig.codes(|| cu!(rig, cuStreamWriteValue64_v2(rig.stream, a, 5, 0))),
        rig.codes(|| cu!(rig, cuCtxGetCacheConfig(&mut cache))),
        rig.codes(|| cu!(rig, cuCtxResetPersistingL2Cache())),
    ];
    assert_eq!(free, [[0; 3]; 6]);
    ok!(rig, cuStreamSynchronize(rig.other));
    ok!(rig, cuMemFree_v2(u));
}

impl Rig {
    /// The codes of a call during a capture in each mode; 900 has broken it, and nothing else.
    fn codes(&self, mut call: impl FnMut() -> u32) -> [u32; 3] {
        [GLOBAL, THREAD_LOCAL, RELAXED].map(|mode| {
            let (code, status, end, _) = self.during(self.stream, mode, &mut call);
            let broken = code == 900;
            assert_eq!((status, end), if broken { (2, 901) } else { (1, 0) });
            code
        })
    }
}
