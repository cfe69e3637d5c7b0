//! A word of device memory, and the text of a refusal.

use std::fmt::Debug;

use grapture::{CudaError, CudaResult, DeviceBuffer, Stream};

use super::Setup;

/// A word that is 0.
pub fn word(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

/// What the word is when the stream's work is done.
#[track_caller]
pub fn value(word: &DeviceBuffer<u32>, stream: &Stream) -> u32 {
    word.to_vec(stream).unwrap()[0]
}

/// What the library says, which refuses it before the driver sees it.
#[track_caller]
pub fn refusal<T: Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}
