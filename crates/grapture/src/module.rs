//! [`Module`]: loaded device code.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use grapture_sys::{
    CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_GENERATE_LINE_INFO,
    CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE,
    CU_JIT_MAX_REGISTERS, CU_JIT_OPTIMIZATION_LEVEL, CUDA_ERROR_FILE_NOT_FOUND,
    CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUdeviceptr,
    CUjit_option, CUmodule, Function,
};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check, write_code};
use crate::host_function;
use crate::kernel::Kernel;
use crate::reclaim::release_elsewhere;

/// How much of a compiler's log is kept, in bytes.
const LOG_BYTES: usize = 16 * 1024;

/// Device code that is loaded into a context. A clone is the same module.
///
/// Kernels keep their module loaded, and graphs their kernels (O1, O2).
#[derive(Clone)]
pub struct Module {
    inner: Arc<ModuleInner>,
}

impl Module {
    /// What tells it from the others that live.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

struct ModuleInner {
    raw: CUmodule,
    context: Context,
    log: Box<str>,
}

// SAFETY: a `CUmodule` belongs to no thread, and it is only passed to driver calls, by value.
unsafe impl Send for ModuleInner {}
// SAFETY: nothing is changed through a shared reference: the driver locks its modules itself.
unsafe impl Sync for ModuleInner {}

/// How PTX is compiled when it is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitOptions {
    max_registers: Option<u32>,
    optimization_level: Option<u32>,
    line_info: bool,
    verbose: bool,
}

impl JitOptions {
    /// The compiler's defaults.
    pub fn new() -> JitOptions {
        JitOptions::default()
    }

    /// The most registers that a thread may use.
    pub fn max_registers(mut self, count: u32) -> JitOptions {
        self.max_registers = Some(count);
        self
    }

    /// The level of optimisation, 0 to 4; 4 is the default.
    pub fn optimization_level(mut self, level: u32) -> JitOptions {
        self.optimization_level = Some(level);
        self
    }

    /// Whether the code carries line numbers, for tools.
    pub fn line_info(mut self, line_info: bool) -> JitOptions {
        self.line_info = line_info;
        self
    }

    /// Whether the log tells the resources of each kernel.
    pub fn verbose(mut self, verbose: bool) -> JitOptions {
        self.verbose = verbose;
        self
    }
}

impl Context {
    /// Compiles PTX text and loads it: [`Module::from_ptx`].
    ///
    /// # Errors
    ///
    /// As [`Module::from_ptx`].
    pub fn load_ptx(&self, ptx: &str) -> CudaResult<Module> {
        Module::from_ptx(self, ptx, JitOptions::new())
    }
}

impl Module {
    /// Compiles PTX text for the context's device and loads it. Waits for the context's work.
    ///
    /// # Errors
    ///
    /// [`Jit`](CudaError::Jit), with the compiler's log, if the text cannot be compiled.
    /// [`Refused`](CudaError::Refused): the text is empty or has a NUL in it.
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn from_ptx(context: &Context, ptx: &str, options: JitOptions) -> CudaResult<Module> {
        if ptx.trim().is_empty() {
            return Err(refused_image("the PTX text is empty"));
        }
        let text = CString::new(ptx).map_err(|error| {
            refused_image(format!("the PTX text has a NUL at byte {}", error.nul_position()))
        })?;
        // SAFETY: the driver reads NUL-terminated text up to the NUL, and copies what it needs.
        unsafe { Module::load(context, text.as_ptr().cast(), options) }
    }

    /// Loads an image of any kind: PTX text, a cubin or a fatbin.
    ///
    /// # Safety
    ///
    /// An image that is not PTX text is a whole and well-formed cubin or fatbin: the driver is not
    /// told its length and follows the offsets in it.
    ///
    /// # Errors
    ///
    /// As [`from_ptx`](Module::from_ptx); [`NoBinaryForGpu`](CudaError::NoBinaryForGpu), in a
    /// [`Jit`](CudaError::Jit), if nothing in it is for the device.
    pub unsafe fn from_image(
        context: &Context,
        image: &[u8],
        options: JitOptions,
    ) -> CudaResult<Module> {
        match std::str::from_utf8(image) {
            // Text may come with the NUL that C programs put at its end.
            Ok(text) if !is_binary(image) => {
                Module::from_ptx(context, text.trim_end_matches('\0'), options)
            }
            _ if is_binary(image) => {
                // SAFETY: the caller's promise.
                unsafe { Module::load(context, image.as_ptr().cast(), options) }
            }
            _ => Err(refused_image("it is neither PTX text nor a cubin nor a fatbin")),
        }
    }

    /// Loads a file that holds an image of any kind.
    ///
    /// # Safety
    ///
    /// As [`from_image`](Module::from_image), for what the file holds.
    ///
    /// # Errors
    ///
    /// As [`from_image`](Module::from_image). [`Refused`](CudaError::Refused): the file cannot be
    /// read.
    #[doc(alias = "cuModuleLoad")]
    pub unsafe fn from_file(
        context: &Context,
        path: impl AsRef<Path>,
        options: JitOptions,
    ) -> CudaResult<Module> {
        let path = path.as_ref();
        let image = std::fs::read(path).map_err(|error| {
            let problem = format!("{} cannot be read: {error}", path.display());
            CudaError::refused(CUDA_ERROR_FILE_NOT_FOUND, "module.file", problem)
        })?;
        // SAFETY: the caller's promise.
        unsafe { Module::from_image(context, &image, options) }
    }

    /// # Safety
    ///
    /// `image` is NUL-terminated text, or a whole and well-formed cubin or fatbin.
    unsafe fn load(
        context: &Context,
        image: *const c_void,
        options: JitOptions,
    ) -> CudaResult<Module> {
        let mut request = Request::new(options);
        let mut raw = ptr::null_mut();
        let loaded = context.enter_relaxed(|functions| {
            let count = request.keys.len() as u32;
            let (keys, values) = (request.keys.as_mut_ptr(), request.values.as_mut_ptr());
            // SAFETY: the caller's promise for the image; as many keys as values, and the values
            // that are buffers point to live ones of the length that another value says.
            check(unsafe { (functions.cuModuleLoadDataEx)(&mut raw, image, count, keys, values) })
        });
        match loaded {
            Ok(()) => {
                let log = text_of(&request.info).into();
                let inner = ModuleInner { raw, context: context.clone(), log };
                Ok(Module { inner: Arc::new(inner) })
            }
            Err(lost @ CudaError::ContextLost(_)) => Err(lost),
            Err(error) => Err(CudaError::Jit(Box::new(JitError {
                code: error.code(),
                log: text_of(&request.error),
            }))),
        }
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The raw handle. It stays valid as long as a clone of this one lives.
    pub fn as_raw(&self) -> CUmodule {
        self.inner.raw
    }

    /// What the compiler said while it compiled the module; often nothing.
    pub fn log(&self) -> &str {
        &self.inner.log
    }

    /// The kernel with a name, as the image has it: C++ names are mangled unless `extern "C"`.
    ///
    /// The kernel is loaded at once, so that its first launch can be captured.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) if there is none: the text lists the module's kernels.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn kernel(&self, name: &str) -> CudaResult<Kernel> {
        Kernel::of(self, name)
    }

    /// The names of the kernels. None: the driver is older than 12.4 and cannot list them.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuModuleEnumerateFunctions")]
    pub fn kernel_names(&self) -> CudaResult<Option<Vec<String>>> {
        let driver = self.inner.context.driver();
        if !driver.has(Function::cuModuleEnumerateFunctions) {
            return Ok(None);
        }
        self.inner.context.relaxed(|functions| {
            let mut count = 0;
            // SAFETY: a live module, and a live out-pointer.
            check(unsafe { (functions.cuModuleGetFunctionCount)(&mut count, self.inner.raw) })?;
            let mut raw = vec![ptr::null_mut(); count as usize];
            // SAFETY: the array has room for `count` functions.
            check(unsafe {
                (functions.cuModuleEnumerateFunctions)(raw.as_mut_ptr(), count, self.inner.raw)
            })?;
            let mut names = Vec::with_capacity(raw.len());
            for function in raw {
                let mut name = ptr::null();
                // SAFETY: a function of a live module, and a live out-pointer.
                check(unsafe { (functions.cuFuncGetName)(&mut name, function) })?;
                if !name.is_null() {
                    // SAFETY: NVIDIA: the name is NUL-terminated and lives as long as the module.
                    let name = unsafe { CStr::from_ptr(name) };
                    names.push(name.to_string_lossy().into_owned());
                }
            }
            Ok(Some(names))
        })
    }

    /// The address and the size in bytes of a global variable of the module. The module must stay
    /// loaded while the address is used.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) if there is none with the name.
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn global(&self, name: &str) -> CudaResult<(CUdeviceptr, usize)> {
        let text = c_name(name, "module.global")?;
        let (mut address, mut bytes) = (0, 0);
        let found = self.inner.context.relaxed(|functions| {
            // SAFETY: a live module, a NUL-terminated name, live out-pointers.
            check(unsafe {
                let (module, name) = (self.inner.raw, text.as_ptr());
                (functions.cuModuleGetGlobal_v2)(&mut address, &mut bytes, module, name)
            })
        });
        match found {
            Ok(()) => Ok((address, bytes)),
            Err(CudaError::NotFound) => Err(CudaError::refused(
                CUDA_ERROR_NOT_FOUND,
                "module.global",
                format!("the module has no global variable `{name}`"),
            )),
            Err(error) => Err(error),
        }
    }
}

/// A name as the driver takes it.
pub(crate) fn c_name(name: &str, what: &'static str) -> CudaResult<CString> {
    let problem = match CString::new(name) {
        Ok(text) if !name.is_empty() => return Ok(text),
        Ok(_) => "the name is empty".to_owned(),
        Err(error) => format!("the name has a NUL at byte {}", error.nul_position()),
    };
    Err(CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem))
}

fn refused_image(problem: impl Into<String>) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_IMAGE, "module.image", problem)
}

/// Whether the image begins as a cubin (ELF) or a fatbin does.
fn is_binary(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF") || image.starts_with(&0xBA55_ED50_u32.to_le_bytes())
}

/// The options of one load in the form of the driver, with the buffers of its logs.
struct Request {
    keys: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    error: Vec<u8>,
    info: Vec<u8>,
}

impl Request {
    fn new(options: JitOptions) -> Request {
        let mut error = vec![0; LOG_BYTES];
        let mut info = vec![0; LOG_BYTES];
        let size = number(LOG_BYTES as u32);
        let mut pairs = vec![
            (CU_JIT_ERROR_LOG_BUFFER, error.as_mut_ptr().cast()),
            (CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, size),
            (CU_JIT_INFO_LOG_BUFFER, info.as_mut_ptr().cast()),
            (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, size),
        ];
        if let Some(count) = options.max_registers {
            pairs.push((CU_JIT_MAX_REGISTERS, number(count)));
        }
        if let Some(level) = options.optimization_level {
            pairs.push((CU_JIT_OPTIMIZATION_LEVEL, number(level)));
        }
        if options.line_info {
            pairs.push((CU_JIT_GENERATE_LINE_INFO, number(1)));
        }
        if options.verbose {
            pairs.push((CU_JIT_LOG_VERBOSE, number(1)));
        }
        let (keys, values) = pairs.into_iter().unzip();
        Request { keys, values, error, info }
    }
}

/// The driver takes numbers in the place of pointers.
fn number(value: u32) -> *mut c_void {
    ptr::without_provenance_mut(value as usize)
}

fn text_of(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim_end().to_owned()
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        if host_function::is_running() {
            let (raw, context) = (self.raw, self.context.clone());
            let taken = ModuleInner { raw, context, log: Box::default() };
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        // SAFETY: made here, and this is the last handle; kernels and graphs hold one (O1, O2).
        // Measured: the call waits for kernels of the module that still run, and a capture bars
        // it, so the thread's mode is relaxed around it (O9).
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuModuleUnload)(self.raw) });
        report("cuModuleUnload", check(code));
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("raw", &self.inner.raw).finish_non_exhaustive()
    }
}

/// A module that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitError {
    code: u32,
    log: String,
}

impl JitError {
    /// The driver's code.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// What the compiler said; empty if it said nothing.
    pub fn log(&self) -> &str {
        &self.log
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the module could not be loaded: ")?;
        write_code(f, self.code)?;
        if !self.log.is_empty() {
            write!(f, "; the compiler's log:\n{}", self.log)?;
        }
        Ok(())
    }
}

impl std::error::Error for JitError {}
