//! Captures and graphs need no current context, but for the special streams and instantiation: what
//! a real driver (13.0, on an H200) answered.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::{GLOBAL, Rig, per_thread};

tiers! {
    both {
        what_needs_a_current_context,
        graphs_run_without_a_current_context,
        a_thread_keeps_its_mode_and_any_value_of_it,
    }
    simulator {
        dangerous_null_mode_of_a_thread,
    }
}

fn what_needs_a_current_context(rig: &Rig) {
    let s = rig.stream;
    let (per_thread, other) = (per_thread(), rig.new_context());
    // The code of an instantiation, of a begin on the per-thread stream, and of its end.
    for (current, code) in [(rig.context, 0), (null_mut(), 201), (other, 0)] {
        ok!(rig, cuCtxSetCurrent(current));
        let operations: [&dyn Fn() -> u32; 4] = [
            &|| rig.fill(s),
            &|| cu!(rig, cuMemcpyDtoDAsync_v2(rig.buffer, rig.buffer + 64, 16, s)),
            &|| cu!(rig, cuLaunchHostFunc(s, Some(Counter::count), null_mut())),
            &|| {
                let mut address = 0;
                let code = cu!(rig, cuMemAllocAsync(&mut address, 64, s));
                code + cu!(rig, cuMemFreeAsync(address, s))
            },
        ];
        for (operation, nodes) in operations.into_iter().zip([1, 1, 1, 2]) {
            rig.begin(s, GLOBAL);
            assert_eq!(rig.status(s), 1);
            assert_eq!(operation(), 0);
            assert_eq!(rig.end_and_count(s), (0, nodes));
        }
        rig.begin(s, GLOBAL);
        assert_eq!(rig.fill(s), 0);
        let graph = rig.end_good(s);
        let mut exec = null_mut();
        assert_eq!(cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0)), code);
        if code == 0 {
            ok!(rig, cuGraphLaunch(exec, s));
            ok!(rig, cuGraphExecDestroy(exec));
        }
        ok!(rig, cuGraphDestroy(graph));
        let begin = cu!(rig, cuStreamBeginCapture_v2(per_thread, CUstreamCaptureMode(0)));
        assert_eq!((begin, rig.end_and_count(per_thread).0), (code, code));
    }
    ok!(rig, cuCtxSetCurrent(rig.context));
    ok!(rig, cuCtxDestroy_v2(other));
}

fn graphs_run_without_a_current_context(rig: &Rig) {
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(rig.fill(rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    ok!(rig, cuCtxSetCurrent(null_mut()));
    let mut node = null_mut();
    ok!(rig, cuGraphUpload(exec, rig.stream));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
    ok!(rig, cuGraphAddEmptyNode(&mut node, graph, null(), 0));
    assert_eq!(cu!(rig, cuGraphLaunch(exec, per_thread())), 201);
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    rig.sync(rig.stream);
    ok!(rig, cuCtxSetCurrent(rig.context));
    assert_eq!(rig.read_word(0), 7);
}

fn a_thread_keeps_its_mode_and_any_value_of_it(rig: &Rig) {
    assert_eq!(rig.exchange(99), 0);
    assert_eq!(rig.elsewhere(GLOBAL, || rig.exchange(GLOBAL)), 0, "each thread has its own");
    assert_eq!(rig.exchange(GLOBAL), 99);
}

/// For the simulated driver alone: a real one (13.0, beside an H200) follows the null and crashes.
fn dangerous_null_mode_of_a_thread(rig: &Rig) {
    assert_eq!(cu!(rig, cuThreadExchangeStreamCaptureMode(null_mut())), 1);
}
