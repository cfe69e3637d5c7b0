//! Operations that nothing orders are found when they access the same bytes, and only then.

mod common;

use std::ptr::null_mut;

use common::Setup;
use grapture_sim::{RaceCheck, SimConfig};
use grapture_sys::*;

/// Kernels of one thread over a word: they write, read, add to, and wait for it.
const PTX: &str = "\
.version 6.4
.target sm_70
.address_size 64
.visible .entry write(.param .u64 p){
 .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; mov.u32 %r1, 5;
 st.global.u32 [%rd1],%r1; ret;}
.visible .entry read(.param .u64 p){
 .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p];
 ld.global.u32 %r1,[%rd1]; ret;}
.visible .entry add(.param .u64 p){
 .reg .b64 %rd<3>;
 ld.param.u64 %rd1,[p];
 red.global.add.u32 [%rd1],1; ret;}
.visible .entry look(.param .u64 p){
 .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p];
 ld.relaxed.gpu.global.u32 %r1,[%rd1]; ret;}
";

struct Rig {
    setup: Setup,
    buffer: CUdeviceptr,
    module: CUmodule,
    a: CUstream,
    b: CUstream,
}

impl std::ops::Deref for Rig {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

impl Rig {
    fn with(check: RaceCheck) -> Rig {
        let setup = Setup::with(SimConfig::new().races(check));
        let buffer = setup.alloc(256);
        assert_eq!(call!(setup, cuMemsetD8_v2(buffer, 0, 256)), 0);
        assert_eq!(call!(setup, cuCtxSynchronize()), 0);
        let (module, a, b) = (setup.module(PTX), setup.stream(), setup.stream());
        Rig { setup, buffer, module, a, b }
    }

    fn new() -> Rig {
        Rig::with(RaceCheck::Report)
    }

    /// Launches a kernel on the word at an offset.
    fn kernel(&self, name: &str, stream: CUstream, offset: u64) {
        let mut address = self.buffer + offset;
        let function = self.function(self.module, name);
        assert_eq!(self.launch(function, stream, &mut [(&raw mut address).cast()]), 0);
    }

    fn fill(&self, stream: CUstream, offset: u64, bytes: usize) {
        assert_eq!(call!(self, cuMemsetD8Async(self.buffer + offset, 1, bytes, stream)), 0);
    }

    fn copy(&self, stream: CUstream, from: u64, to: u64, bytes: usize) {
        let (from, to) = (self.buffer + from, self.buffer + to);
        assert_eq!(call!(self, cuMemcpyDtoDAsync_v2(to, from, bytes, stream)), 0);
    }

    fn ordered_by_event(&self, from: CUstream, to: CUstream) {
        let event = self.event();
        assert_eq!(call!(self, cuEventRecord(event, from)), 0);
        assert_eq!(call!(self, cuStreamWaitEvent(to, event, 0)), 0);
    }

    /// The races after everything has ended, as text.
    fn races(&self) -> Vec<String> {
        assert_eq!(call!(self, cuCtxSynchronize()), 0);
        self.sim.races().iter().map(ToString::to_string).collect()
    }

    fn capture(&self) {
        assert_eq!(call!(self, cuStreamBeginCapture_v2(self.a, CU_STREAM_CAPTURE_MODE_GLOBAL)), 0);
    }

    fn end(&self) -> CUgraphExec {
        let mut graph = null_mut();
        assert_eq!(call!(self, cuStreamEndCapture(self.a, &mut graph)), 0);
        make!(self, cuGraphInstantiateWithFlags(graph, 0))
    }
}

const NONE: [&str; 0] = [];

#[test]
fn kernels_on_two_streams_race() {
    let t = Rig::new();
    t.kernel("write", t.a, 4);
    t.kernel("read", t.b, 4);
    assert_eq!(
        t.races(),
        ["race on 4 bytes at 0x4000000000004 (256 bytes at 0x4000000000000 made by cuMemAlloc): \
          a write by kernel 'write', line 7, and a read by kernel 'read', line 11, are not ordered"]
    );
    let race = &t.sim.races()[0];
    assert_eq!((race.address, race.bytes), (t.buffer + 4, 4));
    assert!(race.first.number < race.second.number);
}

#[test]
fn copies_and_fills_race_too() {
    let t = Rig::new();
    t.copy(t.a, 0, 64, 32);
    t.fill(t.b, 80, 100);
    assert_eq!(
        t.races(),
        ["race on 16 bytes at 0x4000000000050 (256 bytes at 0x4000000000000 made by cuMemAlloc): \
          a write by a copy, and a write by a fill, are not ordered"]
    );
    t.kernel("write", t.a, 8);
    t.copy(t.b, 0, 128, 16);
    assert_eq!(
        t.races()[1..],
        ["race on 4 bytes at 0x4000000000008 (256 bytes at 0x4000000000000 made by cuMemAlloc): \
          a write by kernel 'write', line 7, and a read by a copy, are not ordered"]
    );
}

#[test]
fn branches_of_a_graph_race() {
    let t = Rig::new();
    t.capture();
    t.ordered_by_event(t.a, t.b);
    t.kernel("write", t.a, 0);
    t.fill(t.b, 0, 4);
    t.ordered_by_event(t.b, t.a);
    t.kernel("read", t.a, 0);
    let exec = t.end();
    assert_eq!(call!(t, cuGraphLaunch(exec, t.a)), 0);
    assert_eq!(
        t.races(),
        ["race on 4 bytes at 0x4000000000000 (256 bytes at 0x4000000000000 made by cuMemAlloc): \
          a write by kernel 'write', line 7, and a write by a fill, are not ordered"]
    );
}

#[test]
fn a_graph_races_with_a_stream() {
    let t = Rig::new();
    t.capture();
    t.kernel("write", t.a, 0);
    let exec = t.end();
    assert_eq!(call!(t, cuGraphLaunch(exec, t.a)), 0);
    t.kernel("write", t.b, 0);
    assert_eq!(t.races().len(), 1);
}

#[test]
fn a_free_races_with_a_kernel() {
    let t = Rig::new();
    let (mut address, mut gone) = (0, 0);
    assert_eq!(call!(t, cuMemAllocAsync(&mut address, 64, t.a)), 0);
    assert_eq!(call!(t, cuMemAllocAsync(&mut gone, 64, t.a)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(t.a)), 0);
    let write = t.function(t.module, "write");
    assert_eq!(t.launch(write, t.a, &mut [(&raw mut address).cast()]), 0);
    assert_eq!(call!(t, cuStreamQuery(t.b)), 0);
    // Held back until the kernel is done, so that it finds its memory; that is no order.
    let gate = t.gate(t.b);
    common::eventually("the kernel is done", || t.sim.live().pending == 1);
    assert_eq!(call!(t, cuMemFreeAsync(address, t.b)), 0);
    gate.open();
    let races = t.races();
    assert_eq!(races.len(), 1);
    assert!(races[0].contains("made by cuMemAllocAsync, freed since"), "{}", races[0]);
    assert!(races[0].ends_with("line 7, and a write by a free, are not ordered"), "{}", races[0]);
}

#[test]
fn the_order_of_a_stream_is_an_order() {
    let t = Rig::new();
    for _ in 0..3 {
        t.kernel("write", t.a, 0);
        t.copy(t.a, 0, 64, 4);
        t.fill(t.a, 64, 4);
    }
    assert_eq!(t.races(), NONE);
}

#[test]
fn events_are_an_order_also_through_others() {
    let t = Rig::new();
    let between = t.stream();
    t.kernel("write", t.a, 0);
    t.ordered_by_event(t.a, between);
    t.ordered_by_event(between, t.b);
    t.kernel("read", t.b, 0);
    assert_eq!(t.races(), NONE);
    // An event in the other direction orders nothing here.
    t.kernel("read", t.b, 0);
    t.ordered_by_event(t.a, t.b);
    t.kernel("write", t.a, 0);
    assert_eq!(t.races().len(), 1);
}

#[test]
fn the_legacy_stream_orders_blocking_streams() {
    let t = Rig::new();
    let (one, two): (CUstream, CUstream) =
        (make!(t, cuStreamCreate(0)), make!(t, cuStreamCreate(0)));
    t.kernel("write", one, 0);
    t.kernel("write", null_mut(), 0);
    t.kernel("write", two, 0);
    assert_eq!(t.races(), NONE);
    t.kernel("write", null_mut(), 0);
    t.kernel("write", t.a, 0);
    assert_eq!(t.races().len(), 1, "a non-blocking stream is not ordered");
}

#[test]
fn what_the_host_waited_for_is_ordered_before_what_it_submits() {
    let t = Rig::new();
    let event = t.event();
    t.kernel("write", t.a, 0);
    assert_eq!(call!(t, cuStreamSynchronize(t.a)), 0);
    t.kernel("write", t.b, 0);
    assert_eq!(call!(t, cuEventRecord(event, t.b)), 0);
    assert_eq!(call!(t, cuEventSynchronize(event)), 0);
    t.kernel("write", t.a, 0);
    common::eventually("the stream is done", || call!(t, cuStreamQuery(t.a)) == 0);
    t.kernel("write", t.b, 0);
    assert_eq!(call!(t, cuCtxSynchronize()), 0);
    t.kernel("write", t.a, 0);
    let mut word = 0_u32;
    assert_eq!(call!(t, cuStreamSynchronize(t.a)), 0);
    assert_eq!(call!(t, cuMemcpyDtoH_v2((&raw mut word).cast(), t.buffer, 4)), 0);
    t.kernel("write", t.b, 0);
    assert_eq!(t.races(), NONE);
}

#[test]
fn a_wait_for_one_of_two_racing_streams_hides_nothing() {
    let t = Rig::new();
    let gate = t.gate(t.b);
    t.kernel("write", t.b, 0);
    t.kernel("write", t.a, 0);
    assert_eq!(call!(t, cuStreamSynchronize(t.a)), 0);
    gate.open();
    assert_eq!(t.races().len(), 1);
}

#[test]
fn edges_of_a_graph_and_launches_of_one_executable_are_an_order() {
    let t = Rig::new();
    t.capture();
    t.kernel("write", t.a, 0);
    t.ordered_by_event(t.a, t.b);
    t.kernel("read", t.b, 0);
    t.kernel("read", t.a, 0);
    t.ordered_by_event(t.b, t.a);
    t.fill(t.a, 0, 4);
    let exec = t.end();
    for stream in [t.a, t.b, t.a] {
        assert_eq!(call!(t, cuGraphLaunch(exec, stream)), 0);
    }
    assert_eq!(t.races(), NONE);
}

#[test]
fn a_wait_for_a_word_is_an_order() {
    let t = Rig::new();
    t.kernel("write", t.a, 64);
    assert_eq!(call!(t, cuStreamWriteValue32_v2(t.a, t.buffer, 1, 0)), 0);
    assert_eq!(call!(t, cuStreamWaitValue32_v2(t.b, t.buffer, 1, 0)), 0);
    t.kernel("write", t.b, 64);
    assert_eq!(t.races(), NONE);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let t = Rig::new();
    t.kernel("add", t.a, 0);
    t.kernel("add", t.b, 0);
    t.kernel("look", t.stream(), 0);
    assert_eq!(t.races(), NONE);
    t.kernel("add", t.a, 0);
    t.kernel("read", t.b, 0);
    let races = t.races();
    assert_eq!(races.len(), 1);
    assert!(races[0].contains("an atomic access by kernel 'add', line 15"), "{}", races[0]);
}

#[test]
fn reads_and_other_bytes_do_not_race() {
    let t = Rig::new();
    t.kernel("read", t.a, 0);
    t.kernel("read", t.b, 0);
    t.copy(t.b, 0, 32, 8);
    t.kernel("write", t.a, 40);
    t.fill(t.b, 44, 4);
    assert_eq!(t.races(), NONE);
}

#[test]
fn a_race_breaks_the_context_where_that_is_asked() {
    let t = Rig::with(RaceCheck::Fail);
    t.kernel("write", t.a, 0);
    t.kernel("write", t.b, 0);
    assert_eq!(call!(t, cuCtxSynchronize()), 719);
    assert_eq!(t.sim.races().len(), 1);
    assert_eq!(t.sim.last_fault(), Some(t.sim.races()[0].to_string()));
}

#[test]
fn nothing_is_looked_for_unless_it_is_asked() {
    let t = Rig::with(RaceCheck::Off);
    t.kernel("write", t.a, 0);
    t.kernel("write", t.b, 0);
    assert_eq!(t.races(), NONE);
}

#[test]
fn rows_of_a_warp_are_noted_as_a_whole() {
    let t = Rig::new();
    let text = ".version 6.4\n.target sm_70\n.address_size 64\n.visible .entry row(.param .u64 p){\n\
        .reg .b64 %rd<3>; .reg .b32 %r<3>;\n ld.param.u64 %rd1,[p]; mov.u32 %r1,%tid.x;\n\
        mad.wide.u32 %rd2,%r1,4,%rd1;\n st.global.u32 [%rd2],%r1; ret;}\n";
    let function = t.function(t.module(text), "row");
    let mut address = t.buffer + 64;
    let mut params = [(&raw mut address).cast()];
    let (params, none) = (params.as_mut_ptr(), null_mut());
    assert_eq!(call!(t, cuLaunchKernel(function, 1, 1, 1, 40, 1, 1, 0, t.a, params, none)), 0);
    t.fill(t.b, 0, 256);
    let races = t.races();
    assert_eq!(races.len(), 1);
    assert!(races[0].starts_with("race on 160 bytes at 0x4000000000040"), "{}", races[0]);
    let words = t.read::<u32>(t.buffer + 64, 1);
    assert!(words[0] == 0 || words[0] == 0x0101_0101, "{words:?}");
}
