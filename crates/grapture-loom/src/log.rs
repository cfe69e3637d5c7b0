//! A capture, as far as the gate and its threads see one: the order in which the library's log
//! takes and gives up what the gate has.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use crate::capture::gate::CaptureGate;
use crate::error::{CudaError, CudaResult};
use crate::graph::GraphKey;

#[derive(Clone)]
pub(crate) struct CaptureLog {
    key: GraphKey,
    gate: Arc<CaptureGate>,
}

/// What the thread of the capture records. Loom sees it if two threads are in it, or if one does
/// not see what the one before wrote.
#[derive(Default)]
pub(crate) struct Recording {
    open: Option<GraphKey>,
    operations: UnsafeCell<usize>,
}

/// What the other threads record.
#[derive(Default)]
pub(crate) struct SharedRecording {
    open: Option<GraphKey>,
    operations: usize,
}

impl Recording {
    pub(crate) fn record(&mut self) {
        // SAFETY: loom checks that nobody else is in it.
        self.operations.with_mut(|operations| unsafe { *operations += 1 });
    }

    fn take(&mut self) -> usize {
        // SAFETY: as above.
        self.operations.with_mut(|operations| unsafe { std::mem::take(&mut *operations) })
    }
}

impl CaptureLog {
    pub(crate) fn new(gate: &Arc<CaptureGate>) -> CaptureLog {
        CaptureLog::of(GraphKey::new(), gate)
    }

    pub(crate) fn of(key: GraphKey, gate: &Arc<CaptureGate>) -> CaptureLog {
        CaptureLog { key, gate: gate.clone() }
    }

    pub(crate) fn key(&self) -> GraphKey {
        self.key
    }

    pub(crate) fn began_at(&self, gate: &CaptureGate) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.gate), gate)
    }

    /// Begins the capture by `begin`, the driver's call.
    pub(crate) fn open(&self, begin: impl FnOnce()) -> CudaResult<()> {
        self.gate.enter(self, || {
            let mut shared = self.gate.shared();
            assert!(self.gate.own().claim(), "a capture that is closed records no more");
            begin();
            shared.open = Some(self.key);
            let mut own = self.gate.own().get().expect("it was just claimed");
            own.open = Some(self.key);
            Ok(())
        })
    }

    /// Has the stream of another gate join it by `wait`, the driver's call.
    pub(crate) fn join(&self, gate: &Arc<CaptureGate>, wait: impl FnOnce()) -> CudaResult<()> {
        gate.enter(self, || {
            let shared = self.gate.shared();
            if shared.open != Some(self.key) {
                return Err(CudaError);
            }
            wait();
            Ok(())
        })
    }

    /// Records an operation of whichever thread; none if the capture is over.
    pub(crate) fn record(&self, call: impl FnOnce()) -> Option<()> {
        if let Some(mut own) = self.gate.own().get().filter(|own| own.open == Some(self.key)) {
            call();
            own.record();
            return Some(());
        }
        let mut shared = self.gate.shared();
        if shared.open != Some(self.key) {
            return None;
        }
        call();
        shared.operations += 1;
        Some(())
    }

    /// Ends it by `end`, the driver's call. Gives how many operations there were.
    pub(crate) fn close(&self, joined: &[&Arc<CaptureGate>], end: impl FnOnce()) -> usize {
        let mut own = self.gate.own().get().expect("the capture began on this thread");
        let mut shared = self.gate.shared();
        end();
        own.open = None;
        let operations = own.take() + std::mem::take(&mut shared.operations);
        drop(own);
        self.gate.own().release();
        shared.open = None;
        self.gate.end();
        drop(shared);
        for gate in joined {
            gate.leave(self);
        }
        operations
    }
}
