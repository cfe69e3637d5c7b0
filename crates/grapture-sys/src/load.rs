//! Finding the driver's library and its functions.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::{CString, OsStr};
use std::fmt;

use libloading::Library;

use crate::bindings::*;
use crate::codes::error_code;
use crate::table::FunctionInfo;

/// The names under which a driver installs itself, in the order in which they are tried. A
/// toolkit's link-time stub is called `libcuda.so`, so that name comes last.
#[cfg(windows)]
pub(crate) const LIBRARY_NAMES: &[&str] = &["nvcuda.dll"];
/// The names under which a driver installs itself, in the order in which they are tried. A
/// toolkit's link-time stub is called `libcuda.so`, so that name comes last.
#[cfg(not(windows))]
pub(crate) const LIBRARY_NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// One library that was tried, and why it could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name or path.
    pub name: String,
    /// The loader's reason.
    pub reason: String,
}

/// Why there is no driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// No library could be loaded.
    NotFound {
        /// Each name that was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// A library was loaded that lacks a function which every CUDA driver has.
    NotADriver {
        /// The library.
        library: String,
        /// The function that it lacks.
        symbol: &'static str,
    },
    /// The driver was loaded, and does not start.
    Init {
        /// The library.
        library: String,
        /// The call that failed: `cuInit` or `cuDriverGetVersion`.
        call: &'static str,
        /// What it answered.
        code: CUresult,
    },
}

impl LoadError {
    /// The driver's code for it: `CUDA_ERROR_NOT_INITIALIZED` where no driver answered.
    pub fn code(&self) -> CUresult {
        match self {
            LoadError::NotFound { .. } | LoadError::NotADriver { .. } => CUDA_ERROR_NOT_INITIALIZED,
            LoadError::Init { code, .. } => *code,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotFound { attempts } => {
                f.write_str("no CUDA driver could be loaded")?;
                for (index, attempt) in attempts.iter().enumerate() {
                    f.write_str(if index == 0 { ": " } else { "; " })?;
                    write!(f, "tried {}: {}", attempt.name, attempt.reason)?;
                }
                Ok(())
            }
            LoadError::NotADriver { library, symbol } => {
                write!(f, "{library} is not a CUDA driver: it has no function {symbol}")
            }
            LoadError::Init { library, call, code } => {
                write!(f, "the CUDA driver {library} was loaded, but {call} failed: ")?;
                match error_code(*code) {
                    Some(known) => write!(f, "{} ({}, {})", known.meaning, known.name, code.0)?,
                    None => write!(f, "error {}", code.0)?,
                }
                match advice(*code) {
                    Some(advice) => write!(f, "; {advice}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What to do about a driver that does not start, where its code tells.
fn advice(code: CUresult) -> Option<&'static str> {
    match code {
        CUDA_ERROR_STUB_LIBRARY => {
            Some("take the toolkit's folder `stubs` out of the library search path")
        }
        CUDA_ERROR_NO_DEVICE => Some("check `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set"),
        CUDA_ERROR_SYSTEM_NOT_READY => Some("check that the services of the system run"),
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            Some("the driver was updated under a running kernel module; reload it or reboot")
        }
        _ => None,
    }
}

impl std::error::Error for LoadError {}

/// The system's driver, by the first name that loads.
///
/// # Safety
///
/// Loading a library runs its initialisers.
pub(crate) unsafe fn open_system() -> Result<(Library, String), LoadError> {
    let mut attempts = Vec::new();
    for name in LIBRARY_NAMES {
        // SAFETY: the caller's promise.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok((library, (*name).to_owned())),
            Err(error) => attempts.push(attempt(name, &error)),
        }
    }
    Err(LoadError::NotFound { attempts })
}

/// The library at a path.
///
/// # Safety
///
/// Loading a library runs its initialisers.
pub(crate) unsafe fn open_path(path: &OsStr) -> Result<(Library, String), LoadError> {
    let name = path.to_string_lossy().into_owned();
    // SAFETY: the caller's promise.
    match unsafe { Library::new(path) } {
        Ok(library) => Ok((library, name)),
        Err(error) => Err(LoadError::NotFound { attempts: vec![attempt(&name, &error)] }),
    }
}

/// The system loader puts the name before its reason; it is said once here.
fn attempt(name: &str, error: &libloading::Error) -> Attempt {
    let reason = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let reason =
        reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&reason);
    Attempt { name: name.to_owned(), reason: reason.to_owned() }
}

type GetProcAddressV1 =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> CUresult;
type GetProcAddressV2 = unsafe extern "C" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    u64,
    *mut CUdriverProcAddressQueryResult,
) -> CUresult;

type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> CUresult;

/// How one library is asked for its functions: `cuGetProcAddress` at the pinned ABI version where
/// the driver has it (11.3), else the exported symbol of that ABI.
///
/// Asked for a version that is newer than its own, a driver answers with its newest ABI of the
/// name, which has another signature. So it is never asked for one.
pub(crate) struct Lookup<'a> {
    library: &'a Library,
    version: i32,
    v1: Option<GetProcAddressV1>,
    v2: Option<GetProcAddressV2>,
}

impl<'a> Lookup<'a> {
    /// # Safety
    ///
    /// What the library exports under the names of the CUDA driver API has the signatures of it.
    pub(crate) unsafe fn new(library: &'a Library) -> Lookup<'a> {
        // SAFETY: the caller's promise: an exported `cuGetProcAddress_v2` has this signature.
        let v2 = unsafe { library.get::<GetProcAddressV2>(b"cuGetProcAddress_v2\0") };
        // SAFETY: the caller's promise, for the first ABI of the same function.
        let v1 = unsafe { library.get::<GetProcAddressV1>(b"cuGetProcAddress\0") };
        // SAFETY: the caller's promise.
        let version = unsafe { library.get::<DriverGetVersion>(b"cuDriverGetVersion\0") };
        Lookup {
            library,
            version: version.ok().map_or(0, |function| driver_version(*function)),
            v1: v1.ok().map(|symbol| *symbol),
            v2: v2.ok().map(|symbol| *symbol),
        }
    }

    /// The address of a function, or null.
    pub(crate) fn address(&self, info: &'static FunctionInfo) -> *const c_void {
        let found = self.proc_address(info);
        if found.is_null() { self.exported(info) } else { found }
    }

    fn proc_address(&self, info: &'static FunctionInfo) -> *const c_void {
        if info.since > self.version {
            return std::ptr::null();
        }
        let Ok(name) = CString::new(info.name) else { return std::ptr::null() };
        let mut address = std::ptr::null_mut();
        let flags = u64::from(CU_GET_PROC_ADDRESS_DEFAULT.0);
        let code = if let Some(get) = self.v2 {
            let mut status = CU_GET_PROC_ADDRESS_SUCCESS;
            // SAFETY: `name` is NUL-terminated, and both out-pointers are live locals.
            unsafe { get(name.as_ptr(), &mut address, info.since, flags, &mut status) }
        } else if let Some(get) = self.v1 {
            // SAFETY: as above; this ABI has no status.
            unsafe { get(name.as_ptr(), &mut address, info.since, flags) }
        } else {
            return std::ptr::null();
        };
        if code == CUDA_SUCCESS { address } else { std::ptr::null() }
    }

    fn exported(&self, info: &'static FunctionInfo) -> *const c_void {
        let Ok(symbol) = CString::new(info.symbol) else { return std::ptr::null() };
        // SAFETY: the symbol is only asked for its address; it is not called as this type.
        match unsafe { self.library.get::<unsafe extern "C" fn()>(symbol.as_bytes_with_nul()) } {
            Ok(function) => *function as *const c_void,
            Err(_) => std::ptr::null(),
        }
    }
}

/// The driver's version, which it tells before `cuInit`; 0 where it does not, so that only exported
/// symbols are used.
fn driver_version(function: DriverGetVersion) -> i32 {
    let mut version = 0;
    // SAFETY: the out-pointer is a live local.
    let code = unsafe { function(&mut version) };
    if code == CUDA_SUCCESS { version } else { 0 }
}
