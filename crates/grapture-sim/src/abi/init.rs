//! Start, version and error texts.

use core::ffi::c_char;
use std::ffi::CString;
use std::sync::OnceLock;

use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_DEVICE, CUDA_SUCCESS, CUresult, Function, error_code,
};

use super::Ptr;
use crate::sim::{Answer, Sim};

/// Functions that touch no device, which a host function may call too.
pub(super) fn is_pure(function: Function) -> bool {
    use Function::*;
    matches!(
        function,
        cuInit
            | cuDriverGetVersion
            | cuGetErrorName
            | cuGetErrorString
            | cuGetProcAddress
            | cuGetProcAddress_v2
    )
}

/// Functions that need no `cuInit`.
pub(super) fn works_before_init(function: Function) -> bool {
    use Function::*;
    is_pure(function)
        || matches!(
            function,
            cuUserObjectCreate
                | cuUserObjectRetain
                | cuUserObjectRelease
                | cuGetExportTable
                | cuLibraryUnload
                | cuEventDestroy_v2
                | cuMemAdvise
                | cuMemAdvise_v2
        )
}

pub(crate) fn cuInit(sim: &Sim, flags: u32) -> Answer {
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if sim.config.device_count() == 0 {
        return Err(CUDA_ERROR_NO_DEVICE);
    }
    sim.lock().initialized = true;
    Ok(())
}

pub(crate) fn cuDriverGetVersion(sim: &Sim, version: Ptr<i32>) -> Answer {
    version.write(sim.config.version())
}

pub(crate) fn cuGetErrorName(sim: &Sim, error: CUresult, text: Ptr<*const c_char>) -> Answer {
    say(sim, error, text, |name, _| name)
}

pub(crate) fn cuGetErrorString(sim: &Sim, error: CUresult, text: Ptr<*const c_char>) -> Answer {
    say(sim, error, text, |_, meaning| meaning)
}

/// Codes that came with a driver: a stream that is detached, a capture that does not repeat.
const NEW_CODES: [(CUresult, i32); 2] = [(CUresult(917), 13_010), (CUresult(918), 13_030)];

type Texts = Vec<(CUresult, CString, CString)>;

fn say(
    sim: &Sim,
    error: CUresult,
    out: Ptr<*const c_char>,
    pick: fn(&'static CString, &'static CString) -> &'static CString,
) -> Answer {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let texts = TEXTS.get_or_init(texts);
    let new = |(code, since): &(CUresult, i32)| *code == error && *since > sim.config.version();
    let known = texts.iter().find(|(code, ..)| *code == error);
    match known.filter(|_| !NEW_CODES.iter().any(new)) {
        Some((_, name, meaning)) => out.write(pick(name, meaning).as_ptr()),
        None => {
            out.write(std::ptr::null())?;
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    }
}

fn texts() -> Texts {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let mut texts = vec![(CUDA_SUCCESS, text("CUDA_SUCCESS"), text("no error"))];
    texts.extend((1..1000).map(CUresult).filter_map(|code| {
        error_code(code).map(|known| (code, text(known.name), text(known.meaning)))
    }));
    texts
}
