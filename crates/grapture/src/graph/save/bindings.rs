//! [`Bindings`]: what a saved graph refers to.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::graph::save::format::{MemoryKind, sha256};
use crate::memory::{BufferInner, DeviceSliceMut};
use crate::module::Module;
use crate::pinned::{PinnedBuffer, PinnedInner};
use crate::retain::Owners;
use crate::stream::other_context_than;

/// The modules and the memory that a saved graph refers to: those of the graph when it is
/// [saved](crate::Graph::save), and those that take their place when it is
/// [loaded](crate::Graph::load). Modules are known by their images, memory by its name.
///
/// It keeps all of them alive.
pub struct Bindings {
    pub(super) context: Context,
    pub(super) modules: Vec<BoundModule>,
    pub(super) memory: Vec<BoundMemory>,
}

pub(super) struct BoundModule {
    pub(super) module: Module,
    pub(super) sha256: String,
}

pub(super) struct BoundMemory {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) bytes: u64,
    owner: Owner,
}

enum Owner {
    Device(Arc<BufferInner>),
    Pinned(Arc<PinnedInner>),
}

impl Bindings {
    /// None yet. The graph that is loaded with them is of this context.
    pub fn new(context: &Context) -> Bindings {
        Bindings { context: context.clone(), modules: Vec::new(), memory: Vec::new() }
    }

    /// Adds a module, with the image that it was loaded from, of which only the hash is kept.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a module of another context.
    pub fn module(mut self, module: &Module, image: &[u8]) -> CudaResult<Bindings> {
        if !self.context.same(module.context()) {
            return Err(other_context_than("module", "bindings"));
        }
        self.modules.push(BoundModule { module: module.clone(), sha256: sha256(image) });
        Ok(self)
    }

    /// Adds device memory by a name.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): memory of another context, or a name that there is already.
    pub fn memory<T: Pod>(
        self,
        name: impl Into<String>,
        memory: &mut (impl DeviceSliceMut<T> + ?Sized),
    ) -> CudaResult<Bindings> {
        let raw = memory.raw();
        let context = raw.context().clone();
        let owner = Owner::Device(raw.owner.clone());
        let (start, bytes) = (raw.address, raw.bytes as u64);
        self.add(BoundMemory { name: name.into(), start, bytes, owner }, &context)
    }

    /// Adds pinned memory of the host by a name.
    ///
    /// # Errors
    ///
    /// As [`memory`](Bindings::memory).
    pub fn pinned<T: Pod>(
        self,
        name: impl Into<String>,
        memory: &mut PinnedBuffer<T>,
    ) -> CudaResult<Bindings> {
        let inner = memory.inner().clone();
        let context = inner.context().clone();
        let (start, bytes) = (inner.pointer().as_ptr().addr() as u64, inner.bytes() as u64);
        let owner = Owner::Pinned(inner);
        self.add(BoundMemory { name: name.into(), start, bytes, owner }, &context)
    }

    fn add(mut self, memory: BoundMemory, context: &Context) -> CudaResult<Bindings> {
        if !self.context.same(context) {
            return Err(other_context_than("memory", "bindings"));
        }
        if self.named(&memory.name).is_some() {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "name",
                format!("{:?} is bound already: give each memory a name of its own", memory.name),
            ));
        }
        self.memory.push(memory);
        Ok(self)
    }

    pub(super) fn named(&self, name: &str) -> Option<&BoundMemory> {
        self.memory.iter().find(|memory| memory.name == name)
    }
}

impl BoundMemory {
    pub(super) fn kind(&self) -> MemoryKind {
        match self.owner {
            Owner::Device(_) => MemoryKind::Device,
            Owner::Pinned(_) => MemoryKind::Pinned,
        }
    }

    /// Keeps it alive for a node that reads it, or that may write it.
    pub(super) fn retain(&self, owners: &mut Owners, written: bool) {
        match &self.owner {
            Owner::Device(memory) => owners.retain_memory(memory),
            Owner::Pinned(memory) => owners.retain_pinned(memory, written),
        }
    }
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.memory.iter().map(|memory| &memory.name).collect();
        f.debug_struct("Bindings")
            .field("memory", &names)
            .field("modules", &self.modules.len())
            .finish_non_exhaustive()
    }
}
