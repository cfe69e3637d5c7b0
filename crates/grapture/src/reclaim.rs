//! The reclaimer: where what a graph owned is released (O3).
//!
//! The driver runs a user object's destructor on a thread where CUDA calls are forbidden, so the
//! destructor only sends the owned bundle here. A thread of the library drops it: that thread may
//! call the driver, and its capture mode is relaxed for good, so a release breaks no capture (O9).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use grapture_sys as sys;
use grapture_sys::CU_STREAM_CAPTURE_MODE_RELAXED;

/// What is dropped on the reclaimer's thread.
pub(crate) type Bundle = Box<dyn Send>;

enum Message {
    Release(Bundle),
    Drained(Sender<()>),
}

/// Hands bundles to the reclaimer's thread. The thread starts with the first [`handle`] and ends
/// when the last handle and the driver are gone.
///
/// [`handle`]: Reclaimer::handle
pub(crate) struct Reclaimer {
    driver: sys::Driver,
    sender: OnceLock<Mutex<Sender<Message>>>,
}

/// A way to the reclaimer that may outlive the driver's handles.
#[derive(Clone)]
pub(crate) struct ReclaimHandle {
    sender: Sender<Message>,
}

impl Reclaimer {
    pub(crate) fn new(driver: sys::Driver) -> Reclaimer {
        Reclaimer { driver, sender: OnceLock::new() }
    }

    pub(crate) fn handle(&self) -> ReclaimHandle {
        let sender = self.sender.get_or_init(|| {
            let (sender, receiver) = mpsc::channel();
            let driver = self.driver.clone();
            let spawned = thread::Builder::new()
                .name("grapture-reclaim".to_owned())
                .spawn(move || run(&driver, &receiver));
            if let Err(error) = spawned {
                // The receiver is gone with the closure: `release` then drops where it is.
                tracing::error!(%error, "no thread for the reclaimer");
            }
            Mutex::new(sender)
        });
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        ReclaimHandle { sender: sender.clone() }
    }

    /// Waits until everything sent so far is dropped. On the reclaimer's own thread, which drops
    /// something now, it cannot wait for itself.
    pub(crate) fn drain(&self) {
        if self.sender.get().is_none() || RECLAIMS.get() {
            return;
        }
        let (done, wait) = mpsc::channel();
        if self.handle().sender.send(Message::Drained(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

impl ReclaimHandle {
    /// Has `bundle` dropped on the reclaimer's thread. Calls no driver function.
    pub(crate) fn release(&self, bundle: Bundle) {
        if let Err(mpsc::SendError(Message::Release(bundle))) =
            self.sender.send(Message::Release(bundle))
        {
            // There is no thread. To drop it here could call the driver where that is forbidden.
            tracing::error!("the reclaimer's thread is gone: what a graph owned is leaked");
            std::mem::forget(bundle);
        }
    }
}

thread_local! {
    /// Whether this is a reclaimer's thread.
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
}

/// Drops what a graph or a capture owned, or would have. It can be a value of the user's whose
/// `Drop` panics: that is reported, and goes no further.
pub(crate) fn drop_contained(bundle: Bundle) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(bundle))) {
        // The payload may panic in its own drop.
        std::mem::forget(payload);
        tracing::error!("a value that a graph owned panicked while it was dropped");
    }
}

fn run(driver: &sys::Driver, receiver: &Receiver<Message>) {
    RECLAIMS.set(true);
    let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the pointer is a live local; a driver before 10.1 answers an error and has no modes.
    let _ = unsafe { (driver.functions().cuThreadExchangeStreamCaptureMode)(&mut mode) };
    while let Ok(message) = receiver.recv() {
        match message {
            Message::Release(bundle) => drop_contained(bundle),
            Message::Drained(done) => {
                let _ = done.send(());
            }
        }
    }
}
