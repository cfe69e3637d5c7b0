//! As much of the library's errors as the gate needs.

use grapture_sys::CUresult;

#[derive(Debug)]
pub(crate) struct CudaError;

pub(crate) type CudaResult<T> = Result<T, CudaError>;

impl CudaError {
    pub(crate) fn refused(_: CUresult, _: &'static str, _: impl Into<String>) -> CudaError {
        CudaError
    }
}
