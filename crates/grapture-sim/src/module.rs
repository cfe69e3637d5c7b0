//! Modules, their functions and globals; libraries and their kernels.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{CUfunc_st, CUkern_st, CUlib_st, CUmod_st};

use crate::context::Context;
use crate::handle::{Id, Kind, Object};
use crate::sim::State;

/// A kernel's code and what is known of it.
#[derive(Debug)]
pub(crate) struct KernelCode {
    /// Its name, NUL-terminated for those who ask.
    pub(crate) name: std::ffi::CString,
    /// Its parameters.
    pub(crate) params: Vec<Param>,
    /// Bytes of static shared memory.
    pub(crate) shared_bytes: usize,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: usize,
    /// Registers of a thread.
    pub(crate) registers: usize,
    /// The most threads of a block.
    pub(crate) max_threads: usize,
    /// The PTX version, 10 × major + minor.
    pub(crate) ptx_version: i32,
}

/// A parameter's place in the parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// Its offset.
    pub(crate) offset: usize,
    /// Its bytes.
    pub(crate) size: usize,
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
    /// The most bytes of dynamic shared memory, as set.
    pub(crate) max_dynamic_shared: usize,
    /// The other attributes that were set.
    pub(crate) attributes: HashMap<u32, i32>,
}

/// A global variable of a module.
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
    pub(crate) functions: Vec<(String, Id<Function>)>,
    /// Its globals.
    pub(crate) globals: HashMap<String, Global>,
    /// The library that it belongs to.
    pub(crate) library: Option<Id<Library>>,
}

/// A library: code that is loaded into contexts as they ask.
#[derive(Debug)]
pub(crate) struct Library {}

/// A kernel of a library.
#[derive(Debug)]
pub(crate) struct Kernel {}

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

impl State {
    /// Takes a module away, with its functions.
    pub(crate) fn remove_module(&mut self, id: Id<Module>) -> Option<Module> {
        let module = self.modules.remove(id)?;
        for (_, function) in &module.functions {
            self.functions.remove(*function);
        }
        Some(module)
    }
}
