//! Libraries: code that is loaded into each context that asks, and its kernels.

use core::ffi::{c_char, c_void};
use std::collections::HashMap;

use grapture_sys::*;

use super::{Ptr, context_config, function, module};
use crate::capture;
use crate::context::Context;
use crate::handle::Id;
use crate::module::{
    Function, Image, JitOptions, Kernel, KernelCode, Library, Module, Refused, Settings,
};
use crate::sim::{Answer, Sim, State};

fn named(state: &State, library: Ptr<CUlib_st>) -> Result<Id<Library>, CUresult> {
    state.libraries.find(library.address()).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

fn sound<'a>(state: &'a State, library: Ptr<CUlib_st>) -> Result<&'a Library, CUresult> {
    state.libraries.get(named(state, library)?).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

fn kernel(state: &State, kernel: Ptr<CUkern_st>) -> Result<Id<Kernel>, CUresult> {
    state.kernels.find(kernel.address()).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

impl State {
    /// The module of a library in a context, loaded if it is not yet.
    fn module_of(
        &mut self,
        sim: &Sim,
        library: Id<Library>,
        context: Id<Context>,
    ) -> Result<Id<Module>, CUresult> {
        let known = self.libraries.get(library).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        if let Some(module) = known.modules.get(&context) {
            return Ok(*module);
        }
        let code = known.code.clone();
        let kernels: Vec<_> = known
            .kernels
            .iter()
            .filter_map(|id| self.kernels.get(*id))
            .map(|kernel| (kernel.code.clone(), kernel.settings.clone()))
            .collect();
        let module = Module::load(sim, self, context, &code, &kernels, true)?;
        if let Some(library) = self.libraries.get_mut(library) {
            library.modules.insert(context, module);
        }
        Ok(module)
    }

    /// The function of a library's kernel in a context.
    pub(crate) fn function_of(
        &mut self,
        sim: &Sim,
        kernel: Id<Kernel>,
        context: Id<Context>,
    ) -> Result<Id<Function>, CUresult> {
        let known = self.kernels.get(kernel).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        let (library, index) = (known.library, known.code.index);
        let module = self.module_of(sim, library, context)?;
        let functions = self.modules.get(module).map(|module| &module.functions);
        functions.and_then(|all| all.get(index)).copied().ok_or(CUDA_ERROR_NOT_FOUND)
    }
}

pub(crate) fn cuLibraryLoadData(
    sim: &Sim,
    out: Ptr<CUlibrary>,
    image: Ptr<c_void>,
    options: Ptr<CUjit_option>,
    values: Ptr<*mut c_void>,
    count: u32,
    library_options: Ptr<CUlibraryOption>,
    _library_values: Ptr<*mut c_void>,
    library_count: u32,
) -> Answer {
    out.required()?;
    check_options(library_options, library_count)?;
    let options = JitOptions::read(count, options, values)?;
    let image = Image::read(image, sim.config.newest_capability());
    load(sim, out, image, options)
}

/// That the image stays is well. A table that is shared with the host's code is not modelled.
fn check_options(options: Ptr<CUlibraryOption>, count: u32) -> Answer {
    options.read_all(count as usize)?.into_iter().try_for_each(|option| match option {
        CU_LIBRARY_BINARY_IS_PRESERVED => Ok(()),
        CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE => Err(CUDA_ERROR_NOT_SUPPORTED),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    })
}

pub(crate) fn cuLibraryLoadFromFile(
    sim: &Sim,
    out: Ptr<CUlibrary>,
    path: Ptr<c_char>,
    options: Ptr<CUjit_option>,
    values: Ptr<*mut c_void>,
    count: u32,
    library_options: Ptr<CUlibraryOption>,
    _library_values: Ptr<*mut c_void>,
    library_count: u32,
) -> Answer {
    out.required()?;
    check_options(library_options, library_count)?;
    let options = JitOptions::read(count, options, values)?;
    let path = path.text()?.to_str().map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
    let bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
    load(sim, out, Image::of_file(bytes, sim.config.newest_capability()), options)
}

fn load(
    sim: &Sim,
    out: Ptr<CUlibrary>,
    image: Result<Image, Refused>,
    options: JitOptions,
) -> Answer {
    let compiled =
        image.and_then(|image| image.compile(sim.config.version(), sim.config.newest_capability()));
    let code = options.report(compiled)?;
    let mut state = sim.lock();
    let all = KernelCode::all(&code);
    let library =
        state.libraries.insert(Library { code, kernels: Vec::new(), modules: HashMap::new() });
    let kernels = all
        .into_iter()
        .map(|code| state.kernels.insert(Kernel { library, code, settings: Settings::default() }))
        .collect();
    if let Some(library) = state.libraries.get_mut(library) {
        library.kernels = kernels;
    }
    out.write(library.raw())
}

/// Waits for the work of the contexts that the library is loaded in.
pub(crate) fn cuLibraryUnload(sim: &Sim, library: Ptr<CUlib_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, library)?;
    capture::check_unsafe_call(&mut state)?;
    let contexts = sound(&state, library)?.modules.keys();
    let keys: Vec<u64> = contexts
        .filter_map(|context| state.contexts.get(*context))
        .map(|context| context.core.key)
        .collect();
    drop(state);
    keys.into_iter().for_each(|key| sim.engine.wait_context(key));
    let mut state = sim.lock();
    let gone = state.libraries.remove(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    for kernel in &gone.kernels {
        state.kernels.remove(*kernel);
    }
    for module in gone.modules.values() {
        if let Some(module) = state.remove_module(*module) {
            module.free_globals(sim);
        }
    }
    Ok(())
}

pub(crate) fn cuLibraryGetKernel(
    sim: &Sim,
    out: Ptr<CUkernel>,
    library: Ptr<CUlib_st>,
    name: Ptr<c_char>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let name = name.text()?;
    let has_name = |id: &&Id<Kernel>| {
        state.kernels.get(**id).is_some_and(|kernel| kernel.code.name.as_c_str() == name)
    };
    let kernels = &sound(&state, library)?.kernels;
    out.write(kernels.iter().find(has_name).ok_or(CUDA_ERROR_NOT_FOUND)?.raw())
}

pub(crate) fn cuLibraryGetKernelCount(sim: &Sim, out: Ptr<u32>, library: Ptr<CUlib_st>) -> Answer {
    let state = sim.lock();
    out.write(sound(&state, library)?.kernels.len() as u32)
}

pub(crate) fn cuLibraryEnumerateKernels(
    sim: &Sim,
    out: Ptr<CUkernel>,
    count: u32,
    library: Ptr<CUlib_st>,
) -> Answer {
    let state = sim.lock();
    let kernels = &sound(&state, library)?.kernels;
    out.required()?.write_all(kernels.iter().take(count as usize).map(|id| id.raw()))
}

pub(crate) fn cuLibraryGetModule(sim: &Sim, out: Ptr<CUmodule>, library: Ptr<CUlib_st>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = named(&state, library)?;
    let context = state.current()?;
    out.write(state.module_of(sim, id, context)?.raw())
}

pub(crate) fn cuLibraryGetGlobal(
    sim: &Sim,
    address: Ptr<CUdeviceptr>,
    bytes: Ptr<usize>,
    library: Ptr<CUlib_st>,
    name: Ptr<c_char>,
) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, library)?;
    let context = state.current()?;
    let id = state.module_of(sim, id, context)?;
    let loaded = state.modules.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    module::global(loaded, address, bytes, name)
}

/// No variable of a module is managed.
pub(crate) fn cuLibraryGetManaged(
    sim: &Sim,
    address: Ptr<CUdeviceptr>,
    bytes: Ptr<usize>,
    library: Ptr<CUlib_st>,
    name: Ptr<c_char>,
) -> Answer {
    named(&sim.lock(), library)?;
    name.required()?;
    if address.is_null() && bytes.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Err(CUDA_ERROR_NOT_FOUND)
}

/// No function of a library is one with the host's.
pub(crate) fn cuLibraryGetUnifiedFunction(
    sim: &Sim,
    _out: Ptr<*mut c_void>,
    library: Ptr<CUlib_st>,
    _name: Ptr<c_char>,
) -> Answer {
    named(&sim.lock(), library)?;
    Err(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuKernelGetLibrary(sim: &Sim, out: Ptr<CUlibrary>, handle: Ptr<CUkern_st>) -> Answer {
    out.required()?;
    let state = sim.lock();
    let known = state.kernels.get(kernel(&state, handle)?).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    out.write(known.library.raw())
}

pub(crate) fn cuKernelSetCacheConfig(
    sim: &Sim,
    handle: Ptr<CUkern_st>,
    config: CUfunc_cache,
    dev: CUdevice,
) -> Answer {
    let mut state = sim.lock();
    kernel(&state, handle)?;
    state.device(dev)?;
    context_config::check_cache(config)
}

pub(crate) fn cuKernelGetFunction(
    sim: &Sim,
    out: Ptr<CUfunction>,
    handle: Ptr<CUkern_st>,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = kernel(&state, handle)?;
    let context = state.current()?;
    out.write(state.function_of(sim, id, context)?.raw())
}

/// The name stays as long as the library.
pub(crate) fn cuKernelGetName(
    sim: &Sim,
    out: Ptr<*const c_char>,
    handle: Ptr<CUkern_st>,
) -> Answer {
    let state = sim.lock();
    let known = state.kernels.get(kernel(&state, handle)?).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    out.write(known.code.name.as_ptr())
}

pub(crate) fn cuKernelGetAttribute(
    sim: &Sim,
    out: Ptr<i32>,
    which: CUfunction_attribute,
    handle: Ptr<CUkern_st>,
    dev: CUdevice,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    state.device(dev)?;
    let known = state.kernels.get(kernel(&state, handle)?).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    let capability = sim.config.device_config(dev as usize).capability();
    out.write(function::attribute(&known.code, &known.settings, which, capability)?)
}

/// Sets an attribute of a kernel, also of its functions in contexts.
pub(crate) fn cuKernelSetAttribute(
    sim: &Sim,
    which: CUfunction_attribute,
    value: i32,
    handle: Ptr<CUkern_st>,
    dev: CUdevice,
) -> Answer {
    let mut state = sim.lock();
    state.device(dev)?;
    let id = kernel(&state, handle)?;
    let known = state.kernels.get_mut(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    function::set_attribute(&known.code, &mut known.settings, which, value)?;
    let code = known.code.clone();
    for (_, function) in state.functions.iter_mut() {
        if std::sync::Arc::ptr_eq(&function.code, &code) {
            function.settings.set(which.0 as i32, value);
        }
    }
    Ok(())
}

pub(crate) fn cuKernelGetParamInfo(
    sim: &Sim,
    handle: Ptr<CUkern_st>,
    index: usize,
    offset: Ptr<usize>,
    size: Ptr<usize>,
) -> Answer {
    let state = sim.lock();
    let known = state.kernels.get(kernel(&state, handle)?).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    function::param_info(&known.code, index, offset, size)
}
