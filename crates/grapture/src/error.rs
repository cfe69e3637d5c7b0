//! [`CudaError`]: what went wrong, by the driver's code or by what the library knows beyond it.

use std::fmt;

use grapture_sys as sys;
use grapture_sys::{CUDA_SUCCESS, CUresult, error_codes};

use crate::capture::{CaptureError, SegmentError};
use crate::context_lost::ContextLost;
use crate::graph::{InstantiateError, UpdateError};
use crate::module::JitError;

/// The result of everything that can fail here.
pub type CudaResult<T> = Result<T, CudaError>;

macro_rules! define {
    ($($variant:ident = $number:literal $name:ident $meaning:literal;)*) => {
        /// An error: a code of the driver as a unit variant, or a richer one where the library
        /// knows more than a code.
        ///
        /// [`code`](CudaError::code) gives the driver's number in every case.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum CudaError {
            $(
                #[doc = concat!("`", stringify!($name), "` (", $number, "): ", $meaning, ".")]
                $variant,
            )*
            /// A code that this version of the library has no name for.
            Unknown(u32),
            /// A check of the library refused the call before the driver saw it.
            Refused(Box<Refusal>),
            /// The driver could not compile or load a module.
            Jit(Box<JitError>),
            /// A capture failed.
            Capture(Box<CaptureError>),
            /// A graph could not be instantiated.
            Instantiate(Box<InstantiateError>),
            /// An executable graph could not be updated.
            Update(Box<UpdateError>),
            /// A segment of work that is split failed.
            Segment(Box<SegmentError>),
            /// A fault of earlier work has taken the context.
            ContextLost(Box<ContextLost>),
        }

        impl CudaError {
            /// The error for a code of the driver that is not success.
            pub fn from_code(code: u32) -> CudaError {
                match code {
                    $($number => CudaError::$variant,)*
                    other => CudaError::Unknown(other),
                }
            }

            /// The driver's number for it. For a call that the library refused: the number that
            /// the driver would have answered.
            pub fn code(&self) -> u32 {
                match self {
                    $(CudaError::$variant => $number,)*
                    CudaError::Unknown(code) => *code,
                    CudaError::Refused(refusal) => refusal.code,
                    CudaError::Jit(error) => error.code(),
                    CudaError::Capture(error) => error.code(),
                    CudaError::Instantiate(error) => error.code(),
                    CudaError::Update(error) => error.code(),
                    CudaError::Segment(error) => error.code(),
                    CudaError::ContextLost(lost) => lost.code(),
                }
            }
        }
    };
}

error_codes!(define);

impl CudaError {
    /// The C name of the code, such as `CUDA_ERROR_INVALID_VALUE`, where it is known.
    pub fn name(&self) -> Option<&'static str> {
        sys::error_code(CUresult(self.code())).map(|known| known.name)
    }

    /// What to do about it, for the codes that have to do with captures and graphs. The text of an
    /// error ends with it.
    pub fn remedy(&self) -> Option<&'static str> {
        remedy(self.code())
    }

    /// Whether the context is lost with it: every later call on the context answers the same, and
    /// nothing runs there any more.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(self.code(), 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
    }

    /// A refusal: `what` is the argument or object, `problem` what is wrong with it and what to do.
    #[cold]
    pub(crate) fn refused(
        code: CUresult,
        what: &'static str,
        problem: impl Into<String>,
    ) -> CudaError {
        CudaError::Refused(Box::new(Refusal { code: code.0, what, problem: problem.into() }))
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::Refused(refusal) => refusal.fmt(f),
            CudaError::Jit(error) => error.fmt(f),
            CudaError::Capture(error) => error.fmt(f),
            CudaError::Instantiate(error) => error.fmt(f),
            CudaError::Update(error) => error.fmt(f),
            CudaError::Segment(error) => error.fmt(f),
            CudaError::ContextLost(lost) => lost.fmt(f),
            plain => {
                write_code(f, plain.code())?;
                match plain.remedy() {
                    Some(remedy) => write!(f, ": {remedy}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What to do about a code that has to do with captures and graphs.
pub(crate) fn remedy(code: u32) -> Option<&'static str> {
    Some(match code {
        720 => {
            "launch fewer blocks, at most as many as `Kernel::max_active_blocks` gives for each multiprocessor"
        }
        900 => "make the call before the capture begins or after it has ended",
        901 => "end the capture, and look for the first call that failed in it: that one broke it",
        902 => "end one of the captures before the wait, or record the work of both in one",
        903 => "end the capture on the stream on which it began",
        904 => {
            "record an event on each forked stream, and wait for it on the stream that began the capture"
        }
        905 => {
            "wait for the earlier work before the capture begins, or have each launch wait for it \
             with `Event::wait_external`"
        }
        906 => {
            "capture a stream made with `Stream::new`, which does not block, or keep off the legacy \
             stream until the capture has ended"
        }
        907 => "record the event outside of the capture, or in it with `Event::record_external`",
        908 => "end the capture on the thread that began it, or begin it in relaxed mode",
        910 => "instantiate the changed graph, and launch that",
        912 => "make the cluster smaller, and the grid a multiple of it",
        _ => return None,
    })
}

/// `meaning (NAME, number)`.
pub(crate) fn write_code(f: &mut fmt::Formatter<'_>, code: u32) -> fmt::Result {
    match sys::error_code(CUresult(code)) {
        Some(known) => write!(f, "{} ({}, {code})", known.meaning, known.name),
        None => write!(f, "the driver answered error {code}"),
    }
}

impl std::error::Error for CudaError {}

impl From<CUresult> for CudaError {
    fn from(code: CUresult) -> CudaError {
        CudaError::from_code(code.0)
    }
}

/// A call that the library refused before the driver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: u32,
    what: &'static str,
    problem: String,
}

impl Refusal {
    /// The argument or the object that is at fault, such as `kernel.grid_dim.x`.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// What is wrong with it, and the rule or the remedy.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.problem)
    }
}

/// The result of a driver call.
#[inline]
pub(crate) fn check(code: CUresult) -> CudaResult<()> {
    if code == CUDA_SUCCESS { Ok(()) } else { Err(failed(code)) }
}

#[cold]
fn failed(code: CUresult) -> CudaError {
    CudaError::from(code)
}
