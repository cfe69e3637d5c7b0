//! The options of a module's compilation: where the logs go.

use core::ffi::{c_char, c_void};

use grapture_sys::*;

use super::image::Refused;
use crate::abi::Ptr;
use crate::sim::Answer;

/// A log buffer: where it is, how large, and where the used size is written.
#[derive(Clone, Copy, Debug, Default)]
struct Log<'a> {
    buffer: Option<Ptr<'a, c_char>>,
    size: Option<Ptr<'a, *mut c_void>>,
}

/// The options that matter here. The others tune code that is not made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JitOptions<'a> {
    error: Log<'a>,
    info: Log<'a>,
}

impl<'a> JitOptions<'a> {
    /// Reads the arrays of options and their values.
    pub(crate) fn read(
        count: u32,
        options: Ptr<'a, CUjit_option>,
        values: Ptr<'a, *mut c_void>,
    ) -> Result<JitOptions<'a>, CUresult> {
        let mut known = JitOptions::default();
        for index in 0..count as usize {
            let slot = values.at(index)?;
            match options.at(index)?.read()? {
                CU_JIT_ERROR_LOG_BUFFER => known.error.buffer = Some(values.pointee(index)?.cast()),
                CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => known.error.size = Some(slot),
                CU_JIT_INFO_LOG_BUFFER => known.info.buffer = Some(values.pointee(index)?.cast()),
                CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES => known.info.size = Some(slot),
                option if option.0 < CU_JIT_NUM_OPTIONS.0 => {}
                _ => return Err(CUDA_ERROR_INVALID_VALUE),
            }
        }
        Ok(known)
    }

    /// Writes the logs of a compilation, and gives its code.
    pub(crate) fn report<T>(&self, result: Result<T, Refused>) -> Result<T, CUresult> {
        let text = result.as_ref().err().map_or("", |refused| refused.log.as_str());
        self.error.write(text)?;
        self.info.write("")?;
        result.map_err(|refused| refused.code)
    }
}

impl Log<'_> {
    /// Writes as much as fits, with a NUL, and how much that was.
    fn write(&self, text: &str) -> Answer {
        let (Some(buffer), Some(size)) = (self.buffer, self.size) else { return Ok(()) };
        let size = size.cast::<usize>();
        let Some(room) = size.read()?.checked_sub(1) else { return Ok(()) };
        if buffer.is_null() {
            return Ok(());
        }
        let bytes = text.bytes().take(room).chain([0]);
        buffer.write_all(bytes.map(|byte| byte as c_char))?;
        size.write(text.len().min(room))
    }
}
