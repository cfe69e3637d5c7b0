//! [`Bindings`]: what a saved graph refers to.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::graph::save::format::{MemoryKind, sha256};
use crate::memory::{BufferInner, DeviceSliceMut};
use crate::module::Module;
use crate::pinned::{PinnedBuffer, PinnedInner};
use crate::retain::Owners;
use crate::stream::other_context_than;

/// What a saved graph refers to: the modules, memory, events and functions of the graph when it is
/// [saved](crate::Graph::save), and those that take their place when it is
/// [loaded](crate::Graph::load). Modules are known by their images, the rest by name.
///
/// It keeps all of them alive.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let done = Event::new(&context)?;
/// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
///     capture.labelled("report", || stream.host_function(|| println!("here")))?;
///     done.record_external(&stream)
/// })?;
/// let bindings = Bindings::new(&context).host("report", || println!("there"))?;
/// let bindings = bindings.event("done", &done)?;
/// let text = graph.to_saved(&bindings)?;
/// // SAFETY: the file has no kernels.
/// let loaded = unsafe { Graph::from_saved(&text, &bindings) }?;
/// assert_eq!(loaded.topology()?, graph.topology()?);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Bindings {
    pub(super) context: Context,
    pub(super) modules: Vec<BoundModule>,
    pub(super) memory: Vec<BoundMemory>,
    pub(super) events: Vec<(String, Event)>,
    pub(super) hosts: Vec<(String, HostFunction)>,
}

/// A function of the host.
pub(super) type HostFunction = Arc<dyn Fn() + Send + Sync>;

pub(super) struct BoundModule {
    pub(super) module: Module,
    pub(super) sha256: String,
    /// The image, if it is to stand in the file.
    pub(super) image: Option<Vec<u8>>,
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
        let (modules, memory) = (Vec::new(), Vec::new());
        let (events, hosts) = (Vec::new(), Vec::new());
        Bindings { context: context.clone(), modules, memory, events, hosts }
    }

    /// Adds a module, with the image that it was loaded from, of which only the hash is kept.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a module of another context.
    pub fn module(self, module: &Module, image: &[u8]) -> CudaResult<Bindings> {
        self.add_module(module, image, None)
    }

    /// Adds a module, with the image that it was loaded from, which is written into the file too: it
    /// is loaded from there where no module of that image is bound.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let image = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry none() { ret; }";
    /// let module = context.load_ptx(image)?;
    /// let kernel = module.kernel("none")?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
    ///     // SAFETY: `none` takes nothing.
    ///     unsafe { kernel.launch_builder(1, 1).launch(&stream) }
    /// })?;
    /// let bindings = Bindings::new(&context).embedded_module(&module, image.as_bytes())?;
    /// let text = graph.to_saved(&bindings)?;
    /// // SAFETY: `none` takes nothing.
    /// let loaded = unsafe { Graph::from_saved(&text, &Bindings::new(&context)) }?;
    /// loaded.instantiate()?.launch(&stream)?;
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`module`](Bindings::module).
    pub fn embedded_module(self, module: &Module, image: &[u8]) -> CudaResult<Bindings> {
        self.add_module(module, image, Some(image.to_vec()))
    }

    fn add_module(
        mut self,
        module: &Module,
        image: &[u8],
        embedded: Option<Vec<u8>>,
    ) -> CudaResult<Bindings> {
        if !self.context.same(module.context()) {
            return Err(other_context_than("module", "bindings"));
        }
        let (module, sha256) = (module.clone(), sha256(image));
        self.modules.push(BoundModule { module, sha256, image: embedded });
        Ok(self)
    }

    /// Adds an event by a name.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): an event of another context, or a name that there is already.
    pub fn event(mut self, name: impl Into<String>, event: &Event) -> CudaResult<Bindings> {
        let name = name.into();
        if !self.context.same(event.context()) {
            return Err(other_context_than("event", "bindings"));
        }
        if self.named_event(&name).is_some() {
            return Err(bound_already(&name));
        }
        self.events.push((name, event.clone()));
        Ok(self)
    }

    /// Adds a function of the host by a name, which is the label of each node that calls it
    /// ([`labelled`](crate::StreamGraphCapture::labelled),
    /// [`Graph::set_label`](crate::Graph::set_label)): a closure has none of its own. What
    /// [`Stream::host_function`](crate::Stream::host_function) says of a function in a capture is true
    /// of this one.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a name that there is already.
    pub fn host(
        mut self,
        name: impl Into<String>,
        function: impl Fn() + Send + Sync + 'static,
    ) -> CudaResult<Bindings> {
        let name = name.into();
        if self.named_host(&name).is_some() {
            return Err(bound_already(&name));
        }
        self.hosts.push((name, Arc::new(function)));
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
        if memory.slot().is_some() {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "memory",
                "it is a slot, and a file names memory: bind the memory itself",
            ));
        }
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
            return Err(bound_already(&memory.name));
        }
        self.memory.push(memory);
        Ok(self)
    }

    pub(super) fn named(&self, name: &str) -> Option<&BoundMemory> {
        self.memory.iter().find(|memory| memory.name == name)
    }

    pub(super) fn named_event(&self, name: &str) -> Option<&Event> {
        self.events.iter().find(|(known, _)| known == name).map(|(_, event)| event)
    }

    pub(super) fn named_host(&self, name: &str) -> Option<&HostFunction> {
        self.hosts.iter().find(|(known, _)| known == name).map(|(_, function)| function)
    }
}

#[cold]
fn bound_already(name: &str) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "name",
        format!("{name:?} is bound already: give each thing a name of its own"),
    )
}

impl BoundMemory {
    pub(super) fn kind(&self) -> MemoryKind {
        match self.owner {
            Owner::Device(_) => MemoryKind::Device,
            Owner::Pinned(_) => MemoryKind::Pinned,
        }
    }

    /// The memory, if it is the device's.
    pub(super) fn device(&self) -> Option<&Arc<BufferInner>> {
        match &self.owner {
            Owner::Device(memory) => Some(memory),
            Owner::Pinned(_) => None,
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
        let events: Vec<_> = self.events.iter().map(|(name, _)| name).collect();
        let hosts: Vec<_> = self.hosts.iter().map(|(name, _)| name).collect();
        f.debug_struct("Bindings")
            .field("memory", &names)
            .field("events", &events)
            .field("hosts", &hosts)
            .field("modules", &self.modules.len())
            .finish_non_exhaustive()
    }
}
