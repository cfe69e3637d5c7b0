//! Events: their flags, records, waits and times.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{NULL_STREAM, Rig, per_thread};
use crate::transcript::saw;

/// The code of the time between two events.
fn elapsed(rig: &Rig, start: CUevent, end: CUevent) -> u32 {
    let mut ms = -1.0;
    let code = cu!(rig, cuEventElapsedTime(&mut ms, start, end));
    saw("a time", ms >= 0.0);
    code
}

fn recorded(rig: &Rig, flags: u32) -> CUevent {
    let event: CUevent = make!(rig, cuEventCreate(flags));
    ok!(rig, cuEventRecord(event, rig.stream));
    rig.sync(rig.stream);
    event
}

fn destroy<const N: usize>(rig: &Rig, events: [CUevent; N]) {
    for event in events {
        ok!(rig, cuEventDestroy_v2(event));
    }
}

rules! { both;
    every_flag_of_an_event(rig) {
        for flags in 0..=17 {
            let mut event = null_mut();
            saw("flags", flags);
            if cu!(rig, cuEventCreate(&mut event, flags)) == 0 {
                ok!(rig, cuEventDestroy_v2(event));
            }
        }
    }
    an_event_needs_a_place_for_its_handle(rig) {
        cu!(rig, cuEventCreate(null_mut(), 0));
        cu!(rig, cuEventCreate(null_mut(), 99));
    }
    an_event_never_recorded_is_ready(rig) {
        let event = rig.new_event();
        cu!(rig, cuEventQuery(event));
        cu!(rig, cuEventSynchronize(event));
        cu!(rig, cuStreamWaitEvent(rig.stream, event, 0));
        destroy(rig, [event]);
    }
    the_time_between_events_with_and_without_times(rig) {
        let (timed, untimed) = (recorded(rig, 0), recorded(rig, 2));
        elapsed(rig, timed, timed);
        elapsed(rig, timed, untimed);
        elapsed(rig, untimed, timed);
        elapsed(rig, untimed, untimed);
        destroy(rig, [timed, untimed]);
    }
    the_time_of_an_event_never_recorded(rig) {
        let (timed, fresh) = (recorded(rig, 0), rig.timed_event());
        elapsed(rig, timed, fresh);
        elapsed(rig, fresh, timed);
        elapsed(rig, fresh, fresh);
        destroy(rig, [timed, fresh]);
    }
    the_time_from_a_blocking_event(rig) {
        let (timed, blocking) = (recorded(rig, 0), recorded(rig, 1));
        elapsed(rig, timed, blocking);
        destroy(rig, [timed, blocking]);
    }
    the_time_needs_a_place(rig) {
        let timed = recorded(rig, 0);
        cu!(rig, cuEventElapsedTime(null_mut(), timed, timed));
        destroy(rig, [timed]);
    }
    the_time_needs_two_events(rig) {
        let timed = recorded(rig, 0);
        elapsed(rig, null_mut(), timed);
        elapsed(rig, timed, null_mut());
        cu!(rig, cuEventElapsedTime(null_mut(), null_mut(), timed));
        destroy(rig, [timed]);
    }
    the_time_between_events_of_two_contexts(rig) {
        let (here, other) = (recorded(rig, 0), rig.new_context());
        let there = rig.in_context(other, || {
            let (stream, event) = (rig.new_stream(1), rig.timed_event());
            ok!(rig, cuEventRecord(event, stream));
            rig.sync(stream);
            event
        });
        elapsed(rig, here, there);
        elapsed(rig, there, here);
        ok!(rig, cuCtxDestroy_v2(other));
        destroy(rig, [here]);
    }
    the_time_while_work_is_held(rig) {
        let (start, end) = (recorded(rig, 0), rig.timed_event());
        let gate = rig.hold(rig.stream);
        ok!(rig, cuEventRecord(end, rig.stream));
        elapsed(rig, start, end);
        elapsed(rig, end, start);
        elapsed(rig, end, end);
        gate.open();
        rig.sync(rig.stream);
        elapsed(rig, start, end);
        destroy(rig, [start, end]);
    }
    no_event_at_all(rig) {
        cu!(rig, cuEventDestroy_v2(null_mut()));
        cu!(rig, cuEventQuery(null_mut()));
        cu!(rig, cuEventSynchronize(null_mut()));
        cu!(rig, cuEventRecord(null_mut(), rig.stream));
        cu!(rig, cuEventRecordWithFlags(null_mut(), rig.stream, 0));
        cu!(rig, cuStreamWaitEvent(rig.stream, null_mut(), 0));
    }
    no_event_and_bad_flags(rig) {
        cu!(rig, cuEventRecordWithFlags(null_mut(), rig.stream, 9));
        cu!(rig, cuStreamWaitEvent(rig.stream, null_mut(), 9));
    }
    a_record_has_one_flag(rig) {
        for flags in [0, 1, 2, 3] {
            cu!(rig, cuEventRecordWithFlags(rig.event, rig.stream, flags));
        }
        rig.sync(rig.stream);
    }
    a_wait_has_one_flag(rig) {
        ok!(rig, cuEventRecord(rig.event, rig.other));
        for flags in [0, 1, 2, 3] {
            cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, flags));
        }
        rig.sync(rig.stream);
    }
    an_event_is_recorded_on_the_default_streams(rig) {
        for stream in [NULL_STREAM, per_thread(), std::ptr::without_provenance_mut(1)] {
            cu!(rig, cuEventRecord(rig.event, stream));
            cu!(rig, cuEventSynchronize(rig.event));
        }
    }
    an_event_is_recorded_in_its_own_context(rig) {
        let other = rig.new_context();
        let event = rig.in_context(other, || rig.new_event());
        cu!(rig, cuEventRecord(event, rig.stream));
        cu!(rig, cuEventRecord(event, NULL_STREAM));
        rig.in_context(other, || {
            cu!(rig, cuEventRecord(event, NULL_STREAM));
            cu!(rig, cuEventRecord(event, rig.stream));
            cu!(rig, cuEventRecord(rig.event, NULL_STREAM));
        });
        ok!(rig, cuCtxDestroy_v2(other));
    }
    a_stream_waits_for_an_event_of_another_context(rig) {
        let other = rig.new_context();
        let event = rig.in_context(other, || {
            let (event, stream) = (rig.new_event(), rig.new_stream(1));
            ok!(rig, cuEventRecord(event, stream));
            event
        });
        cu!(rig, cuStreamWaitEvent(rig.stream, event, 0));
        cu!(rig, cuStreamWaitEvent(NULL_STREAM, event, 0));
        rig.sync(rig.stream);
        rig.sync(NULL_STREAM);
        ok!(rig, cuCtxDestroy_v2(other));
    }
    an_event_is_destroyed_while_it_is_awaited(rig) {
        let event = rig.new_event();
        let gate = rig.hold(rig.stream);
        ok!(rig, cuEventRecord(event, rig.stream));
        ok!(rig, cuStreamWaitEvent(rig.other, event, 0));
        cu!(rig, cuEventDestroy_v2(event));
        cu!(rig, cuStreamQuery(rig.other));
        gate.open();
        rig.sync(rig.other);
    }
    an_event_between_processes_has_no_time(rig) {
        let event: CUevent = make!(rig, cuEventCreate(6));
        ok!(rig, cuEventRecord(event, rig.stream));
        cu!(rig, cuEventSynchronize(event));
        elapsed(rig, event, event);
        destroy(rig, [event]);
    }
    an_event_recorded_again_forgets_the_first_record(rig) {
        let gate = rig.hold(rig.stream);
        ok!(rig, cuEventRecord(rig.event, rig.stream));
        cu!(rig, cuEventQuery(rig.event));
        ok!(rig, cuEventRecord(rig.event, rig.other));
        cu!(rig, cuEventSynchronize(rig.event));
        cu!(rig, cuEventQuery(rig.event));
        gate.open();
        rig.sync(rig.stream);
    }
}
