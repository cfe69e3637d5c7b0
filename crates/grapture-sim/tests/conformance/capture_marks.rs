//! What an event remembers of a capture that is over.

use grapture_sys::*;

use crate::rig::RELAXED;

rules! { simulator;
    /// As a probe in C found it on an H200 (13.0): the mark of a capture that is over breaks another
    /// capture, in which a node is to wait for the event.
    an_external_wait_for_an_event_of_an_ended_capture(rig) {
        let waits = || {
            rig.begin(rig.stream, RELAXED);
            let code = cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, 1));
            let status = rig.status(rig.stream);
            let (ended, graph) = rig.end(rig.stream);
            if ended == 0 {
                ok!(rig, cuGraphDestroy(graph));
            }
            (code, status, ended)
        };
        assert_eq!(waits(), (0, 1, 0));
        rig.begin(rig.stream, RELAXED);
        rig.record(rig.event, rig.stream);
        rig.end_and_count(rig.stream);
        assert_eq!(waits(), (1, 2, 901));
        rig.record(rig.event, rig.other);
        assert_eq!(waits(), (0, 1, 0));
    }
}
