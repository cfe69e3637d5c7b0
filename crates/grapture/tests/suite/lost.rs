//! A context that a fault has taken: each call says so by name, and who saw it first.
//!
//! On a GPU a fault takes every context of the process, so each case is a process of its own.

use std::process::Command;

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, CudaError, CudaResult, DeviceBuffer, Event,
    Kernel, LAUNCH_HISTORY_VARIABLE, Stream, StreamGraphCapture,
};

both_tiers! {
    every_call_says_that_the_context_is_lost,
    an_operation_can_be_the_first_to_see_it,
    a_wait_for_pinned_memory_can_be_the_first_to_see_it,
    a_call_that_came_later_is_not_taken_for_the_first,
    the_last_launches_are_suspected_if_they_are_remembered,
    a_capture_that_is_open_ends_with_the_loss,
}

/// Set in the process of a case.
const CASE: &str = "GRAPTURE_TEST_CASE";
const LINE: &str = "said: ";

const FAULT: &str = "the context is lost: a kernel accessed an address that is not valid \
                     (CUDA_ERROR_ILLEGAL_ADDRESS, 700), in work that was submitted earlier; ";
const UNNAMED: &str = "; to have the last launches named, run it again with \
                       GRAPTURE_LAUNCH_HISTORY=1";
const START_ANEW: &str = "; nothing runs in this context any more, nor perhaps in another one of \
                          the process: start a new process";

fn at(line: u32) -> String {
    format!("{}:{line}", file!())
}

/// Runs the case in a process of its own, and gives what it said there. In that process: runs it.
fn said(setup: &Setup, name: &str, history: bool, case: fn(&Setup)) -> Option<Vec<String>> {
    if std::env::var_os(CASE).is_some() {
        case(setup);
        return None;
    }
    let simulated = setup.driver.origin().contains("simulated");
    let tier = if simulated { "sim_tier" } else { "gpu_tier" };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("lost::{tier}::{name}")])
        .env(CASE, name)
        .env(LAUNCH_HISTORY_VARIABLE, if history { "1" } else { "0" })
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().filter_map(|line| line.split_once(LINE)).map(|(_, s)| s.into()).collect())
}

fn say(text: impl std::fmt::Display) {
    println!("\n{LINE}{text}");
}

#[track_caller]
fn say_error<T: std::fmt::Debug>(result: CudaResult<T>) {
    let error = result.unwrap_err();
    assert!(matches!(error, CudaError::ContextLost(_)), "{error:?}");
    say(error);
}

fn add(setup: &Setup) -> Kernel {
    setup.module.kernel("add").unwrap()
}

#[track_caller]
fn add_to(add: &Kernel, word: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { add.launch_builder(1, 1).arg_mut(word).value(1u32).launch(stream) }
}

/// Writes where nothing is.
#[track_caller]
fn fault(setup: &Setup, stream: &Stream) {
    // SAFETY: not sound, which is the point: it is a fault of the kernel.
    unsafe { add(setup).launch_builder(1, 1).address(8).value(1u32).launch(stream) }.unwrap();
}

fn every_call_says_that_the_context_is_lost(setup: &Setup) {
    const WAIT: u32 = line!() + 13;
    fn case(setup: &Setup) {
        let (stream, other) = (setup.stream(), setup.stream());
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mut pinned = setup.pinned_word();
        let event = Event::new(&setup.context).unwrap();
        event.record(&other).unwrap();
        other.synchronize().unwrap();
        let exec = stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap().instantiate();
        let exec = exec.unwrap();
        let (graph, kernel) =
            (other.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap(), add(setup));
        fault(setup, &stream);
        say_error(stream.synchronize());
        say_error(setup.context.synchronize());
        say_error(other.is_idle());
        say_error(event.synchronize());
        say_error(event.is_complete());
        say_error(event.record(&other));
        say_error(event.wait(&other));
        say_error(word.fill(1, &other));
        say_error(add_to(&kernel, &mut word, &stream));
        say_error(graph.instantiate());
        say_error(setup.module.kernel("add"));
        say_error(setup.module.global("counter"));
        say_error(kernel.max_active_blocks(32, 0));
        say_error(setup.context.memory_info());
        say_error(word.to_vec(&other));
        say_error(word.copy_to_pinned(&mut pinned, &other));
        say_error(exec.launch(&other));
        say_error(stream.host_function(|| {}));
        say_error(Stream::new(&setup.context));
        say_error(DeviceBuffer::<u32>::alloc(&setup.context, 1));
        say_error(setup.context.load_ptx(crate::common::KERNELS));
        say_error(stream.capture(CaptureMode::Relaxed, |_| Ok(())));
        say_error(stream.capture_or_run(CaptureMode::Relaxed, |_| panic!("it is called")));
    }
    let Some(said) = said(setup, "every_call_says_that_the_context_is_lost", false, case) else {
        return;
    };
    let expected =
        format!("{FAULT}first seen by `Stream::synchronize` ({}){UNNAMED}{START_ANEW}", at(WAIT));
    assert_eq!(said, vec![expected; 23]);
}

fn an_operation_can_be_the_first_to_see_it(setup: &Setup) {
    const COPY: u32 = line!() + 5;
    fn case(setup: &Setup) {
        let stream = setup.stream();
        let word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        fault(setup, &stream);
        let error = word.to_vec(&stream).unwrap_err();
        say(&error);
        let CudaError::ContextLost(lost) = error else { panic!("{error:?}") };
        assert_eq!((lost.code(), lost.suspects().len()), (700, 0));
        assert_eq!(lost.first_seen().unwrap().line(), COPY);
    }
    let Some(said) = said(setup, "an_operation_can_be_the_first_to_see_it", false, case) else {
        return;
    };
    let expected = format!(
        "{FAULT}first seen by copy of 4 bytes to the host ({}){UNNAMED}{START_ANEW}",
        at(COPY)
    );
    assert_eq!(said, [expected]);
}

fn a_wait_for_pinned_memory_can_be_the_first_to_see_it(setup: &Setup) {
    const READ: u32 = line!() + 7;
    fn case(setup: &Setup) {
        let stream = setup.stream();
        let word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mut pinned = setup.pinned_word();
        word.copy_to_pinned(&mut pinned, &stream).unwrap();
        fault(setup, &stream);
        say_error(pinned.read());
        say_error(pinned.write());
    }
    let name = "a_wait_for_pinned_memory_can_be_the_first_to_see_it";
    let Some(said) = said(setup, name, false, case) else { return };
    let expected =
        format!("{FAULT}first seen by `PinnedBuffer::read` ({}){UNNAMED}{START_ANEW}", at(READ));
    assert_eq!(said, vec![expected; 2]);
}

/// What does not say where it is made sees it first.
fn a_call_that_came_later_is_not_taken_for_the_first(setup: &Setup) {
    fn case(setup: &Setup) {
        let stream = setup.stream();
        fault(setup, &stream);
        let mut made = Ok(stream.clone());
        while made.is_ok() {
            made = Stream::new(&setup.context);
        }
        say_error(made);
        say_error(stream.synchronize());
    }
    let name = "a_call_that_came_later_is_not_taken_for_the_first";
    let Some(said) = said(setup, name, false, case) else { return };
    let fault = FAULT.trim_end_matches("; ");
    assert_eq!(said, vec![format!("{fault}{UNNAMED}{START_ANEW}"); 2]);
}

fn the_last_launches_are_suspected_if_they_are_remembered(setup: &Setup) {
    const FIRST: u32 = line!() + 6;
    fn case(setup: &Setup) {
        let stream = setup.stream();
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let exec = stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap().instantiate();
        let exec = exec.unwrap();
        word.fill(3, &stream).unwrap();
        exec.launch(&stream).unwrap();
        fault(setup, &stream);
        say_error(stream.synchronize());
    }
    let name = "the_last_launches_are_suspected_if_they_are_remembered";
    let Some(said) = said(setup, name, true, case) else { return };
    let expected = format!(
        "{FAULT}first seen by `Stream::synchronize` ({}); first suspect: `add` ({}), the last \
         launch before that; before it: graph launch ({}), fill of 4 bytes ({}){START_ANEW}",
        at(FIRST + 3),
        at(FIRST + 2),
        at(FIRST + 1),
        at(FIRST)
    );
    assert_eq!(said, [expected]);
}

fn a_capture_that_is_open_ends_with_the_loss(setup: &Setup) {
    const ADD: u32 = line!() + 10;
    fn case(setup: &Setup) {
        let (stream, other, add) = (setup.stream(), setup.stream(), add(setup));
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let capture = StreamGraphCapture::begin(&stream, mode).unwrap();
        fault(setup, &other);
        // The driver tells of it when it has found it, which takes its time.
        let mut added = Ok(());
        while added.is_ok() {
            added = add_to(&add, &mut word, &stream);
        }
        say_error(added);
        say_error(capture.end());
    }
    let Some(said) = said(setup, "a_capture_that_is_open_ends_with_the_loss", false, case) else {
        return;
    };
    let expected = format!("{FAULT}first seen by `add` ({}){UNNAMED}{START_ANEW}", at(ADD));
    assert_eq!(said, vec![expected; 2]);
}
