//! [`CaptureMode`]: which captures bar which threads from calls that do work that no stream sees.

use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUstreamCaptureMode,
};

/// The mode that a capture was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureMode {
    /// Bars every thread whose own mode does not lift it.
    Global,
    /// Bars the thread that began it.
    ThreadLocal,
    /// Bars nobody, and any thread may end it.
    Relaxed,
}

impl CaptureMode {
    /// The mode with this C value; nothing for a value that is not a mode.
    pub(crate) fn from_raw(raw: CUstreamCaptureMode) -> Option<CaptureMode> {
        match raw {
            CU_STREAM_CAPTURE_MODE_GLOBAL => Some(CaptureMode::Global),
            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => Some(CaptureMode::ThreadLocal),
            CU_STREAM_CAPTURE_MODE_RELAXED => Some(CaptureMode::Relaxed),
            _ => None,
        }
    }

    /// Whether a capture of this mode bars a thread of that mode from an unsafe call; `own` says
    /// that the thread began the capture.
    pub(crate) fn bars(self, own: bool, thread_mode: CUstreamCaptureMode) -> bool {
        if self == CaptureMode::Relaxed || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED {
            return false;
        }
        let others = self == CaptureMode::Global && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        own || others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_of_modes_and_threads() {
        use CaptureMode::{Global, Relaxed, ThreadLocal};
        let barred =
            |capture: CaptureMode, own, thread: u32| capture.bars(own, CUstreamCaptureMode(thread));
        let rows = [(Global, [true, true, false]), (ThreadLocal, [true, true, false])];
        for (capture, by_thread) in rows {
            for (thread, expected) in by_thread.into_iter().enumerate() {
                assert_eq!(barred(capture, true, thread as u32), expected, "own {capture:?}");
            }
        }
        assert!(barred(Global, false, 0));
        assert!(!barred(Global, false, 1));
        assert!(!barred(Global, false, 2));
        for thread in 0..3 {
            assert!(!barred(ThreadLocal, false, thread));
            assert!(!barred(Relaxed, true, thread));
            assert!(!barred(Relaxed, false, thread));
        }
    }
}
