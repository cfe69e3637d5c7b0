//! [`BorrowedLog`]: the log of a capture whose stream is borrowed.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use crate::capture::CaptureLog;
use crate::graph::GraphKey;
use crate::stream::Stream;

/// The log of a capture that began on a stream, for who borrows that stream: it counts no share in
/// the gate, and so its drop costs nothing.
pub(super) struct BorrowedLog<'s> {
    log: ManuallyDrop<CaptureLog>,
    /// Whether it has a share after all, since the stream has not: its gate is the thread's.
    owned: bool,
    _stream: PhantomData<&'s Stream>,
}

impl<'s> BorrowedLog<'s> {
    /// A capture that is to begin on the stream.
    pub(super) fn new(stream: &'s Stream) -> BorrowedLog<'s> {
        let (gate, owned) = match stream.own_gate() {
            // SAFETY: of a live `Arc`, which the stream has as long as it is borrowed. The second
            // one is never dropped.
            Some(gate) => (unsafe { Arc::from_raw(Arc::as_ptr(gate)) }, false),
            None => (stream.with_gate(Arc::clone), true),
        };
        let log = ManuallyDrop::new(CaptureLog { key: GraphKey::new(), gate });
        BorrowedLog { log, owned, _stream: PhantomData }
    }
}

impl Deref for BorrowedLog<'_> {
    type Target = CaptureLog;

    #[inline]
    fn deref(&self) -> &CaptureLog {
        &self.log
    }
}

impl Drop for BorrowedLog<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: this is the drop, after which nobody has the value.
            unsafe { ManuallyDrop::drop(&mut self.log) };
        }
    }
}
