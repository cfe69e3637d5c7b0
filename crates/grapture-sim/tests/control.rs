//! The controls of a simulation, and what makes one driver differ from another.

mod common;

use std::ptr::null_mut;

use common::{PTX, Setup};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

#[test]
fn every_call_is_counted() {
    let t = Setup::new();
    t.sim.reset_calls();
    t.stream();
    t.stream();
    assert_eq!(t.sim.calls(Function::cuStreamCreate), 2);
    assert_eq!(t.sim.total_calls(), 2);
}

#[test]
fn the_call_that_is_asked_to_fail_fails_and_does_nothing() {
    let t = Setup::new();
    t.sim.fail(Function::cuStreamCreate, 2, CUDA_ERROR_OUT_OF_MEMORY);
    let mut stream = null_mut();
    assert_eq!(call!(t, cuStreamCreate(&mut stream, 1)), 0);
    let mut untouched = null_mut();
    assert_eq!(call!(t, cuStreamCreate(&mut untouched, 1)), 2);
    assert!(untouched.is_null());
    assert_eq!(t.sim.live().streams, 1);
    assert_eq!(call!(t, cuStreamCreate(&mut stream, 1)), 0);
    t.sim.fail_any(1, CUDA_ERROR_UNKNOWN);
    assert_eq!(call!(t, cuCtxSynchronize()), 999);
    t.sim.fail(Function::cuCtxSynchronize, 1, CUDA_ERROR_UNKNOWN);
    t.sim.clear_failures();
    assert_eq!(call!(t, cuCtxSynchronize()), 0);
}

#[test]
fn what_lives_is_counted_until_it_is_given_back() {
    let t = Setup::new();
    let (stream, event, module) = (t.stream(), t.event(), t.module(PTX));
    let (device, pinned): (_, *mut core::ffi::c_void) =
        (t.alloc(100), make!(t, cuMemHostAlloc(50, 0)));
    let live = t.sim.live();
    assert_eq!(
        (live.primary_retains, live.streams, live.events, live.modules, live.device_allocations),
        (1, 1, 1, 1, 1)
    );
    assert_eq!((live.device_bytes, live.pinned, live.pinned_bytes), (100, 1, 50));
    assert!(live.to_string().contains("1 pinned regions"), "{live}");
    assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 0);
    assert_eq!(call!(t, cuEventDestroy_v2(event)), 0);
    assert_eq!(call!(t, cuModuleUnload(module)), 0);
    assert_eq!(call!(t, cuMemFree_v2(device)), 0);
    assert_eq!(call!(t, cuMemFreeHost(pinned)), 0);
    t.finish();
}

#[test]
fn handles_of_another_simulation_or_gone_are_refused() {
    let (a, b) = (Setup::new(), Setup::new());
    let (mine, theirs) = (a.stream(), b.stream());
    assert_eq!(call!(a, cuStreamSynchronize(theirs)), 400);
    assert_eq!(call!(b, cuStreamSynchronize(theirs)), 0);
    assert_eq!(call!(a, cuStreamDestroy_v2(mine)), 0);
    assert_eq!(call!(a, cuStreamSynchronize(mine)), 400);
    assert_eq!(call!(a, cuEventQuery(mine.cast())), 400);
    assert_eq!(call!(a, cuCtxSetCurrent(b.context)), 201);
}

#[test]
fn simulations_come_and_go_beyond_the_number_of_slots() {
    for _ in 0..3 {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                std::thread::spawn(|| {
                    let t = Setup::new();
                    let stream = t.stream();
                    t.host(stream, || {});
                    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
                    assert_eq!(t.sim.calls(Function::cuStreamSynchronize), 1);
                    assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 0);
                    t.finish();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn an_endless_kernel_does_not_keep_a_simulation_alive() {
    let t = Setup::new();
    let spin = t.function(t.module(PTX), "spin");
    let mut flag = t.alloc(4);
    let stream = t.stream();
    assert_eq!(t.launch(spin, stream, &mut [(&raw mut flag).cast()]), 0);
    drop(t);
}

#[test]
fn functions_newer_than_the_driver_are_missing() {
    let old = Simulation::new(SimConfig::new().driver_version(11_020)).driver();
    assert_eq!(old.version(), 11_020);
    assert!(old.has(Function::cuMemAllocAsync) && !old.has(Function::cuGetProcAddress_v2));
    assert!(!old.has(Function::cuLibraryLoadData));
    let mut library = null_mut();
    let none = null_mut();
    let code = call!(
        old,
        cuLibraryLoadData(
            &mut library,
            std::ptr::null(),
            none,
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            0
        )
    );
    assert_eq!(code, 801);
    let new = Simulation::new(SimConfig::new()).driver();
    for function in Function::ALL {
        let since = function.info().since;
        assert!(!new.has(*function) || since <= 13_000, "{function:?}");
        assert!(!old.has(*function) || since <= 11_020, "{function:?}");
    }
}

#[test]
fn names_and_versions_are_looked_up_as_the_driver_does() {
    let sim = Simulation::new(SimConfig::new().driver_version(12_020));
    let driver = sim.driver();
    let get = |name: &std::ffi::CStr, version, flags| {
        let (mut address, mut status) = (null_mut(), CUdriverProcAddressQueryResult(9));
        let name = name.as_ptr();
        let code =
            call!(driver, cuGetProcAddress_v2(name, &mut address, version, flags, &mut status));
        (code, address, status.0)
    };
    let (code, newest, status) = get(c"cuMemAlloc", -1, 0);
    assert!((code, status) == (0, 0) && !newest.is_null());
    assert_eq!(get(c"cuMemAlloc", 12_020, 1).1, newest);
    assert_eq!(get(c"cuMemAlloc_v2", 12_020, 0), (0, null_mut(), 1));
    assert_eq!(get(c"", 12_020, 0), (0, null_mut(), 1));
    assert_eq!(get(c"cuMemAllocAsync", 11_010, 0), (0, null_mut(), 2));
    assert_eq!(get(c"cuKernelGetName", 12_020, 0), (0, null_mut(), 1));
    // Newer than the driver: only those from 13.0 on refuse the question.
    assert_eq!(get(c"cuKernelGetName", 12_030, 0), (0, null_mut(), 1));
    assert_eq!(get(c"cuMemAlloc", 12_020, 4).0, 1);
    let mut address = null_mut();
    let old = |name: &std::ffi::CStr, address| {
        call!(driver, cuGetProcAddress(name.as_ptr(), address, 12_000, 0))
    };
    assert_eq!(old(c"cuNothing", &mut address), 500);
    assert_eq!((old(c"cuCtxGetId", &mut address), address.is_null()), (0, false));
}

#[test]
fn a_driver_without_devices_says_so_at_once() {
    let sim = Simulation::new(SimConfig::new().no_device());
    let LoadError::Init { code, .. } = sim.load().unwrap_err() else { panic!("another error") };
    assert_eq!(code, CUDA_ERROR_NO_DEVICE);
}

#[test]
fn devices_have_their_own_memory_and_share_addresses() {
    let t = Setup::with(SimConfig::new().devices(2).memory_bytes(1 << 20));
    let first = t.alloc(512 << 10);
    let mut none = 0;
    assert_eq!(call!(t, cuMemAlloc_v2(&mut none, 600 << 10)), 2);
    let other: CUcontext = make!(t, cuDevicePrimaryCtxRetain(1));
    assert_eq!(call!(t, cuCtxPushCurrent_v2(other)), 0);
    let second = t.alloc(600 << 10);
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(t, cuMemGetInfo_v2(&mut free, &mut total)), 0);
    assert_eq!((free, total), (424 << 10, 1 << 20));
    assert_eq!(call!(t, cuMemsetD32_v2(second, 3, 4)), 0);
    let stream = t.stream();
    assert_eq!(call!(t, cuMemcpyPeerAsync(first, t.context, second, other, 16, stream)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    let mut device = 9_i32;
    let attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    let out = (&raw mut device).cast();
    assert_eq!(call!(t, cuPointerGetAttribute(out, attribute, second)), 0);
    assert_eq!(device, 1);
    assert_eq!(t.read::<u32>(first, 4), [3; 4]);
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(1)), 0);
    assert_eq!(call!(t, cuMemFree_v2(first)), 0);
    t.finish();
}

#[test]
fn one_worker_repeats_its_order_with_the_seed() {
    let run = |seed| {
        let t = Setup::with(SimConfig::new().workers(1).seed(seed));
        let buffer = t.alloc(4 * 16);
        t.sim.pause();
        let word = t.alloc(4);
        let module = t.module(PTX);
        let add = t.function(module, "k");
        let streams: Vec<_> = (0..16).map(|_| t.stream()).collect();
        for (index, stream) in streams.iter().enumerate() {
            let (mut word, mut one) = (word, 1_u32);
            t.launch(add, *stream, &mut [(&raw mut word).cast(), (&raw mut one).cast()]);
            let to = buffer + 4 * index as u64;
            assert_eq!(call!(t, cuMemcpyDtoDAsync_v2(to, word, 4, *stream)), 0);
        }
        t.sim.resume();
        assert_eq!(call!(t, cuCtxSynchronize()), 0);
        t.read::<u32>(buffer, 16)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
