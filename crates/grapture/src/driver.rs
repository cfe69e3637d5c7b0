//! [`Driver`]: the loaded CUDA driver.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use grapture_sys as sys;
use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUcontext, CUstreamCaptureMode, Function,
    FunctionInfo, Functions, LoadError,
};

use crate::context::ContextCaptures;
use crate::device::Device;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::reclaim::Reclaimer;

/// The environment variable that selects the process's default driver: unset or empty for the
/// system's, a path to a library, or `sim` for the simulated driver where the feature is on.
pub const DRIVER_VARIABLE: &str = "GRAPTURE_DRIVER";

/// A loaded CUDA driver. Every other handle reaches its functions through it.
///
/// A clone is the same driver. It is never unloaded while a handle that came from it lives.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<DriverInner>,
}

struct DriverInner {
    raw: sys::Driver,
    reclaimer: Reclaimer,
}

/// Whether the process has had handles of several contexts at once. Who has a handle of one sees it
/// set.
static SEVERAL_CONTEXTS: AtomicBool = AtomicBool::new(false);

/// Whether nodes of a graph can run in another context than the graph's.
pub(crate) fn several_contexts() -> bool {
    SEVERAL_CONTEXTS.load(Ordering::Relaxed)
}

/// What is known of the captures in each context, by the library and the context. A library can be
/// loaded more than once, and its contexts and default streams are the same each time.
static CAPTURES: Mutex<BTreeMap<(usize, usize), Weak<ContextCaptures>>> =
    Mutex::new(BTreeMap::new());

static DEFAULT: OnceLock<Driver> = OnceLock::new();
static FAILURE: Mutex<Option<LoadError>> = Mutex::new(None);

impl Driver {
    /// Loads the system's driver (`libcuda.so.1`, `nvcuda.dll`) and initialises it.
    ///
    /// # Errors
    ///
    /// [`CudaError::NotInitialized`] if there is none: [`load_failure`](Driver::load_failure) has
    /// each name that was tried, and why it failed. [`CudaError::NoDevice`],
    /// [`CudaError::StubLibrary`] and others as `cuInit` answers.
    #[doc(alias = "cuInit")]
    pub fn load() -> CudaResult<Driver> {
        loaded(sys::Driver::load())
    }

    /// Loads the driver at a path and initialises it.
    ///
    /// # Safety
    ///
    /// The library's initialisers run, and each function that it exports under a name of the CUDA
    /// driver API has the ABI of that name.
    ///
    /// # Errors
    ///
    /// As [`load`](Driver::load).
    pub unsafe fn load_from(path: impl AsRef<OsStr>) -> CudaResult<Driver> {
        // SAFETY: the caller's promise is the one that is asked for.
        loaded(unsafe { sys::Driver::load_from(path) })
    }

    /// A driver whose functions `resolver` gives; `name` says in messages what it is.
    ///
    /// # Safety
    ///
    /// Each address is that of a function with the C signature of its table line, callable from
    /// any thread as long as the resolver is not dropped.
    ///
    /// # Errors
    ///
    /// There is no `cuInit` or `cuDriverGetVersion`, or `cuInit` fails.
    pub unsafe fn from_resolver<R>(name: &str, resolver: R) -> CudaResult<Driver>
    where
        R: Fn(&'static FunctionInfo) -> *const std::ffi::c_void + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise is the one that is asked for.
        loaded(unsafe { sys::Driver::from_resolver(name, resolver) })
    }

    /// The process's default driver, loaded at the first call: the one that the environment
    /// variable `GRAPTURE_DRIVER` names, else the system's. A failure is not remembered: the next
    /// call tries again.
    ///
    /// # Errors
    ///
    /// As [`load`](Driver::load).
    pub fn process_default() -> CudaResult<Driver> {
        if let Some(driver) = DEFAULT.get() {
            return Ok(driver.clone());
        }
        let driver = load_selected()?;
        Ok(DEFAULT.get_or_init(|| driver).clone())
    }

    /// Why the last loading of a driver in this process failed.
    pub fn load_failure() -> Option<LoadError> {
        FAILURE.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The CUDA version that the driver supports.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(&self) -> DriverVersion {
        DriverVersion(self.inner.raw.version())
    }

    /// Where the driver came from: a library's name, or the name that a resolver was given.
    pub fn origin(&self) -> String {
        self.inner.raw.origin().to_string()
    }

    /// The number of devices.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuDeviceGetCount")]
    pub fn device_count(&self) -> CudaResult<usize> {
        let mut count = 0;
        // SAFETY: the out-pointer is a live local.
        check(unsafe { (self.functions().cuDeviceGetCount)(&mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The device with an ordinal, counted from 0.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] if there is no such device.
    #[doc(alias = "cuDeviceGet")]
    pub fn device(&self, ordinal: usize) -> CudaResult<Device> {
        Device::of(self, ordinal)
    }

    /// Waits until everything that graphs and captures have handed over for release so far is
    /// released: buffers, modules, events and closures of dropped graphs whose launches are done.
    ///
    /// Nothing needs this but a program that counts memory: release goes on by itself.
    pub fn reclaim(&self) {
        self.inner.reclaimer.drain();
    }

    /// The raw driver: its function table and what it lacks.
    pub fn as_raw(&self) -> &sys::Driver {
        &self.inner.raw
    }

    #[inline]
    pub(crate) fn functions(&self) -> &Functions {
        self.inner.raw.functions()
    }

    pub(crate) fn has(&self, function: Function) -> bool {
        self.inner.raw.has(function)
    }

    /// Makes an allocation, and again if there was no room and something waited for its release.
    pub(crate) fn with_room<R>(&self, mut alloc: impl FnMut() -> CudaResult<R>) -> CudaResult<R> {
        match alloc() {
            Err(CudaError::OutOfMemory) if self.inner.reclaimer.is_running() => {
                self.reclaim();
                alloc()
            }
            made => made,
        }
    }

    pub(crate) fn reclaimer(&self) -> &Reclaimer {
        &self.inner.reclaimer
    }

    /// What is known of the captures in a context.
    pub(crate) fn captures_of(&self, context: CUcontext) -> Arc<ContextCaptures> {
        // Every driver has this function, and each library at another address.
        let key = (self.functions().cuInit as usize, context as usize);
        let mut known = CAPTURES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(captures) = known.get(&key).and_then(Weak::upgrade) {
            return captures;
        }
        known.retain(|_, captures| captures.strong_count() > 0);
        SEVERAL_CONTEXTS.fetch_or(!known.is_empty(), Ordering::Relaxed);
        let captures = Arc::<ContextCaptures>::default();
        known.insert(key, Arc::downgrade(&captures));
        captures
    }

    pub(crate) fn same(&self, other: &Driver) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Runs `call` with the thread's capture mode relaxed, and restores the mode exactly: a call
    /// that a capture of this or another thread would bar (allocating, freeing, loading) then
    /// leaves every capture as it was. Measured on a real driver for each call that is made so.
    pub(crate) fn relaxed<R>(&self, call: impl FnOnce(&Functions) -> R) -> R {
        // A driver without modes (before 10.1) has none to conflict with.
        let previous = self.exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED).ok();
        let _restore = previous.map(|mode| RestoreMode { driver: self, mode });
        call(self.functions())
    }

    /// Sets the calling thread's capture mode, and gives the one from before.
    #[inline]
    pub(crate) fn exchange_capture_mode(
        &self,
        mode: CUstreamCaptureMode,
    ) -> CudaResult<CUstreamCaptureMode> {
        let mut exchanged = mode;
        // SAFETY: the pointer is a live local, and the call only swaps a value of this thread.
        let code = unsafe { (self.functions().cuThreadExchangeStreamCaptureMode)(&mut exchanged) };
        if code == CUDA_SUCCESS { Ok(exchanged) } else { self.exchange_again(mode) }
    }

    /// The second try: without the mode, a call breaks captures, and a mode that is not put back
    /// stays with the thread.
    #[cold]
    fn exchange_again(&self, mode: CUstreamCaptureMode) -> CudaResult<CUstreamCaptureMode> {
        let mut exchanged = mode;
        // SAFETY: as above.
        check(unsafe { (self.functions().cuThreadExchangeStreamCaptureMode)(&mut exchanged) })?;
        Ok(exchanged)
    }
}

/// Puts the thread's capture mode back, also when the call panics.
struct RestoreMode<'a> {
    driver: &'a Driver,
    mode: CUstreamCaptureMode,
}

impl Drop for RestoreMode<'_> {
    fn drop(&mut self) {
        let restored = self.driver.exchange_capture_mode(self.mode).map(|_| ());
        report("cuThreadExchangeStreamCaptureMode", restored);
    }
}

fn load_selected() -> CudaResult<Driver> {
    match std::env::var_os(DRIVER_VARIABLE) {
        None => Driver::load(),
        Some(value) if value.is_empty() => Driver::load(),
        #[cfg(feature = "sim")]
        Some(value) if value == "sim" => {
            let config = grapture_sim::SimConfig::from_env().map_err(|problem| {
                CudaError::refused(sys::CUDA_ERROR_INVALID_VALUE, DRIVER_VARIABLE, problem)
            })?;
            Ok(Driver::from(grapture_sim::driver(config)))
        }
        #[cfg(not(feature = "sim"))]
        Some(value) if value == "sim" => Err(CudaError::refused(
            sys::CUDA_ERROR_NOT_SUPPORTED,
            DRIVER_VARIABLE,
            "`sim` asks for the simulated driver: build grapture with its feature `sim`",
        )),
        // SAFETY: whoever sets the variable says that the path is a CUDA driver; a process whose
        // environment lies can be given any library by its loader just as well.
        Some(path) => unsafe { Driver::load_from(path) },
    }
}

fn loaded(result: Result<sys::Driver, LoadError>) -> CudaResult<Driver> {
    match result {
        Ok(raw) => Ok(Driver::from(raw)),
        Err(failure) => {
            let error = CudaError::from(failure.code());
            tracing::warn!(%failure, "no CUDA driver");
            *FAILURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            Err(error)
        }
    }
}

impl From<sys::Driver> for Driver {
    fn from(raw: sys::Driver) -> Driver {
        let reclaimer = Reclaimer::new(raw.clone());
        Driver { inner: Arc::new(DriverInner { raw, reclaimer }) }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("version", &self.version())
            .field("origin", &self.origin())
            .finish()
    }
}

/// A CUDA version of a driver, such as 13.0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion(i32);

impl DriverVersion {
    /// The version `major.minor`.
    pub const fn new(major: i32, minor: i32) -> DriverVersion {
        DriverVersion(major * 1000 + minor * 10)
    }

    /// The major number.
    pub const fn major(self) -> i32 {
        self.0 / 1000
    }

    /// The minor number.
    pub const fn minor(self) -> i32 {
        self.0 % 1000 / 10
    }

    /// The driver's own number for it: 1000 × major + 10 × minor.
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

impl fmt::Debug for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
