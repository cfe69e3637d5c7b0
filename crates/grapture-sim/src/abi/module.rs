//! Modules.

use core::ffi::{c_char, c_void};

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::handle::Id;
use crate::module::{Image, JitOptions, KernelCode, Module, Refused, Settings};
use crate::sim::{Answer, Sim, State};

fn named(state: &State, module: Ptr<CUmod_st>) -> Result<Id<Module>, CUresult> {
    state.modules.find(module.address()).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

/// The module, if its context is sound.
fn sound<'a>(state: &'a State, module: Ptr<CUmod_st>) -> Result<&'a Module, CUresult> {
    let module = state.modules.get(named(state, module)?).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.context(module.context)?;
    Ok(module)
}

pub(crate) fn cuModuleLoad(sim: &Sim, out: Ptr<CUmodule>, path: Ptr<c_char>) -> Answer {
    out.required()?;
    let path = path.text()?.to_str().map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
    sim.lock().current()?;
    let bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
    load(sim, out, |device| Image::of_file(bytes, device), JitOptions::default())
}

pub(crate) fn cuModuleLoadData(sim: &Sim, out: Ptr<CUmodule>, image: Ptr<c_void>) -> Answer {
    load(sim, out, |device| Image::read(image, device), JitOptions::default())
}

pub(crate) fn cuModuleLoadFatBinary(sim: &Sim, out: Ptr<CUmodule>, image: Ptr<c_void>) -> Answer {
    cuModuleLoadData(sim, out, image)
}

/// Code is compiled as it is loaded, but a program is told what an H200 tells it.
pub(crate) fn cuModuleGetLoadingMode(_: &Sim, out: Ptr<CUmoduleLoadingMode>) -> Answer {
    out.write(CU_MODULE_LAZY_LOADING)
}

pub(crate) fn cuModuleLoadDataEx(
    sim: &Sim,
    out: Ptr<CUmodule>,
    image: Ptr<c_void>,
    count: u32,
    options: Ptr<CUjit_option>,
    values: Ptr<*mut c_void>,
) -> Answer {
    let options = JitOptions::read(count, options, values)?;
    load(sim, out, |device| Image::read(image, device), options)
}

fn load(
    sim: &Sim,
    out: Ptr<CUmodule>,
    image: impl FnOnce(u32) -> Result<Image, Refused>,
    options: JitOptions,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let context = state.current()?;
    let core = state.context(context)?.core.clone();
    let capability = sim.config.device_config(core.device).capability();
    drop(state);
    let compiled =
        image(capability).and_then(|image| image.compile(sim.config.version(), capability));
    let code = options.report(compiled)?;
    sim.engine.wait_context(core.key);
    let kernels: Vec<_> =
        KernelCode::all(&code).into_iter().map(|code| (code, Settings::default())).collect();
    let module = Module::load(sim, &mut sim.lock(), context, &code, &kernels, false)?;
    out.write(module.raw())
}

pub(crate) fn cuModuleUnload(sim: &Sim, module: Ptr<CUmod_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, module)?;
    capture::check_unsafe_call(&mut state)?;
    let known = state.modules.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    if known.of_library {
        return Err(CUDA_ERROR_NOT_PERMITTED);
    }
    let core = state.contexts.get(known.context).map(|context| context.core.clone());
    drop(state);
    if let Some(core) = &core {
        sim.engine.wait_context(core.key);
    }
    let gone = sim.lock().remove_module(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    gone.free_globals(sim);
    core.map_or(Ok(()), |core| core.check())
}

pub(crate) fn cuModuleGetFunction(
    sim: &Sim,
    out: Ptr<CUfunction>,
    module: Ptr<CUmod_st>,
    name: Ptr<c_char>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let module = sound(&state, module)?;
    let name = name.text()?;
    if name.is_empty() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let has_name = |id: &&Id<_>| {
        state.functions.get(**id).is_some_and(|function| function.code.name.as_c_str() == name)
    };
    let found = module.functions.iter().find(has_name).ok_or(CUDA_ERROR_NOT_FOUND)?;
    out.write(found.raw())
}

pub(crate) fn cuModuleGetFunctionCount(sim: &Sim, out: Ptr<u32>, module: Ptr<CUmod_st>) -> Answer {
    let state = sim.lock();
    out.write(sound(&state, module)?.functions.len() as u32)
}

pub(crate) fn cuModuleEnumerateFunctions(
    sim: &Sim,
    out: Ptr<CUfunction>,
    count: u32,
    module: Ptr<CUmod_st>,
) -> Answer {
    let state = sim.lock();
    let functions = &sound(&state, module)?.functions;
    out.required()?.write_all(functions.iter().take(count as usize).map(|id| id.raw()))
}

pub(crate) fn cuModuleGetGlobal_v2(
    sim: &Sim,
    address: Ptr<CUdeviceptr>,
    bytes: Ptr<usize>,
    module: Ptr<CUmod_st>,
    name: Ptr<c_char>,
) -> Answer {
    let state = sim.lock();
    global(sound(&state, module)?, address, bytes, name)
}

/// Tells where a variable is.
pub(super) fn global(
    module: &Module,
    address: Ptr<CUdeviceptr>,
    bytes: Ptr<usize>,
    name: Ptr<c_char>,
) -> Answer {
    if address.is_null() && bytes.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // No failure leaves a place of before.
    address.offer(0);
    bytes.offer(0);
    let name = name.text()?.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let found = module.globals.get(name).ok_or(CUDA_ERROR_NOT_FOUND)?;
    address.offer(found.address);
    bytes.offer(found.size);
    Ok(())
}
