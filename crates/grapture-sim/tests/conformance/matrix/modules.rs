//! Modules, functions and libraries.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use super::Field;
use crate::rig::PTX;

fn ptx() -> CString {
    CString::new(PTX).expect("no NUL")
}

/// A module and its kernel without parameters.
fn module(m: &Field<'_>) -> (CUmodule, CUfunction) {
    let module = m.module(PTX);
    (module, m.function(module, "noarg"))
}

fn library(m: &Field<'_>) -> CUlibrary {
    let none = null_mut();
    make!(m, cuLibraryLoadData(ptx().as_ptr().cast(), null_mut(), none, 0, null_mut(), none, 0))
}

super::matrix! {
    module_load_data(m) {
        let (text, mut module) = (ptx(), null_mut());
        if m.call(|| cu!(m, cuModuleLoadData(&mut module, text.as_ptr().cast()))) {
            ok!(m, cuModuleUnload(module));
        }
    }
    module_unload(m) {
        let (module, _) = module(m);
        if !m.call(|| cu!(m, cuModuleUnload(module))) {
            ok!(m, cuModuleUnload(module));
        }
    }
    module_get_function(m) {
        let module = m.module(PTX);
        m.call(|| cu!(m, cuModuleGetFunction(&mut null_mut(), module, c"k".as_ptr())));
        ok!(m, cuModuleUnload(module));
    }
    module_get_global(m) {
        let module = m.module(PTX);
        m.call(|| cu!(m, cuModuleGetGlobal_v2(&mut 0, &mut 0, module, c"counter".as_ptr())));
        ok!(m, cuModuleUnload(module));
    }
    library_load_data(m) {
        let (text, none, mut library) = (ptx(), null_mut(), null_mut());
        let data = text.as_ptr().cast();
        let load = || {
            cu!(m, cuLibraryLoadData(&mut library, data, null_mut(), none, 0, null_mut(), none, 0))
        };
        if m.call(load) {
            ok!(m, cuLibraryUnload(library));
        }
    }
    library_unload(m) {
        let library = library(m);
        if !m.call(|| cu!(m, cuLibraryUnload(library))) {
            ok!(m, cuLibraryUnload(library));
        }
    }
    library_get_kernel_and_function(m) {
        let (library, mut kernel) = (library(m), null_mut());
        m.call(|| {
            let get = cu!(m, cuLibraryGetKernel(&mut kernel, library, c"k".as_ptr()));
            get + cu!(m, cuKernelGetFunction(&mut null_mut(), kernel))
        });
        ok!(m, cuLibraryUnload(library));
    }
    func_get_attribute(m) {
        let (module, function) = module(m);
        m.call(|| cu!(m, cuFuncGetAttribute(&mut 0, CU_FUNC_ATTRIBUTE_NUM_REGS, function)));
        ok!(m, cuModuleUnload(module));
    }
    func_set_attribute(m) {
        let (module, function) = module(m);
        let what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        m.call(|| cu!(m, cuFuncSetAttribute(function, what, 1024)));
        ok!(m, cuModuleUnload(module));
    }
    func_load(m) {
        let (module, function) = module(m);
        m.call(|| cu!(m, cuFuncLoad(function)));
        ok!(m, cuModuleUnload(module));
    }
    occupancy_max_active_blocks(m) {
        let (module, function) = module(m);
        let mut blocks = 0;
        m.call(|| {
            cu!(m, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 128, 0))
        });
        ok!(m, cuModuleUnload(module));
    }
    launch_kernel_on_another_stream(m) {
        let (module, function) = module(m);
        m.call(|| m.launch(function, m.other, &mut []));
        m.sync(m.other);
        ok!(m, cuModuleUnload(module));
    }
    launch_kernel_on_the_legacy_stream(m) {
        let (module, function) = module(m);
        m.call(|| m.launch(function, null_mut(), &mut []));
        ok!(m, cuCtxSynchronize());
        ok!(m, cuModuleUnload(module));
    }
    launch_cooperative_kernel_on_the_capturing_stream(m) {
        let (module, function) = module(m);
        let (s, none) = (m.stream, null_mut());
        m.call(|| cu!(m, cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, s, none)));
        ok!(m, cuModuleUnload(module));
    }
    get_proc_address(m) {
        let mut at = null_mut();
        m.call(|| cu!(m, cuGetProcAddress(c"cuInit".as_ptr(), &mut at, 2000, 0)));
    }
    get_error_name(m) {
        let mut text = null();
        m.call(|| cu!(m, cuGetErrorName(CUresult(1), &mut text)));
    }
}
