//! What a [`CaptureError`] says: after which operation the capture was valid, what broke it, and
//! what to do.

use std::fmt;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CUresult,
};

use crate::capture::error::CaptureError;
use crate::capture::logged::FailedOperation;
use crate::error::{remedy, write_code};
use crate::operation::Line;

/// What to do about a call that nothing is known of but the code.
const CORRECT_IT: &str = "correct the call, and capture again";

/// Where to look if nothing of this library broke the capture.
const FOREIGN: &str = "by a call that did not go through this library, or by another thread: look \
                       there for a synchronisation, a query or an allocation, and make it before \
                       the capture, after it, or under `ThreadCaptureMode::set`";

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the capture failed: ")?;
        if self.refused {
            return self.write_refused(f);
        }
        write_code(f, self.code)?;
        f.write_str("; ")?;
        self.write_valid(f)?;
        match &self.first_failure {
            Some(failure) if failure.broke_it() => self.write_broken_by(f, failure),
            Some(failure) => {
                write!(f, ", broken before {} ", failure.operation)?;
                self.write_foreign(f)
            }
            None => self.write_end(f),
        }
    }
}

impl CaptureError {
    /// How long the capture was valid.
    fn write_valid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.last_operation, self.recorded) {
            (Some(last), _) => write!(f, "valid after {last}"),
            (None, 0) => f.write_str("nothing was recorded in it"),
            (None, count) => write!(f, "valid after op {}, of another thread", count - 1),
        }
    }

    fn write_broken_by(
        &self,
        f: &mut fmt::Formatter<'_>,
        failure: &FailedOperation,
    ) -> fmt::Result {
        write!(f, ", broken by {}", failure.operation)?;
        if failure.code != self.code {
            f.write_str(", which the driver answered with \"")?;
            write_code(f, failure.code)?;
            f.write_str("\"")?;
        }
        write!(f, ": {}", remedy(failure.code).unwrap_or(CORRECT_IT))
    }

    /// Who broke it, if no operation did.
    fn write_foreign(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.barred {
            Some(call) => write!(f, "by {call}: {}", remedy(call.code()).unwrap_or(CORRECT_IT)),
            None => f.write_str(FOREIGN),
        }
    }

    /// What is wrong if the end is the first to fail.
    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CUresult(self.code) {
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => {
                f.write_str(", broken before its end")?;
                if let Some(end) = self.end {
                    write!(f, " ({})", Line(end))?;
                }
                f.write_str(" ")?;
                self.write_foreign(f)
            }
            CUDA_ERROR_STREAM_CAPTURE_UNJOINED => self.write_forks(f),
            CUDA_ERROR_ILLEGAL_STATE => f.write_str(
                ", but when it was to be ended the stream was not in this capture any more: who \
                 has the raw handle has ended it, and must leave that to this library",
            ),
            _ => write!(f, ": {}", remedy(self.code).unwrap_or("capture again")),
        }
    }

    fn write_forks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unjoined: Vec<_> = self.forks.iter().filter(|fork| !fork.is_joined()).collect();
        for (index, fork) in unjoined.iter().enumerate() {
            f.write_str(if index == 0 { ", but " } else { ", and " })?;
            write!(f, "the stream that joined at {} was not joined back", Line(fork.location))?;
            if let Some(last) = &fork.unjoined {
                write!(f, " after op {} (", last.index)?;
                last.site.write_what(f)?;
                write!(f, ", {})", Line(last.site.location()))?;
            }
        }
        f.write_str(match unjoined.len() {
            0 => {
                ": a stream of it that this library does not know was not joined back: record an \
                 event on it and wait for that on the stream that began the capture"
            }
            1 => ": record an event on it and wait for that on the stream that began the capture",
            _ => ": record an event on each and wait for them on the stream that began the capture",
        })
    }

    /// Why the graph is not handed out that the driver gave.
    fn write_refused(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.recorded == 0 {
            f.write_str("nothing was recorded in it, and ")?;
        }
        write!(
            f,
            "{}: submit it to a stream of the capture, or before the capture begins, or let it \
             pass with `CaptureOptions::escapes`",
            self.escapes
        )
    }
}
