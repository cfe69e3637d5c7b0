//! Faults of rarer kinds, and what each of them answers from then on.

use std::ptr::null_mut;

use crate::rig::Rig;
use crate::transcript::saw;

/// Kernels that go wrong in rarer ways.
const WRONG: &str = "\
.version 6.4
.target sm_50
.address_size 64
.visible .entry brk(.param .u64 p){ brkpt; ret;}
.visible .entry wide(.param .u64 p){
 .reg .b64 %rd<2>; .reg .b32 %r<5>;
 ld.param.u64 %rd1,[p]; ld.volatile.global.v4.u32 {%r1,%r2,%r3,%r4},[%rd1]; ret;}
";

fn fault(rig: &Rig, kernel: &str, mut address: u64) {
    let function = rig.function(rig.module(WRONG), kernel);
    saw("launch", rig.launch(function, rig.other, &mut [(&raw mut address).cast()]));
    cu!(rig, cuStreamSynchronize(rig.other));
    cu!(rig, cuCtxSynchronize());
    cu!(rig, cuMemAlloc_v2(&mut 0, 64));
}

rules! { ruins;
    a_breakpoint_that_nobody_waits_for(rig) {
        fault(rig, "brk", 0);
    }
    a_misaligned_vector(rig) {
        fault(rig, "wide", rig.buffer + 4);
    }
    a_trap_breaks_the_other_contexts(rig) {
        let other = rig.new_context();
        let text = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){ trap; ret;}\n";
        let function = rig.function(rig.module(text), "k");
        saw("launch", rig.launch(function, rig.stream, &mut []));
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuCtxPushCurrent_v2(other));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        cu!(rig, cuCtxCreate_v2(&mut null_mut(), 0, 0));
    }
    a_misaligned_address_breaks_the_other_contexts(rig) {
        let other = rig.new_context();
        let function = rig.function(rig.module(WRONG), "wide");
        let mut address = rig.buffer + 4;
        saw("launch", rig.launch(function, rig.stream, &mut [(&raw mut address).cast()]));
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuCtxPushCurrent_v2(other));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuCtxCreate_v2(&mut null_mut(), 0, 0));
    }
    a_launch_of_too_many_bytes_breaks_nothing(rig) {
        let function = rig.function(rig.module(WRONG), "brk");
        let word = std::ptr::without_provenance_mut::<std::ffi::c_void>;
        let (mut bytes, mut size) = ([0_u8; 64], 64_usize);
        let mut extra = [word(1), bytes.as_mut_ptr().cast(), word(2), (&raw mut size).cast(), word(0)];
        let (e, s, none) = (extra.as_mut_ptr(), rig.stream, null_mut());
        cu!(rig, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, none, e));
        cu!(rig, cuStreamSynchronize(s));
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
    }
    a_cooperative_launch_that_is_too_large_breaks_nothing(rig) {
        let text = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){ ret;}\n";
        let (function, s) = (rig.function(rig.module(text), "k"), rig.stream);
        cu!(rig, cuLaunchCooperativeKernel(function, 1_000_000, 1, 1, 256, 1, 1, 0, s, null_mut()));
        cu!(rig, cuStreamSynchronize(s));
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
    }
}
