//! Kernels that go wrong break their context, and the simulation says how.

mod common;

use std::ptr::null_mut;

use common::{PTX, Setup};
use grapture_sim::SimConfig;
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
    assert_eq!(
        text,
        "illegal address 0x4000000000040 in a 4-byte write in kernel 'k', line 8, block (0,0,0), \
         thread (0,0,0): 4 bytes at 0x4000000000040 lie 0 bytes past the end of the allocation of \
         64 bytes at 0x4000000000000 made by cuMemAlloc"
    );
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
    let end = "lie in memory that was freed: 64 bytes at 0x4000000000000 made by cuMemAlloc";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn memory_that_is_freed_while_a_kernel_runs_is_found() {
    let t = Setup::new();
    let (stream, other, mut buffer) = (t.stream(), t.stream(), 0);
    assert_eq!(call!(t, cuMemAllocAsync(&mut buffer, 64, stream)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    let spin = t.function(t.module(PTX), "spin");
    // It reads the word until it is not zero, and nobody writes it.
    assert_eq!(t.launch(spin, stream, &mut [(&raw mut buffer).cast()]), 0);
    assert_eq!(call!(t, cuMemFreeAsync(buffer, other)), 0);
    common::eventually("the kernel fails", || call!(t, cuStreamQuery(stream)) == 700);
    let text = t.sim.last_fault().unwrap();
    assert!(text.contains("in a 4-byte read in kernel 'spin', line 12"), "{text}");
    let end = "lie in memory that was freed: 64 bytes at 0x4000000000000 made by cuMemAllocAsync";
    assert!(text.ends_with(end), "{text}");
}

/// Runs a kernel over a word of fresh memory, whose first 8 bytes were filled.
fn over_fresh_memory(config: SimConfig, body: &str, offset: u64) -> (u32, Option<String>) {
    let t = Setup::with(config);
    let (stream, mut buffer) = (t.stream(), t.alloc(64));
    assert_eq!(call!(t, cuMemsetD8Async(buffer, 1, 8, stream)), 0);
    let text = format!(
        ".version 6.4\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p){{\n\
         .reg .b64 %rd<4>; .reg .b32 %r<4>;\n ld.param.u64 %rd1,[p];\n{body}\nret;}}\n"
    );
    let function = t.function(t.module(&text), "k");
    buffer += offset;
    assert_eq!(t.launch(function, stream, &mut [(&raw mut buffer).cast()]), 0);
    (call!(t, cuStreamSynchronize(stream)), t.sim.last_fault())
}

#[test]
fn a_read_of_memory_that_nobody_wrote_is_found_where_that_is_asked() {
    let checked = || SimConfig::new().check_uninitialised(true);
    let load = "ld.global.u32 %r1,[%rd1];";
    assert_eq!(over_fresh_memory(checked(), load, 4), (0, None));
    assert_eq!(over_fresh_memory(SimConfig::new(), load, 8), (0, None));
    let (code, text) = over_fresh_memory(checked(), load, 8);
    assert_eq!(code, 719);
    assert_eq!(
        text.unwrap(),
        "uninitialised memory at 0x4000000000008 in a 4-byte read in kernel 'k', line 7, block \
         (0,0,0), thread (0,0,0): nobody wrote there since it was allocated: 64 bytes at \
         0x4000000000000 made by cuMemAlloc"
    );
    let store = "st.global.u32 [%rd1],%r1; ld.global.u32 %r1,[%rd1];";
    assert_eq!(over_fresh_memory(checked(), store, 8), (0, None));
    let wide = "ld.global.u64 %rd2,[%rd1];";
    assert_eq!(over_fresh_memory(checked(), wide, 8).0, 719);
    let atomic = "red.global.add.u32 [%rd1],1;";
    assert_eq!(over_fresh_memory(checked(), atomic, 8).0, 719);
    let exchange = "atom.global.exch.b32 %r1,[%rd1],1; ld.global.u32 %r1,[%rd1];";
    assert_eq!(over_fresh_memory(checked(), exchange, 8), (0, None));
}

#[test]
fn a_misaligned_address_and_a_trap_have_their_codes() {
    let t = Setup::new();
    let (stream, buffer) = (t.stream(), t.alloc(64));
    assert_eq!(add_at(&t, buffer + 2, stream), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 716);
    assert_eq!(
        t.sim.last_fault().unwrap(),
        "misaligned address 0x4000000000002 in a 4-byte write in kernel 'k', line 8, block \
         (0,0,0), thread (0,0,0): it lies in 64 bytes at 0x4000000000000 made by cuMemAlloc"
    );
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
