//! A compiled module and what its owner may ask of it.

use std::sync::Arc;

use super::error::Result;
use super::ir::Code;
use super::types::Space;

/// A compiled module.
#[derive(Clone, Debug)]
pub struct Module {
    pub(super) inner: Arc<ModuleInner>,
}

#[derive(Debug, Default)]
pub(super) struct ModuleInner {
    pub code: Code,
    pub kernels: Vec<Kernel>,
    pub globals: Vec<Global>,
    pub version: (u32, u32),
    pub target: String,
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The size of all parameters together.
    pub param_bytes: usize,
    /// Static shared memory.
    pub static_shared_bytes: usize,
    /// The alignment that dynamic shared memory gets behind the static.
    pub shared_align: usize,
    /// Local memory of a thread, without what calls need.
    pub local_bytes: usize,
    /// Registers of a thread: how many the text declares, at most 255.
    pub registers: u32,
    /// The limit that `.maxntid` sets.
    pub max_threads_per_block: Option<u32>,
    /// The block that `.reqntid` demands.
    pub required_block: Option<[u32; 3]>,
    /// The cluster that `.reqnctapercluster` demands.
    pub required_cluster: Option<[u32; 3]>,
    /// What `.minnctapersm` says.
    pub min_blocks_per_multiprocessor: Option<u32>,
    /// Whether it uses dynamic shared memory.
    pub uses_dynamic_shared: bool,
    /// Whether it can be recursive or calls by address, so that its stack has no known bound.
    pub unbounded_stack: bool,
    pub(super) function: u32,
    /// The offset of each shared variable it may touch.
    pub(super) shared: Vec<(u32, u64)>,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Bytes from the start of the parameters.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

/// A variable in global or constant memory.
#[derive(Clone, Debug)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// [`Space::Global`] or [`Space::Const`].
    pub space: Space,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Its initial bytes; shorter than `size` where the rest is zero.
    pub initial: Vec<u8>,
    /// Addresses to be added into the initial bytes.
    pub relocations: Vec<Relocation>,
}

/// An address in the initial bytes of a variable: the 64-bit value at `offset` becomes the address
/// of the global variable number `global` plus `addend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the initial bytes.
    pub offset: usize,
    /// Which of the module's globals.
    pub global: usize,
    /// The number added to its address.
    pub addend: i64,
}

impl Module {
    /// Compiles PTX text.
    ///
    /// # Errors
    /// Text that is not PTX or is not supported, with its place.
    pub fn compile(text: &str) -> Result<Self> {
        let mut ast = super::parser::parse(text)?;
        super::contract::contract(&mut ast);
        Ok(Self { inner: Arc::new(super::lower::lower(&ast)?) })
    }

    /// The kernels, in the order of the text.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.inner.kernels
    }

    /// The number of a kernel.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.inner.kernels.iter().position(|kernel| kernel.name == name)
    }

    /// The variables in global and constant memory.
    #[must_use]
    pub fn globals(&self) -> &[Global] {
        &self.inner.globals
    }

    /// The PTX version of the text.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.inner.version
    }

    /// The target of the text, such as `sm_75`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.inner.target
    }
}
