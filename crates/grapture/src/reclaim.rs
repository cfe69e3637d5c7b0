//! The reclaimer: a thread of the library on which things are released that must not be released
//! where their last handle falls, or not yet (O3).
//!
//! Freeing memory waits for the whole device, and meanwhile the driver has nearly all calls of the
//! process wait, launches included (measured). So what the thread frees is put off until the
//! streams of the context are idle.
//!
//! What a graph owns waits there for the graph's last launch; what a host function captured comes
//! from a thread of the driver's, where CUDA calls are forbidden. The thread's capture mode is
//! relaxed for good, so a release breaks no capture (O9).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::driver::Driver;
use crate::tell::contained;

use grapture_sys as sys;
use grapture_sys::CU_STREAM_CAPTURE_MODE_RELAXED;

/// How long the thread rests before it asks again whether something can be released.
const RETRY: Duration = Duration::from_millis(1);

/// How long memory is kept at most when the device is never idle.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is dropped on the reclaimer's thread.
pub(crate) type Bundle = Box<dyn Send>;

/// What is dropped on the reclaimer's thread as soon as it may be.
pub(crate) trait Deferred: Send {
    /// Whether it can be dropped now. Must not block.
    fn is_due(&mut self) -> bool;
}

enum Message {
    Release(Bundle),
    Defer(Box<dyn Deferred>),
    Drained(Sender<()>),
}

/// Hands things to the reclaimer's thread. The thread starts with the first [`handle`], and ends
/// when the driver and the last handle are gone and nothing waits any more.
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
                contained(|| tracing::error!(%error, "no thread for the reclaimer"));
            }
            Mutex::new(sender)
        });
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        ReclaimHandle { sender: sender.clone() }
    }

    /// Whether something can be waiting for its release.
    pub(crate) fn is_running(&self) -> bool {
        self.sender.get().is_some() && !RECLAIMS.get()
    }

    /// Waits until everything sent so far that is due is dropped. On the reclaimer's own thread,
    /// which drops something now, it cannot wait for itself.
    pub(crate) fn drain(&self) {
        if !self.is_running() {
            return;
        }
        let (done, wait) = mpsc::channel();
        self.handle().send(Message::Drained(done));
        let _ = wait.recv();
    }
}

impl ReclaimHandle {
    /// Has `bundle` dropped on the reclaimer's thread. Calls no driver function.
    pub(crate) fn release(&self, bundle: Bundle) {
        self.send(Message::Release(bundle));
    }

    /// Has `deferred` dropped on the reclaimer's thread when it is due. Calls no driver function.
    pub(crate) fn defer(&self, deferred: Box<dyn Deferred>) {
        self.send(Message::Defer(deferred));
    }

    fn send(&self, message: Message) {
        if let Err(mpsc::SendError(message)) = self.sender.send(message) {
            // There is no thread. To drop it here could be too early, or where CUDA calls are
            // forbidden.
            std::mem::forget(message);
            contained(|| {
                tracing::error!("the reclaimer's thread is gone: what it was sent is leaked");
            });
        }
    }
}

/// Has the reclaimer release what was taken out of a handle that is dropped in a host function,
/// where the driver refuses every call, or what nobody here shall wait for.
#[cold]
pub(crate) fn release_elsewhere<T: Send + 'static>(driver: &Driver, taken: T) {
    driver.reclaimer().handle().release(Box::new(taken));
}

thread_local! {
    /// Whether this is a reclaimer's thread.
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
    /// Whether what this thread drops is put off if it would wait for the device.
    static PUTS_OFF: Cell<bool> = const { Cell::new(false) };
    /// What was put off.
    static PUT_OFF: RefCell<Vec<PutOff>> = const { RefCell::new(Vec::new()) };
}

/// Something whose drop waits for the whole device.
struct PutOff {
    context: Context,
    bundle: Bundle,
    latest: Instant,
}

/// Whether a drop that waits for the whole device is put off on this thread.
#[inline]
pub(crate) fn puts_off() -> bool {
    PUTS_OFF.get()
}

/// Puts the drop of `taken` off, which waits for all work of the context.
#[cold]
pub(crate) fn put_off<T: Send + 'static>(context: &Context, taken: T) {
    let latest = Instant::now() + PATIENCE;
    let put_off = PutOff { context: context.clone(), bundle: Box::new(taken), latest };
    PUT_OFF.with_borrow_mut(|list| list.push(put_off));
}

/// Drops what was put off where the context is idle now, or all of it if it is `forced`.
fn drop_put_off(forced: bool) {
    let list = PUT_OFF.take();
    let mut idle: Option<(Context, bool)> = None;
    let (due, later): (Vec<_>, Vec<_>) = list.into_iter().partition(|put_off| {
        if forced || put_off.latest <= Instant::now() {
            return true;
        }
        match &idle {
            Some((context, idle)) if context.same(&put_off.context) => *idle,
            _ => idle.insert((put_off.context.clone(), put_off.context.seems_idle())).1,
        }
    });
    PUT_OFF.set(later);
    PUTS_OFF.set(false);
    due.into_iter().for_each(|put_off| drop_contained(put_off.bundle));
    PUTS_OFF.set(true);
}

fn run(driver: &sys::Driver, receiver: &Receiver<Message>) {
    RECLAIMS.set(true);
    PUTS_OFF.set(true);
    let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the pointer is a live local; a driver before 10.1 answers an error and has no modes.
    let _ = unsafe { (driver.functions().cuThreadExchangeStreamCaptureMode)(&mut mode) };
    let mut waiting: Vec<Box<dyn Deferred>> = Vec::new();
    // When to look at what waits: messages may come all the time.
    let mut look = Instant::now();
    loop {
        let waits = !waiting.is_empty() || PUT_OFF.with_borrow(|list| !list.is_empty());
        let message = if waits {
            receiver.recv_timeout(look.saturating_duration_since(Instant::now()))
        } else {
            look = Instant::now();
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match message {
            Ok(Message::Release(bundle)) => drop_contained(bundle),
            Ok(Message::Defer(deferred)) => {
                waiting.push(deferred);
                if !waits {
                    look = Instant::now() + RETRY;
                }
            }
            Ok(Message::Drained(done)) => {
                release_due(&mut waiting);
                drop_put_off(true);
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if !waits => return,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(RETRY),
        }
        if look <= Instant::now() {
            release_due(&mut waiting);
            drop_put_off(false);
            look = Instant::now() + RETRY;
        }
    }
}

fn release_due(waiting: &mut Vec<Box<dyn Deferred>>) {
    for due in waiting.extract_if(.., |deferred| deferred.is_due()) {
        drop_contained(due);
    }
}

/// Drops what a graph or a capture owned, or would have. It can be a value of the user's whose
/// `Drop` panics: that is reported, and goes no further.
pub(crate) fn drop_contained<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        discard(payload);
        contained(|| {
            tracing::error!("a value that a graph owned panicked while it was dropped");
        });
    }
}

/// Drops what a panic that is contained carried. That may panic in its own drop, with something
/// that does so too, and so on: from there on it is leaked.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

/// A value of the user's, whose drop is contained by itself: of several that go together, a second
/// one that panicked would end the process.
pub(crate) struct Contained<T>(ManuallyDrop<T>);

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Contained<T> {
        Contained(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        // SAFETY: this is the drop, after which nobody has the value.
        drop_contained(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use grapture_sim::SimConfig;

    use super::{Deferred, ReclaimHandle, Reclaimer};

    /// Sends itself again when it is dropped.
    struct Again(ReclaimHandle, Arc<AtomicBool>);

    impl Drop for Again {
        fn drop(&mut self) {
            if self.1.load(Ordering::SeqCst) {
                self.0.release(Box::new(Again(self.0.clone(), self.1.clone())));
            }
        }
    }

    /// Is due at once, and tells of its release.
    struct Due(mpsc::Sender<()>);

    impl Deferred for Due {
        fn is_due(&mut self) -> bool {
            true
        }
    }

    impl Drop for Due {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn sim_what_waits_is_looked_at_while_messages_come_all_the_time() {
        let reclaimer = Reclaimer::new(grapture_sim::driver(SimConfig::default()));
        let (goes_on, (released, release)) = (Arc::new(AtomicBool::new(true)), mpsc::channel());
        reclaimer.handle().release(Box::new(Again(reclaimer.handle(), goes_on.clone())));
        reclaimer.handle().defer(Box::new(Due(released)));
        let looked_at = release.recv_timeout(Duration::from_secs(10));
        goes_on.store(false, Ordering::SeqCst);
        looked_at.unwrap();
    }
}
