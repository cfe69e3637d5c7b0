//! Modules, their functions and globals; libraries and their kernels.

mod fatbin;
mod image;
mod jit;
mod load;

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, CUfunc_st, CUkern_st, CUlib_st, CUmod_st,
};

pub(crate) use image::{Image, Refused};
pub(crate) use jit::JitOptions;

use crate::context::Context;
use crate::device;
use crate::handle::{Id, Kind, Object};
use crate::ptx;
use crate::sim::State;

/// A kernel's code and what is known of it.
#[derive(Debug)]
pub(crate) struct KernelCode {
    /// The module that it is in.
    pub(crate) module: ptx::Module,
    /// Its place among the module's kernels.
    pub(crate) index: usize,
    /// Its name, NUL-terminated for those who ask.
    pub(crate) name: std::ffi::CString,
    /// Its parameters.
    pub(crate) params: Vec<ptx::Param>,
    /// The bytes of all parameters.
    pub(crate) param_bytes: usize,
    /// Bytes of static shared memory.
    pub(crate) shared_bytes: usize,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: usize,
    /// Constant memory of its module.
    pub(crate) const_bytes: usize,
    /// Registers of a thread.
    pub(crate) registers: usize,
    /// The most threads of a block.
    pub(crate) max_threads: usize,
    /// The block that it demands.
    pub(crate) required_block: Option<[u32; 3]>,
    /// The cluster that it demands.
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// The compute capability that it was written for, 10 × major + minor.
    pub(crate) target: i32,
}

/// What a program set of a function or a kernel, by the attribute's number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(HashMap<i32, i32>);

impl Settings {
    /// What was set.
    pub(crate) fn get(&self, attribute: i32) -> Option<i32> {
        self.0.get(&attribute).copied()
    }

    /// Sets.
    pub(crate) fn set(&mut self, attribute: i32, value: i32) {
        self.0.insert(attribute, value);
    }

    /// The most bytes of dynamic shared memory of a launch.
    pub(crate) fn max_dynamic_shared(&self, code: &KernelCode) -> usize {
        match self.get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.0 as i32) {
            Some(bytes) => usize::try_from(bytes).unwrap_or(0),
            None => device::BLOCK_SHARED.saturating_sub(code.shared_bytes),
        }
    }

    /// Whether clusters may be larger than every device can do.
    pub(crate) fn allows_large_clusters(&self) -> bool {
        let attribute = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED.0 as i32;
        self.get(attribute).is_some_and(|allowed| allowed != 0)
    }
}

/// A function of a module.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its module.
    pub(crate) module: Id<Module>,
    /// Its context.
    pub(crate) context: Id<Context>,
    /// Its code.
    pub(crate) code: Arc<KernelCode>,
    /// The addresses of the module's variables.
    pub(crate) globals: Arc<[u64]>,
    /// What was set.
    pub(crate) settings: Settings,
}

/// A variable of a module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Global {
    /// Its address.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) size: usize,
}

/// A module, loaded in a context.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its context.
    pub(crate) context: Id<Context>,
    /// Its functions, in the order of the text.
    pub(crate) functions: Vec<Id<Function>>,
    /// The variables that have a name for the program.
    pub(crate) globals: HashMap<String, Global>,
    /// The addresses of all of its variables.
    pub(crate) addresses: Arc<[u64]>,
    /// Whether it belongs to a library.
    pub(crate) of_library: bool,
}

/// A library: code that is loaded into contexts as they ask.
#[derive(Debug)]
pub(crate) struct Library {
    /// The code.
    pub(crate) code: ptx::Module,
    /// Its kernels, in the order of the text.
    pub(crate) kernels: Vec<Id<Kernel>>,
    /// Its modules, by context.
    pub(crate) modules: HashMap<Id<Context>, Id<Module>>,
}

/// A kernel of a library.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Its library.
    pub(crate) library: Id<Library>,
    /// Its code.
    pub(crate) code: Arc<KernelCode>,
    /// What was set.
    pub(crate) settings: Settings,
}

impl Object for Module {
    const KIND: Kind = Kind::Module;
    type Raw = CUmod_st;
}
impl Object for Function {
    const KIND: Kind = Kind::Function;
    type Raw = CUfunc_st;
}
impl Object for Library {
    const KIND: Kind = Kind::Library;
    type Raw = CUlib_st;
}
impl Object for Kernel {
    const KIND: Kind = Kind::Kernel;
    type Raw = CUkern_st;
}

impl KernelCode {
    /// The kernels of a compiled module.
    pub(crate) fn all(module: &ptx::Module) -> Vec<Arc<KernelCode>> {
        let target = image::capability(module.target()).unwrap_or(0) as i32;
        let constants = module.globals().iter().filter(|global| global.space == ptx::Space::Const);
        let const_bytes = constants
            .fold(0, |end: usize, global| end.next_multiple_of(global.align) + global.size);
        let code = |(index, kernel): (usize, &ptx::Kernel)| {
            Arc::new(KernelCode {
                module: module.clone(),
                index,
                name: std::ffi::CString::new(kernel.name.as_str()).unwrap_or_default(),
                params: kernel.params.clone(),
                param_bytes: kernel.param_bytes,
                shared_bytes: kernel.static_shared_bytes,
                local_bytes: kernel.local_bytes,
                const_bytes,
                registers: kernel.registers as usize,
                max_threads: kernel
                    .max_threads_per_block
                    .map_or(device::MAX_BLOCK_THREADS, |threads| threads as usize)
                    .min(device::MAX_BLOCK_THREADS),
                required_block: kernel.required_block,
                required_cluster: kernel.required_cluster,
                target,
            })
        };
        module.kernels().iter().enumerate().map(code).collect()
    }
}

impl State {
    /// Takes a module away, with its functions. Its variables' memory is the caller's to free.
    pub(crate) fn remove_module(&mut self, id: Id<Module>) -> Option<Module> {
        let module = self.modules.remove(id)?;
        for function in &module.functions {
            self.functions.remove(*function);
        }
        Some(module)
    }
}
