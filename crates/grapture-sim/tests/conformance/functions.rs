//! Modules, functions and libraries: what they tell, and how launches are checked.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{PTX, Rig};
use crate::transcript::saw;

/// One kernel of each kind that tells something of itself.
const TOLD: &str = "\
.version 7.8
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.const .align 4 .b8 table[256];
.visible .entry plain(){ ret;}
.visible .entry bounded() .maxntid 128, 1, 1 { ret;}
.visible .entry required() .reqntid 64, 2, 1 { ret;}
.visible .entry local(.param .u64 p){
 .local .align 8 .b8 frame[4096]; .reg .b64 %rd<4>; .reg .b32 %r<3>;
 ld.param.u64 %rd1,[p]; cvta.to.global.u64 %rd2,%rd1; ld.global.u32 %r1,[%rd2];
 mov.u64 %rd3,frame; cvt.u64.u32 %rd1,%r1; and.b64 %rd1,%rd1,4092; add.s64 %rd3,%rd3,%rd1;
 st.local.u32 [%rd3],%r1; ld.local.u32 %r2,[%rd3]; st.global.u32 [%rd2],%r2; ret;}
.visible .entry shared(.param .u64 p){
 .shared .align 4 .b8 buf[2048]; .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; cvta.to.global.u64 %rd2,%rd1; mov.u32 %r1,1;
 st.volatile.shared.u32 [buf],%r1; st.global.u32 [%rd2],%r1; ret;}
.visible .entry wide(.param .u8 a, .param .u16 b, .param .u64 c, .param .align 16 .b8 d[48], .param .f32 e){ ret;}
";

const CLUSTERED: &str = "\
.version 7.8
.target sm_90
.address_size 64
.visible .entry clustered() .reqnctapercluster 2, 1, 1 { ret;}
";

fn attribute(rig: &Rig, function: CUfunction, number: u32) {
    let mut value = -77;
    cu!(rig, cuFuncGetAttribute(&mut value, CUfunction_attribute(number), function));
    saw("value", value);
}

/// What does not depend on how the code was compiled.
const STABLE: [u32; 13] = [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn told(rig: &Rig, text: &str, name: &str) {
    let module = rig.module(text);
    let function = rig.function(module, name);
    for number in STABLE {
        saw("attribute", number);
        attribute(rig, function, number);
    }
    ok!(rig, cuModuleUnload(module));
}

fn launch(rig: &Rig, function: CUfunction, grid: [u32; 3], block: [u32; 3], shared: u32) {
    let (s, none) = (rig.stream, null_mut());
    let ([x, y, z], [a, b, c]) = (grid, block);
    saw("launch", (grid, block, shared));
    cu!(rig, cuLaunchKernel(function, x, y, z, a, b, c, shared, s, null_mut(), none));
    rig.sync(s);
}

/// Runs a case with the kernel that has no parameters.
fn with_kernel(rig: &Rig, case: impl FnOnce(CUfunction)) {
    let module = rig.module(PTX);
    case(rig.function(module, "noarg"));
    ok!(rig, cuModuleUnload(module));
}

fn library(rig: &Rig, text: &str) -> CUlibrary {
    let (text, none) = (CString::new(text).expect("no NUL"), null_mut());
    let at = text.as_ptr().cast();
    make!(rig, cuLibraryLoadData(at, null_mut(), none, 0, null_mut(), none, 0))
}

fn text(at: *const std::ffi::c_char) -> String {
    if at.is_null() {
        return "null".to_owned();
    }
    // SAFETY: the driver gave a text that ends with NUL and lives as long as the function.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

const ONE: [u32; 3] = [1, 1, 1];

rules! { both;
    the_attributes_of_a_plain_kernel(rig) {
        told(rig, TOLD, "plain");
    }
    the_attributes_of_a_kernel_with_a_bound(rig) {
        told(rig, TOLD, "bounded");
    }
    the_attributes_of_a_kernel_with_a_required_size(rig) {
        told(rig, TOLD, "required");
    }
    the_attributes_of_a_kernel_with_a_cluster(rig) {
        told(rig, CLUSTERED, "clustered");
    }
    the_attributes_of_a_kernel_with_shared_memory(rig) {
        told(rig, TOLD, "shared");
    }
    the_constants_of_a_module_count_for_each_kernel(rig) {
        let module = rig.module(TOLD);
        attribute(rig, rig.function(module, "plain"), 2);
        ok!(rig, cuModuleUnload(module));
    }
    no_such_attribute_of_a_kernel(rig) {
        with_kernel(rig, |kernel| {
            for number in [16, 17, 18, 19, 99, u32::MAX] {
                saw("attribute", number);
                attribute(rig, kernel, number);
            }
        });
    }
    an_attribute_of_a_kernel_needs_a_place_and_a_kernel(rig) {
        with_kernel(rig, |kernel| {
            cu!(rig, cuFuncGetAttribute(null_mut(), CU_FUNC_ATTRIBUTE_NUM_REGS, kernel));
        });
        cu!(rig, cuFuncGetAttribute(&mut 0, CU_FUNC_ATTRIBUTE_NUM_REGS, null_mut()));
        cu!(rig, cuFuncSetAttribute(null_mut(), CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    }
    which_attributes_of_a_kernel_are_set(rig) {
        with_kernel(rig, |kernel| {
            for number in (0..=17).chain([99]) {
                saw("attribute", number);
                cu!(rig, cuFuncSetAttribute(kernel, CUfunction_attribute(number), 1));
            }
        });
    }
    the_carveout_is_a_percentage(rig) {
        with_kernel(rig, |kernel| {
            for value in [-2, -1, 0, 50, 100, 101] {
                saw("carveout", value);
                cu!(rig, cuFuncSetAttribute(kernel, CUfunction_attribute(9), value));
                attribute(rig, kernel, 9);
            }
        });
    }
    the_scheduling_policy_of_clusters(rig) {
        with_kernel(rig, |kernel| {
            for value in [-1, 0, 1, 2, 3] {
                saw("policy", value);
                cu!(rig, cuFuncSetAttribute(kernel, CUfunction_attribute(15), value));
                attribute(rig, kernel, 15);
            }
        });
    }
    the_width_of_a_cluster_is_set(rig) {
        with_kernel(rig, |kernel| {
            for number in [11, 12, 13, 14, 10] {
                for value in [-1, 0, 1, 2] {
                    saw("set", (number, value));
                    cu!(rig, cuFuncSetAttribute(kernel, CUfunction_attribute(number), value));
                    attribute(rig, kernel, number);
                }
            }
        });
    }
    a_bound_of_a_kernel_is_kept(rig) {
        let module = rig.module(TOLD);
        for (name, blocks) in [("bounded", [128, 129]), ("required", [64, 128])] {
            let function = rig.function(module, name);
            for threads in blocks {
                launch(rig, function, ONE, [threads, 1, 1], 0);
            }
            launch(rig, function, ONE, [64, 2, 1], 0);
        }
        ok!(rig, cuModuleUnload(module));
    }
    a_grid_is_a_multiple_of_its_cluster(rig) {
        let module = rig.module(CLUSTERED);
        let function = rig.function(module, "clustered");
        for blocks in [1, 2, 3, 4] {
            launch(rig, function, [blocks, 1, 1], ONE, 0);
        }
        ok!(rig, cuModuleUnload(module));
    }
    the_dimensions_of_a_grid(rig) {
        with_kernel(rig, |kernel| {
            for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 65_535, 1], [1, 65_536, 1], [1, 1, 65_536]] {
                launch(rig, kernel, grid, ONE, 0);
            }
            launch(rig, kernel, [u32::MAX, 1, 1], ONE, 0);
        });
    }
    the_dimensions_of_a_block(rig) {
        with_kernel(rig, |kernel| {
            for block in [
                [0, 1, 1], [1, 0, 1], [1, 1, 0], [1024, 1, 1], [1025, 1, 1], [1, 1024, 1], [1, 1025, 1],
                [1, 1, 64], [1, 1, 65], [32, 32, 1], [33, 32, 1], [16, 16, 4], [u32::MAX, 1, 1],
            ] {
                launch(rig, kernel, ONE, block, 0);
            }
        });
    }
    shared_memory_past_the_default_is_asked_for(rig) {
        with_kernel(rig, |kernel| {
            let what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            launch(rig, kernel, ONE, ONE, 60_000);
            cu!(rig, cuFuncSetAttribute(kernel, what, 60_000));
            launch(rig, kernel, ONE, ONE, 60_000);
            launch(rig, kernel, ONE, ONE, 60_001);
            cu!(rig, cuFuncSetAttribute(kernel, what, 100));
            attribute(rig, kernel, 8);
            launch(rig, kernel, ONE, ONE, 101);
            launch(rig, kernel, ONE, ONE, 49_152);
        });
    }
    no_kernel_to_launch(rig) {
        let (s, none) = (rig.stream, null_mut());
        cu!(rig, cuLaunchKernel(null_mut(), 1, 1, 1, 1, 1, 1, 0, s, null_mut(), none));
        cu!(rig, cuLaunchKernel(null_mut(), 0, 1, 1, 1, 1, 1, 0, s, null_mut(), none));
        cu!(rig, cuLaunchCooperativeKernel(null_mut(), 1, 1, 1, 1, 1, 1, 0, s, null_mut()));
    }
    parameters_and_a_buffer_at_once(rig) {
        let module = rig.module(PTX);
        let kernel = rig.function(module, "k");
        let (mut address, mut one, mut size) = (rig.buffer, 1_u32, 12_usize);
        let mut params = [(&raw mut address).cast(), (&raw mut one).cast::<c_void>()];
        let mut bytes = [0_u8; 12];
        let word = std::ptr::without_provenance_mut;
        let mut extra = [word(1), bytes.as_mut_ptr().cast(), word(2), (&raw mut size).cast(), word(0)];
        let (p, e, s) = (params.as_mut_ptr(), extra.as_mut_ptr(), rig.stream);
        cu!(rig, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, p, e));
        cu!(rig, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, null_mut(), null_mut()));
        rig.sync(s);
        ok!(rig, cuModuleUnload(module));
    }
    a_buffer_of_parameters_of_the_wrong_size(rig) {
        let module = rig.module(PTX);
        let kernel = rig.function(module, "k");
        let mut bytes = [0_u8; 64];
        bytes[..8].copy_from_slice(&rig.buffer.to_ne_bytes());
        let word = std::ptr::without_provenance_mut::<c_void>;
        for size in [0_usize, 8, 11, 12, 13, 16, 64] {
            let mut size = size;
            let mut extra = [word(1), bytes.as_mut_ptr().cast(), word(2), (&raw mut size).cast(), word(0)];
            let (e, s, none) = (extra.as_mut_ptr(), rig.stream, null_mut());
            saw("bytes", size);
            cu!(rig, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, none, e));
        }
        rig.sync(rig.stream);
        ok!(rig, cuModuleUnload(module));
    }
    where_the_parameters_of_a_kernel_lie(rig) {
        let module = rig.module(TOLD);
        let function = rig.function(module, "wide");
        for index in 0..=5 {
            let (mut offset, mut size) = (77, 77);
            cu!(rig, cuFuncGetParamInfo(function, index, &mut offset, &mut size));
            saw("offset and size", (offset, size));
        }
        cu!(rig, cuFuncGetParamInfo(function, 0, null_mut(), &mut 0));
        cu!(rig, cuFuncGetParamInfo(function, 0, &mut 0, null_mut()));
        cu!(rig, cuFuncGetParamInfo(null_mut(), 0, &mut 0, &mut 0));
        ok!(rig, cuModuleUnload(module));
    }
    a_function_tells_its_name_and_module(rig) {
        let module = rig.module(PTX);
        let function = rig.function(module, "k");
        let (mut name, mut of) = (null(), null_mut());
        cu!(rig, cuFuncGetName(&mut name, function));
        saw("name", text(name));
        cu!(rig, cuFuncGetModule(&mut of, function));
        saw("same", of == module);
        cu!(rig, cuFuncGetName(null_mut(), function));
        cu!(rig, cuFuncGetModule(null_mut(), function));
        cu!(rig, cuFuncGetModule(&mut of, null_mut()));
        ok!(rig, cuModuleUnload(module));
    }
    a_function_is_loaded_when_it_is_needed(rig) {
        let module = rig.module(PTX);
        let function = rig.function(module, "noarg");
        let mut state = CUfunctionLoadingState(9);
        cu!(rig, cuFuncIsLoaded(&mut state, function));
        saw("state", state.0);
        cu!(rig, cuFuncLoad(function));
        cu!(rig, cuFuncIsLoaded(&mut state, function));
        saw("state", state.0);
        cu!(rig, cuFuncLoad(null_mut()));
        cu!(rig, cuFuncIsLoaded(&mut state, null_mut()));
        ok!(rig, cuModuleUnload(module));
    }
    a_launch_loads_a_function(rig) {
        let module = rig.module(PTX);
        let function = rig.function(module, "noarg");
        let mut state = CUfunctionLoadingState(9);
        launch(rig, function, ONE, ONE, 0);
        cu!(rig, cuFuncIsLoaded(&mut state, function));
        saw("state", state.0);
        ok!(rig, cuModuleUnload(module));
    }
    the_functions_of_a_module_are_listed(rig) {
        let (module, mut count) = (rig.module(PTX), 0);
        cu!(rig, cuModuleGetFunctionCount(&mut count, module));
        saw("count", count);
        let mut functions = vec![null_mut(); 5];
        cu!(rig, cuModuleEnumerateFunctions(functions.as_mut_ptr(), 5, module));
        let mut names: Vec<_> = functions
            .iter()
            .map(|function| {
                let mut name = null();
                ok!(rig, cuFuncGetName(&mut name, *function));
                text(name)
            })
            .collect();
        names.sort();
        saw("names", names);
        cu!(rig, cuModuleEnumerateFunctions(functions.as_mut_ptr(), 0, module));
        cu!(rig, cuModuleEnumerateFunctions(functions.as_mut_ptr(), 2, module));
        cu!(rig, cuModuleGetFunctionCount(null_mut(), module));
        cu!(rig, cuModuleEnumerateFunctions(null_mut(), 5, module));
        cu!(rig, cuModuleGetFunctionCount(&mut count, null_mut()));
        ok!(rig, cuModuleUnload(module));
    }
    a_variable_is_told_in_part(rig) {
        let (module, name) = (rig.module(PTX), c"counter".as_ptr());
        let (mut address, mut size) = (0, 0);
        cu!(rig, cuModuleGetGlobal_v2(&mut address, null_mut(), module, name));
        cu!(rig, cuModuleGetGlobal_v2(null_mut(), &mut size, module, name));
        cu!(rig, cuModuleGetGlobal_v2(null_mut(), null_mut(), module, name));
        cu!(rig, cuModuleGetGlobal_v2(&mut address, &mut size, module, null()));
        cu!(rig, cuModuleGetGlobal_v2(&mut address, &mut size, null_mut(), name));
        saw("size", size);
        ok!(rig, cuModuleUnload(module));
    }
    a_module_is_unloaded_once(rig) {
        cu!(rig, cuModuleUnload(null_mut()));
        cu!(rig, cuModuleLoadData(null_mut(), c"x".as_ptr().cast()));
        cu!(rig, cuModuleLoad(&mut null_mut(), null()));
    }
    a_library_lists_its_kernels(rig) {
        let library = library(rig, PTX);
        let mut count = 0;
        cu!(rig, cuLibraryGetKernelCount(&mut count, library));
        saw("count", count);
        let mut kernels = vec![null_mut(); 5];
        cu!(rig, cuLibraryEnumerateKernels(kernels.as_mut_ptr(), 5, library));
        let mut names: Vec<_> = kernels
            .iter()
            .map(|kernel| {
                let mut name = null();
                ok!(rig, cuKernelGetName(&mut name, *kernel));
                text(name)
            })
            .collect();
        names.sort();
        saw("names", names);
        cu!(rig, cuLibraryEnumerateKernels(null_mut(), 5, library));
        cu!(rig, cuLibraryGetKernelCount(null_mut(), library));
        ok!(rig, cuLibraryUnload(library));
    }
    a_library_needs_its_arguments(rig) {
        let library = library(rig, PTX);
        let mut kernel = null_mut();
        cu!(rig, cuLibraryGetKernel(&mut kernel, library, c"nope".as_ptr()));
        cu!(rig, cuLibraryGetKernel(&mut kernel, library, c"".as_ptr()));
        cu!(rig, cuLibraryGetKernel(&mut kernel, library, null()));
        cu!(rig, cuLibraryGetKernel(null_mut(), library, c"k".as_ptr()));
        cu!(rig, cuLibraryGetKernel(&mut kernel, null_mut(), c"k".as_ptr()));
        cu!(rig, cuLibraryUnload(null_mut()));
        ok!(rig, cuLibraryUnload(library));
    }
    a_library_tells_its_variables(rig) {
        let library = library(rig, PTX);
        let (mut address, mut size) = (0, 0);
        cu!(rig, cuLibraryGetGlobal(&mut address, &mut size, library, c"counter".as_ptr()));
        saw("size and value", (size, rig.read::<u32>(address, 1)));
        cu!(rig, cuLibraryGetGlobal(&mut address, &mut size, library, c"nope".as_ptr()));
        cu!(rig, cuLibraryGetGlobal(&mut address, &mut size, library, null()));
        ok!(rig, cuLibraryUnload(library));
    }
    a_kernel_of_a_library_tells_its_attributes(rig) {
        let library = library(rig, TOLD);
        let kernel: CUkernel = make!(rig, cuLibraryGetKernel(library, c"bounded".as_ptr()));
        for number in [0, 1, 8, 99] {
            let mut value = -77;
            cu!(rig, cuKernelGetAttribute(&mut value, CUfunction_attribute(number), kernel, 0));
            saw("value", value);
        }
        cu!(rig, cuKernelGetAttribute(&mut 0, CUfunction_attribute(0), kernel, 9));
        cu!(rig, cuKernelGetAttribute(null_mut(), CUfunction_attribute(0), kernel, 0));
        cu!(rig, cuKernelSetAttribute(CUfunction_attribute(8), 60_000, kernel, 0));
        cu!(rig, cuKernelSetAttribute(CUfunction_attribute(8), 60_000, kernel, 9));
        cu!(rig, cuKernelSetAttribute(CUfunction_attribute(0), 1, kernel, 0));
        let function: CUfunction = make!(rig, cuKernelGetFunction(kernel));
        attribute(rig, function, 8);
        ok!(rig, cuLibraryUnload(library));
    }
    a_kernel_of_a_library_tells_its_parameters(rig) {
        let library = library(rig, TOLD);
        let kernel: CUkernel = make!(rig, cuLibraryGetKernel(library, c"wide".as_ptr()));
        for index in [0, 3, 4, 5] {
            let (mut offset, mut size) = (77, 77);
            cu!(rig, cuKernelGetParamInfo(kernel, index, &mut offset, &mut size));
            saw("offset and size", (offset, size));
        }
        ok!(rig, cuLibraryUnload(library));
    }
    the_module_of_a_library_is_the_librarys(rig) {
        let library = library(rig, PTX);
        let module: CUmodule = make!(rig, cuLibraryGetModule(library));
        cu!(rig, cuModuleGetFunction(&mut null_mut(), module, c"k".as_ptr()));
        cu!(rig, cuModuleUnload(module));
        ok!(rig, cuLibraryUnload(library));
    }
}
