//! The lock-free parts of grapture under [loom], which runs their threads in every order, with
//! every value that a weakly ordered load may see.
//!
//! The files are those of the library. What they use of it is played here by a few lines each:
//! loom's atomics and locks by `sync`, a capture by `capture::log`.

#![allow(dead_code, reason = "the files are parts of a larger whole")]

#[path = "."]
mod capture {
    #[path = "../../grapture/src/capture/gate.rs"]
    pub(crate) mod gate;
    pub(crate) mod log;
    #[path = "../../grapture/src/capture/open.rs"]
    pub(crate) mod open;
    #[path = "../../grapture/src/capture/thread_owned.rs"]
    pub(crate) mod thread_owned;

    pub(crate) mod recording {
        pub(crate) use super::log::{Recording, SharedRecording};
    }

    pub(crate) use log::CaptureLog;
}
mod error;
mod graph;
pub mod models;
mod sync;
