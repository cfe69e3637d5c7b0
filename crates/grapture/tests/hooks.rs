//! The hook for what could not be released, which is the whole process's: one test a process.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::Setup;
use grapture::{CaptureMode, DeviceBuffer, Driver, StreamGraphCapture, set_drop_error_hook};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

/// The hook runs while a capture is thrown away, and may drop what belongs to that stream.
#[test]
fn sim_a_hook_may_drop_memory_of_the_stream_whose_capture_ends() {
    let sim = Simulation::new(SimConfig::new());
    let setup = Setup::on(Driver::from(sim.driver()));
    let stream = setup.stream();
    let buffer = DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap();
    let (held, calls) = (Mutex::new(Some(buffer)), Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    set_drop_error_hook(Some(Box::new(move |_, error| {
        if error.code() == CUDA_ERROR_UNKNOWN.0 {
            drop(held.lock().unwrap().take());
            counted.fetch_add(1, Ordering::SeqCst);
        }
    })));
    let (done, wait) = std::sync::mpsc::channel();
    let ended = stream.clone();
    std::thread::spawn(move || {
        sim.fail(Function::cuGraphDestroy, 1, CUDA_ERROR_UNKNOWN);
        let mode = CaptureMode::Relaxed.as_raw();
        drop(StreamGraphCapture::begin(&ended, mode).unwrap());
        done.send(()).unwrap();
    });
    wait.recv_timeout(std::time::Duration::from_secs(10)).expect("it hangs");
    set_drop_error_hook(None);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    setup.assert_usable(&stream);
}
