//! [`Fault`]: what a running operation did wrong.

use grapture_sys::CUresult;

/// An operation that failed while it ran. It breaks its context: every later call there answers
/// the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What the driver answers from now on.
    pub(crate) code: CUresult,
    /// What happened, for the person who looks for the mistake.
    pub(crate) text: String,
}

impl Fault {
    /// A fault with this code and text.
    pub(crate) fn new(code: CUresult, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }
}
