//! Kernels that go wrong break their context, and the simulation says how.

mod common;

use std::ptr::null_mut;

use common::{PTX, Setup};
use grapture_sys::*;

/// Adds one at an address by a kernel.
fn add_at(t: &Setup, address: CUdeviceptr, stream: CUstream) -> u32 {
    let add = t.function(t.module(PTX), "k");
    let (mut address, mut one) = (address, 1_u32);
    t.launch(add, stream, &mut [(&raw mut address).cast(), (&raw mut one).cast()])
}

#[test]
fn an_address_out_of_bounds_breaks_the_context_for_good() {
    let t = Setup::new();
    let (stream, event, buffer) = (t.stream(), t.event(), t.alloc(64));
    assert_eq!(add_at(&t, buffer + 64, stream), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 700);
    let text = t.sim.last_fault().unwrap();
    for part in ["illegal address", "kernel 'k'", "past the end", "64 bytes"] {
        assert!(text.contains(part), "{text}");
    }
    let (mut p, mut n) = (0, null_mut());
    assert_eq!(call!(t, cuMemAlloc_v2(&mut p, 64)), 700);
    assert_eq!(call!(t, cuStreamCreate(&mut n, 0)), 700);
    assert_eq!(call!(t, cuStreamQuery(stream)), 700);
    assert_eq!(call!(t, cuEventRecord(event, stream)), 700);
    assert_eq!(call!(t, cuEventQuery(event)), 700);
    assert_eq!(call!(t, cuMemsetD32Async(buffer, 0, 1, stream)), 700);
    assert_eq!(call!(t, cuCtxSynchronize()), 700);
    assert_eq!(call!(t, cuMemFree_v2(buffer)), 700);
    assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 700);
    let mut count = 0;
    assert_eq!(call!(t, cuDeviceGetCount(&mut count)), 0);
    assert_eq!(call!(t, cuCtxGetCurrent(&mut null_mut())), 0);
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(0)), 0);
    assert!(t.sim.live().is_clean(), "left: {}", t.sim.live());
    let again: CUcontext = make!(t, cuDevicePrimaryCtxRetain(0));
    assert_eq!(call!(t, cuCtxSetCurrent(again)), 0);
    let buffer = t.alloc(64);
    assert_eq!(call!(t, cuMemFree_v2(buffer)), 0);
    t.finish();
}

#[test]
fn freed_memory_is_named() {
    let t = Setup::new();
    let (stream, buffer) = (t.stream(), t.alloc(64));
    assert_eq!(call!(t, cuMemFree_v2(buffer)), 0);
    assert_eq!(add_at(&t, buffer + 8, stream), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 700);
    let text = t.sim.last_fault().unwrap();
    assert!(text.contains("was freed: 64 bytes"), "{text}");
}

#[test]
fn a_misaligned_address_and_a_trap_have_their_codes() {
    let t = Setup::new();
    let (stream, buffer) = (t.stream(), t.alloc(64));
    assert_eq!(add_at(&t, buffer + 2, stream), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 716);
    drop(t);
    let t = Setup::new();
    let text = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){ trap; ret;}\n";
    let (stream, trap) = (t.stream(), t.function(t.module(text), "k"));
    assert_eq!(t.launch(trap, stream, &mut []), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 719);
}

#[test]
fn work_behind_a_fault_does_not_run_and_other_contexts_go_on() {
    let t = Setup::new();
    let mut other = null_mut();
    assert_eq!(call!(t, cuCtxCreate_v2(&mut other, 0, 0)), 0);
    let (elsewhere, sound) = (t.stream(), t.alloc(4));
    assert_eq!(call!(t, cuCtxPopCurrent_v2(&mut null_mut())), 0);
    let stream = t.stream();
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let note = ran.clone();
    assert_eq!(add_at(&t, 0x1000, stream), 0);
    let gate = t.gate(elsewhere);
    gate.open();
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 700);
    assert_eq!(call!(t, cuLaunchHostFunc(stream, None, null_mut())), 700);
    drop(note);
    assert!(!ran.load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(call!(t, cuMemsetD32Async(sound, 4, 1, elsewhere)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(elsewhere)), 0);
    assert_eq!(call!(t, cuCtxDestroy_v2(other)), 0);
}

#[test]
fn a_barrier_that_some_threads_never_reach_is_found() {
    let t = Setup::new();
    let text = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){\n\
        .reg .b32 %r<3>; .reg .pred %p<2>;\n mov.u32 %r1,%tid.x; setp.ne.u32 %p1,%r1,0;\n\
        @%p1 bra L;\n bar.sync 0, 64;\nL: ret;}\n";
    let (stream, function) = (t.stream(), t.function(t.module(text), "k"));
    let none = null_mut();
    assert_eq!(
        call!(t, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, null_mut(), none)),
        0
    );
    assert_ne!(call!(t, cuStreamSynchronize(stream)), 0);
    assert!(t.sim.last_fault().is_some());
}
