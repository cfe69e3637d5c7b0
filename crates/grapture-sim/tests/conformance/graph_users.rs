//! User objects: what graphs, executables and launches keep alive.

use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::thread::ThreadId;

use grapture_sys::*;

use crate::host::{Counter, Gate, wait_for};
use crate::rig::{GLOBAL, Rig};
use crate::subject::Subject;

tiers! {
    both {
        user_objects_end_after_the_last_launch_that_needs_them,
        user_objects_are_counted,
        a_graph_may_be_asked_for_more_references_than_it_holds,
        an_update_replaces_user_objects_once_launches_are_over,
        a_broken_capture_ends_the_user_objects_of_its_graph,
        what_was_launched_ends_on_another_thread,
    }
    alone {
        destructors_run_without_a_lock_and_may_not_call_the_driver,
    }
}

fn user_object(rig: &Rig, counter: &Counter) -> CUuserObject {
    let mut object = null_mut();
    let destroy = Some(Counter::count as unsafe extern "C" fn(*mut std::ffi::c_void));
    ok!(rig, cuUserObjectCreate(&mut object, counter.argument(), destroy, 1, 1));
    object
}

fn user_objects_end_after_the_last_launch_that_needs_them(rig: &Rig) {
    let (gate, counter) = (Gate::new(), Counter::default());
    rig.begin(rig.stream, GLOBAL);
    gate.put_on(rig, rig.stream);
    let graph = rig.end_good(rig.stream);
    let object = user_object(rig, &counter);
    ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
    let mut clone = null_mut();
    ok!(rig, cuGraphClone(&mut clone, graph));
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphDestroy(clone));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    gate.wait_reached();
    ok!(rig, cuGraphExecDestroy(exec));
    assert_eq!(counter.get(), 0, "the launch holds it");
    rig.on_simulation(|sim| assert_eq!(sim.live().user_objects, 1));
    gate.open();
    rig.sync(rig.stream);
    assert!(wait_for(|| counter.get() == 1));
}

/// Notes the thread that destroys.
unsafe extern "C" fn note_thread(place: *mut std::ffi::c_void) {
    // SAFETY: the case below gives the address of such a place, which lives until it is filled.
    let place = unsafe { &*place.cast::<OnceLock<ThreadId>>() };
    place.set(std::thread::current().id()).expect("the object is destroyed once");
}

fn what_was_launched_ends_on_another_thread(rig: &Rig) {
    let here = |launch: bool| {
        let place = OnceLock::new();
        let graph = rig.new_graph_of_one_fill();
        let argument = std::ptr::from_ref(&place).cast_mut().cast();
        let object: CUuserObject =
            make!(rig, cuUserObjectCreate(argument, Some(note_thread), 1, 1));
        ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
        let exec = rig.instantiate(graph);
        ok!(rig, cuGraphDestroy(graph));
        if launch {
            ok!(rig, cuGraphLaunch(exec, rig.stream));
            rig.sync(rig.stream);
        }
        assert!(place.get().is_none(), "the executable holds it");
        ok!(rig, cuGraphExecDestroy(exec));
        if !launch {
            assert!(place.get().is_some(), "at once");
        }
        assert!(wait_for(|| place.get().is_some()));
        place.get() == Some(&std::thread::current().id())
    };
    assert_eq!([here(false), here(true)], [true, false]);
}

fn user_objects_are_counted(rig: &Rig) {
    let counter = Counter::default();
    let object = user_object(rig, &counter);
    let graph = rig.new_graph();
    for count in [0, 1 << 31] {
        assert_eq!(cu!(rig, cuUserObjectRetain(object, count)), 1);
        assert_eq!(cu!(rig, cuUserObjectRelease(object, count)), 1);
        assert_eq!(cu!(rig, cuGraphRetainUserObject(graph, object, count, 0)), 1);
    }
    ok!(rig, cuUserObjectRetain(object, 2));
    ok!(rig, cuGraphRetainUserObject(graph, object, 2, 0));
    let released = [
        cu!(rig, cuGraphReleaseUserObject(graph, object, 1)),
        cu!(rig, cuUserObjectRelease(object, 3)),
    ];
    let while_the_graph_holds_one = counter.get();
    ok!(rig, cuGraphDestroy(graph));
    let gone = wait_for(|| counter.get() == 1);
    rig.on_simulation(|_| assert_eq!(cu!(rig, cuUserObjectRetain(object, 1)), 1, "it is gone"));
    let mut other = null_mut();
    let destroy = Some(Counter::count as unsafe extern "C" fn(*mut std::ffi::c_void));
    let mut create = |destroy, references, flags| {
        cu!(rig, cuUserObjectCreate(&mut other, counter.argument(), destroy, references, flags))
    };
    let created = [create(None, 1, 1), create(destroy, 0, 1), create(destroy, 1, 0)];
    let life = (released, while_the_graph_holds_one, gone);
    assert_eq!((life, created), (([0, 0], 0, true), [1, 1, 1]));
}

/// Whether the object is gone after that is left open, so the counter stays.
fn a_graph_may_be_asked_for_more_references_than_it_holds(rig: &Rig) {
    let counter: &'static Counter = Box::leak(Box::default());
    let (object, graph) = (user_object(rig, counter), rig.new_graph());
    ok!(rig, cuUserObjectRetain(object, 2));
    ok!(rig, cuGraphRetainUserObject(graph, object, 2, 0));
    ok!(rig, cuGraphReleaseUserObject(graph, object, 3));
    rig.on_simulation(|_| ok!(rig, cuUserObjectRelease(object, 3)));
    ok!(rig, cuGraphDestroy(graph));
}

#[test]
fn sim_what_a_program_leaves_behind_is_not_destroyed() {
    let counter = Counter::default();
    let rig = Rig::on(Subject::simulated());
    let graph = rig.new_graph();
    ok!(rig, cuGraphRetainUserObject(graph, user_object(&rig, &counter), 1, 1));
    rig.instantiate(graph);
    drop(rig);
    assert_eq!(counter.get(), 0);
}

/// What a destructor was told when it called the driver.
struct Nested {
    functions: Functions,
    code: std::sync::atomic::AtomicU32,
}

impl Nested {
    unsafe extern "C" fn call(argument: *mut std::ffi::c_void) {
        // SAFETY: the test passes a value that outlives the object.
        let nested = unsafe { &*argument.cast::<Nested>() };
        let mut graph = null_mut();
        // SAFETY: the out-pointer is a live local.
        let code = unsafe { (nested.functions.cuGraphCreate)(&mut graph, 0) };
        nested.code.store(code.0, std::sync::atomic::Ordering::SeqCst);
    }
}

fn destructors_run_without_a_lock_and_may_not_call_the_driver(rig: &Rig) {
    type Give = fn(&Rig, CUuserObject);
    let ways: [Give; 5] = [
        |rig, object| ok!(rig, cuUserObjectRelease(object, 1)),
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuGraphReleaseUserObject(graph, object, 1));
            ok!(rig, cuGraphDestroy(graph));
        },
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuGraphDestroy(graph));
        },
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            let exec = rig.instantiate(graph);
            ok!(rig, cuGraphLaunch(exec, rig.stream));
            rig.release(graph, exec);
        },
        |rig, object| {
            // The capture ends with its stream, and its graph with it.
            let stream = rig.new_stream(1);
            rig.begin(stream, GLOBAL);
            let mut status = CUstreamCaptureStatus(0);
            let (mut graph, nodes, count) = (null_mut(), null_mut(), null_mut());
            let id = null_mut();
            ok!(rig, cuStreamGetCaptureInfo_v2(stream, &mut status, id, &mut graph, nodes, count));
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuStreamDestroy_v2(stream));
        },
    ];
    for give in ways {
        let nested = Nested { functions: *rig.driver.functions(), code: 9999.into() };
        let argument = std::ptr::from_ref(&nested).cast_mut().cast();
        let mut object = null_mut();
        ok!(rig, cuUserObjectCreate(&mut object, argument, Some(Nested::call), 1, 1));
        give(rig, object);
        let code = || nested.code.load(std::sync::atomic::Ordering::SeqCst);
        assert!(wait_for(|| code() != 9999), "the destructor ran");
        assert_eq!(code(), 800);
    }
}

fn an_update_replaces_user_objects_once_launches_are_over(rig: &Rig) {
    let (gate, old, new) = (Gate::new(), Counter::default(), Counter::default());
    let capture = |counter: &Counter| {
        rig.begin(rig.stream, GLOBAL);
        gate.put_on(rig, rig.stream);
        let graph = rig.end_good(rig.stream);
        ok!(rig, cuGraphRetainUserObject(graph, user_object(rig, counter), 1, 1));
        graph
    };
    let (first, second) = (capture(&old), capture(&new));
    let exec = rig.instantiate(first);
    ok!(rig, cuGraphDestroy(first));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(rig, cuGraphExecUpdate_v2(exec, second, &mut info));
    ok!(rig, cuGraphDestroy(second));
    assert_eq!((old.get(), new.get()), (0, 0));
    gate.open();
    assert!(wait_for(|| old.get() == 1), "the launch was the last to hold it");
    ok!(rig, cuGraphExecDestroy(exec));
    assert!(wait_for(|| new.get() == 1));
}

/// Guessed: the end of a broken capture destroys a graph of the program's, and what that holds.
fn a_broken_capture_ends_the_user_objects_of_its_graph(rig: &Rig) {
    let (s, counter) = (rig.stream, Counter::default());
    let graph = rig.new_graph();
    let object = user_object(rig, &counter);
    ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
    let mode = CUstreamCaptureMode(GLOBAL);
    ok!(rig, cuStreamBeginCaptureToGraph(s, graph, null(), null(), 0, mode));
    let (query, before) = (rig.query(s), counter.get());
    let end = rig.end(s).0;
    let ended = wait_for(|| counter.get() == 1);
    assert_eq!((query, before, end, ended), (900, 0, 901, true));
}
