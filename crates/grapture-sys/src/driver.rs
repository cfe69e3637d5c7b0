//! [`Driver`]: a loaded and initialised driver.

use core::ffi::{c_int, c_void};
use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use crate::bindings::*;
use crate::load::{self, LoadError};
use crate::table::{Function, FunctionInfo, FunctionSet, Functions};

/// A driver that answered `cuInit`: its functions, its version and where it came from.
///
/// A clone is the same driver. What the functions need (a library, a simulator) stays loaded as
/// long as a clone lives.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

struct Inner {
    functions: Functions,
    missing: FunctionSet,
    version: i32,
    origin: Origin,
    // Dropped last: the functions point into it.
    _keep: Box<dyn Any + Send + Sync>,
}

/// Where a driver came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A library, by the name or path that loaded.
    Library(String),
    /// A resolver, by the name that its maker gave it.
    Resolver(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Library(name) | Origin::Resolver(name) => f.write_str(name),
        }
    }
}

impl Driver {
    /// Loads the system's driver and calls `cuInit`.
    ///
    /// # Errors
    ///
    /// No library loads, it is no driver, or `cuInit` fails (no device, a stub library, …).
    pub fn load() -> Result<Driver, LoadError> {
        // SAFETY: the names are those under which NVIDIA's driver installs itself; a system where
        // they name something else has no CUDA driver, and every CUDA program there is at fault.
        let (library, name) = unsafe { load::open_system() }?;
        // SAFETY: as above.
        unsafe { Driver::from_library(library, name) }
    }

    /// Loads the driver at `path` and calls `cuInit`.
    ///
    /// # Safety
    ///
    /// The library's initialisers run, and each function that it exports under a name of the CUDA
    /// driver API has the ABI of that name.
    ///
    /// # Errors
    ///
    /// As [`load`](Driver::load).
    pub unsafe fn load_from(path: impl AsRef<OsStr>) -> Result<Driver, LoadError> {
        // SAFETY: the caller's promise.
        let (library, name) = unsafe { load::open_path(path.as_ref()) }?;
        // SAFETY: the caller's promise.
        unsafe { Driver::from_library(library, name) }
    }

    /// A driver whose functions `resolver` gives: the address of the function that a table line
    /// describes, or null where it has none. The resolver is kept as long as the driver.
    ///
    /// # Safety
    ///
    /// Each address is that of a function with the C signature of its line, callable from any
    /// thread as long as the resolver is not dropped.
    ///
    /// # Errors
    ///
    /// There is no `cuInit` or `cuDriverGetVersion`, or `cuInit` fails.
    pub unsafe fn from_resolver<R>(name: &str, resolver: R) -> Result<Driver, LoadError>
    where
        R: Fn(&'static FunctionInfo) -> *const c_void + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise; `keep` holds the resolver as long as the table.
        let (functions, missing) = unsafe { Functions::resolve(&resolver) };
        let origin = Origin::Resolver(name.to_owned());
        Driver::start(functions, missing, origin, Box::new(resolver))
    }

    /// # Safety
    ///
    /// The library exports the CUDA driver API.
    unsafe fn from_library(
        library: libloading::Library,
        name: String,
    ) -> Result<Driver, LoadError> {
        // SAFETY: the caller's promise.
        let lookup = unsafe { load::Lookup::new(&library) };
        // SAFETY: the caller's promise; `keep` holds the library as long as the table.
        let (functions, missing) = unsafe { Functions::resolve(|info| lookup.address(info)) };
        Driver::start(functions, missing, Origin::Library(name), Box::new(library))
    }

    fn start(
        functions: Functions,
        missing: FunctionSet,
        origin: Origin,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Driver, LoadError> {
        for needed in [Function::cuInit, Function::cuDriverGetVersion] {
            if missing.contains(needed) {
                let symbol = needed.info().symbol;
                return Err(LoadError::NotADriver { library: origin.to_string(), symbol });
            }
        }
        // SAFETY: the table's `cuInit`; it takes no pointer.
        let code = unsafe { (functions.cuInit)(0) };
        if code != CUDA_SUCCESS {
            return Err(LoadError::Init { library: origin.to_string(), call: "cuInit", code });
        }
        let mut version: c_int = 0;
        // SAFETY: the out-pointer is a live local.
        let code = unsafe { (functions.cuDriverGetVersion)(&mut version) };
        if code != CUDA_SUCCESS {
            let call = "cuDriverGetVersion";
            return Err(LoadError::Init { library: origin.to_string(), call, code });
        }
        Ok(Driver { inner: Arc::new(Inner { functions, missing, version, origin, _keep: keep }) })
    }

    /// The function table.
    pub fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// Whether the driver has the function. One that it lacks answers `CUDA_ERROR_NOT_SUPPORTED`.
    pub fn has(&self, function: Function) -> bool {
        !self.inner.missing.contains(function)
    }

    /// The functions that the driver lacks.
    pub fn missing(&self) -> &FunctionSet {
        &self.inner.missing
    }

    /// The CUDA version of the driver: 1000 × major + 10 × minor.
    pub fn version(&self) -> i32 {
        self.inner.version
    }

    /// Where it came from.
    pub fn origin(&self) -> &Origin {
        &self.inner.origin
    }

    /// Whether two values are the same driver.
    pub fn same(&self, other: &Driver) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("version", &self.inner.version)
            .field("origin", &self.inner.origin)
            .field("missing", &self.inner.missing.iter().count())
            .finish()
    }
}
