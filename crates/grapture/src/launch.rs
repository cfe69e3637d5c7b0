//! [`LaunchBuilder`]: one launch of a kernel, with what the kernel may touch.

mod attributes;
mod node;
mod residency;
mod slots;

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUdeviceptr, CUlaunchConfig, CUresult, CUstream, Function, Functions,
};
use smallvec::SmallVec;

use crate::context::Context;
use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::graph::Condition;
use crate::kernel::{Kernel, KernelInner};
use crate::memory::{BufferInner, DeviceSlice, DeviceSliceMut, of_its_context_alone};
use crate::operation::Operation;
use crate::retain::keep_until_done;
use crate::stream::{Stream, other_context_than, unreachable_memory};

pub(crate) use attributes::Attributes;
pub use attributes::KernelAttribute;
pub use attributes::MemorySyncDomain;
pub(crate) use attributes::check_cluster;
pub(crate) use node::before_contexts;
use slots::Extras;

/// How many arguments need no allocation.
const INLINE: usize = 12;

/// One launch of a kernel: [`Kernel::launch_builder`] makes it, the arguments follow in order, and
/// [`launch`](LaunchBuilder::launch) submits it.
///
/// The arguments say what the kernel may touch: that is kept alive if the launch is captured.
#[must_use = "nothing is launched before `launch`"]
pub struct LaunchBuilder<'a> {
    kernel: &'a Arc<KernelInner>,
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    arguments: SmallVec<[Argument<'a>; INLINE]>,
    /// The arguments that are larger than a word, each from a word boundary on.
    large: Vec<u64>,
    /// Attributes and slots. None: a plain launch.
    extras: Option<Box<Extras>>,
}

#[derive(Clone, Copy)]
struct Argument<'a> {
    /// The argument, if it fits in; else the word of `large` at which it begins.
    word: u64,
    /// The size in bytes.
    bytes: usize,
    /// What it is the address of.
    owner: Option<&'a Arc<BufferInner>>,
}

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

impl<'a> LaunchBuilder<'a> {
    #[inline]
    pub(crate) fn new(kernel: &'a Kernel, grid: Dim3, block: Dim3) -> LaunchBuilder<'a> {
        LaunchBuilder {
            kernel: kernel.inner(),
            grid,
            block,
            shared_bytes: 0,
            arguments: SmallVec::new(),
            large: Vec::new(),
            extras: None,
        }
    }

    /// Dynamic shared memory of each block, in bytes; 0 unless it is set.
    #[inline]
    pub fn shared_bytes(mut self, bytes: usize) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// The next argument: the address of device memory that the kernel reads.
    #[inline]
    pub fn arg<T: Pod>(mut self, slice: &'a (impl DeviceSlice<T> + ?Sized)) -> Self {
        let raw = slice.raw();
        if let Some(slot) = slice.slot() {
            self.use_memory_slot(slot, raw);
        }
        self.push(Argument { word: raw.address, bytes: WORD, owner: Some(raw.owner) });
        self
    }

    /// The next argument: the address of device memory that the kernel writes, or reads and writes.
    #[inline]
    pub fn arg_mut<T: Pod>(mut self, slice: &'a mut (impl DeviceSliceMut<T> + ?Sized)) -> Self {
        let raw = DeviceSlice::raw(&*slice);
        if let Some(slot) = slice.slot() {
            self.use_memory_slot(slot, raw);
        }
        self.push(Argument { word: raw.address, bytes: WORD, owner: Some(raw.owner) });
        self
    }

    /// The next argument, by value.
    #[inline]
    pub fn value<T: Pod>(mut self, value: T) -> Self {
        self.push_bytes(bytemuck::bytes_of(&value));
        self
    }

    /// The next argument, as the bytes of a parameter of any type.
    #[inline]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.push_bytes(bytes);
        self
    }

    /// The next argument: what decides a conditional node of the graph that the launch becomes a
    /// part of. The kernel gives it to `cudaGraphSetConditional`; outside of that graph it must
    /// not be used.
    #[inline]
    pub fn condition(self, condition: &Condition) -> Self {
        self.value(condition.handle)
    }

    /// The next argument: an address that this library knows nothing of. What is there is not kept
    /// alive.
    #[inline]
    pub fn address(mut self, address: CUdeviceptr) -> Self {
        self.push(Argument { word: address, bytes: WORD, owner: None });
        self
    }

    /// Whether the blocks can wait for one another: all of them must fit on the device at once.
    pub fn cooperative(mut self, cooperative: bool) -> Self {
        self.attributes_mut().cooperative = cooperative;
        self
    }

    /// The blocks of a cluster, which are resident together and share memory (compute capability
    /// 9.0). The grid is a multiple of it in each dimension.
    pub fn cluster(mut self, blocks: impl Into<Dim3>) -> Self {
        self.attributes_mut().cluster = Some(blocks.into());
        self
    }

    /// Whether the kernel may begin before the one before it on the stream has ended (compute
    /// capability 9.0). It must itself wait for the other's results.
    pub fn programmatic_serialization(mut self, allowed: bool) -> Self {
        self.attributes_mut().programmatic_serialization = allowed;
        self
    }

    /// The priority of the kernel in place of its stream's (11.7): lower numbers come first, and
    /// the driver clamps it to [`Context::stream_priorities`](crate::Context::stream_priorities).
    /// As a node of a graph it counts if that is instantiated with
    /// [`USE_NODE_PRIORITY`](crate::InstantiateFlags::USE_NODE_PRIORITY).
    pub fn priority(mut self, priority: i32) -> Self {
        self.attributes_mut().priority = Some(priority);
        self
    }

    /// The domain whose memory operations the kernel's fences wait for (12.0, compute capability
    /// 9.0).
    pub fn memory_sync_domain(mut self, domain: MemorySyncDomain) -> Self {
        self.attributes_mut().sync_domain = Some(domain);
        self
    }

    fn attributes_mut(&mut self) -> &mut Attributes {
        self.kernel.context().note_attributes();
        self.extras.get_or_insert_default()
    }

    #[inline]
    fn push(&mut self, argument: Argument<'a>) {
        self.arguments.push(argument);
    }

    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) {
        let mut word = [0; WORD];
        let word = match word.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            }
            None => self.push_large(bytes),
        };
        self.push(Argument { word, bytes: bytes.len(), owner: None });
    }

    /// Gives the word at which the bytes begin.
    fn push_large(&mut self, bytes: &[u8]) -> u64 {
        let start = self.large.len();
        self.large.resize(start + bytes.len().div_ceil(WORD), 0);
        // INVARIANT: the words from `start` on were just made for these bytes.
        bytemuck::cast_slice_mut(&mut self.large[start..])[..bytes.len()].copy_from_slice(bytes);
        start as u64
    }

    /// Submits the launch to the stream. Does not block. In a capture, the kernel, its module and
    /// the memory of `arg` and `arg_mut` are kept alive as long as the graph can run.
    ///
    /// # Safety
    ///
    /// The kernel's code is sound for these arguments: they have the types of its parameters, and
    /// with this grid, it touches no memory but what it is given, within the lengths that it is
    /// given, and writes only what was given as written. Memory that was given by
    /// [`address`](LaunchBuilder::address) or within [`bytes`](LaunchBuilder::bytes) outlives the
    /// launch, and each launch of a graph that captures it. With slots, all of this holds whatever they
    /// can be set to: every value of a [`Slot`](crate::Slot)'s type that its rule accepts, in every
    /// combination, and any memory of the same length, also the same for several.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), before the driver sees the launch, and so that a capture
    /// stays valid: a dimension of 0 or beyond the device's limit, too many threads in a block, too
    /// much shared memory, the wrong number or sizes of arguments, memory or a stream of another
    /// context. [`NotSupported`](CudaError::NotSupported): an attribute that the driver is too old
    /// for (11.6). An error of earlier work.
    #[inline]
    #[track_caller]
    pub unsafe fn launch(self, stream: &Stream) -> CudaResult<()> {
        let mut inline = [const { MaybeUninit::uninit() }; INLINE];
        let mut spilled;
        let arguments = self.arguments.as_slice();
        let pointers = match inline.get_mut(..arguments.len()) {
            Some(pointers) => pointers,
            None => {
                spilled = vec![MaybeUninit::uninit(); arguments.len()];
                &mut spilled[..]
            }
        };
        if self.locate(stream.context(), arguments, pointers) && self.fits(stream) {
            // SAFETY: the caller's promise, and pointers to the arguments; nothing is to be checked.
            return unsafe { self.record(stream, arguments, pointers, true) };
        }
        // SAFETY: as above.
        unsafe { self.launch_other(stream, arguments, pointers) }
    }

    /// A launch that is not plain.
    ///
    /// # Safety
    ///
    /// As for [`launch`](LaunchBuilder::launch), and `pointers` are to the arguments.
    #[cold]
    #[track_caller]
    unsafe fn launch_other(
        &self,
        stream: &Stream,
        arguments: &[Argument<'a>],
        pointers: &mut [MaybeUninit<*mut c_void>],
    ) -> CudaResult<()> {
        self.check(stream)?;
        if self.has_slots() {
            // SAFETY: as above.
            let recorded = unsafe { self.record_slots(stream, pointers.as_mut_ptr().cast()) };
            if let Some(recorded) = recorded {
                return recorded;
            }
        }
        if self.uses_peers(stream.context()) {
            // SAFETY: the caller's promise, and it was checked.
            return unsafe { self.launch_with_peers(stream, arguments, pointers) };
        }
        // SAFETY: as above.
        unsafe { self.record(stream, arguments, pointers, false) }
    }

    /// A launch with memory of other contexts, which this library lets its context reach.
    ///
    /// # Safety
    ///
    /// As for [`record`](LaunchBuilder::record).
    #[cold]
    #[track_caller]
    unsafe fn launch_with_peers(
        &self,
        stream: &Stream,
        arguments: &[Argument<'a>],
        pointers: &mut [MaybeUninit<*mut c_void>],
    ) -> CudaResult<()> {
        // SAFETY: the caller's promise.
        let launched = unsafe { self.record(stream, arguments, pointers, false) };
        // The release of memory waits for the work of its own context alone. In a capture the graph
        // has it too.
        keep_until_done(self.owners(), stream);
        launched
    }

    /// Submits the launch. `plain`: it has no attributes, and plain memory of the context.
    ///
    /// # Safety
    ///
    /// As for [`launch`](LaunchBuilder::launch), and the launch was checked: `pointers` are to the
    /// arguments.
    #[inline(always)]
    #[track_caller]
    unsafe fn record(
        &self,
        stream: &Stream,
        arguments: &[Argument<'a>],
        pointers: &mut [MaybeUninit<*mut c_void>],
        plain: bool,
    ) -> CudaResult<()> {
        let pointers =
            if pointers.is_empty() { ptr::null_mut() } else { pointers.as_mut_ptr().cast() };
        stream.submit(
            Operation::kernel(self.kernel),
            |owners| {
                owners.retain(self.kernel);
                for owner in arguments.iter().filter_map(|argument| argument.owner) {
                    if plain { owners.retain(owner) } else { owners.retain_memory(owner) }
                }
            },
            // SAFETY: a live kernel and stream of one context (checked), as many pointers as the
            // kernel has parameters, each to as many bytes as the parameter has (checked where the
            // driver tells; else the caller's promise). The driver copies the arguments in the
            // call. What they point to lives: buffers by their own drop, which waits for the work
            // in flight, and by the graph (O2); the rest is the caller's promise.
            |functions, raw| unsafe { self.submit(functions, raw, pointers, plain) },
        )
    }

    /// Fills in where the driver finds each argument. Gives whether nothing is to be said about
    /// the arguments: they have the sizes of the parameters, and what they are the addresses of is
    /// plain memory of the context.
    #[inline]
    fn locate(
        &self,
        context: &Context,
        arguments: &[Argument<'a>],
        pointers: &mut [MaybeUninit<*mut c_void>],
    ) -> bool {
        let sizes = self.kernel.parameters();
        let mut plain = sizes.is_none_or(|sizes| sizes.len() == arguments.len());
        for (index, (pointer, argument)) in pointers.iter_mut().zip(arguments).enumerate() {
            pointer.write(self.pointer(argument));
            plain &= sizes.is_none_or(|sizes| sizes.get(index) == Some(&argument.bytes));
            if let Some(owner) = argument.owner {
                plain &= owner.context().is(context) & owner.is_plain();
            }
        }
        plain
    }

    /// Whether nothing is to be said about the rest. No branch but the last: this is on the way of
    /// every launch.
    #[inline]
    fn fits(&self, stream: &Stream) -> bool {
        stream.context().is(self.kernel.context())
            & self.dimensions_fit()
            & (self.shared_bytes <= self.kernel.dynamic_shared_limit() as usize)
            & self.extras.is_none()
    }

    #[inline]
    fn dimensions_fit(&self) -> bool {
        let limits = self.kernel.limits();
        self.grid.fits(limits.grid)
            & self.block.fits(limits.block)
            & (self.block.count() <= u64::from(self.kernel.max_threads()))
    }

    /// Where the driver reads the argument in the call; it only reads.
    #[inline]
    fn pointer(&self, argument: &Argument<'a>) -> *mut c_void {
        if argument.bytes <= WORD {
            return ptr::from_ref(&argument.word).cast_mut().cast();
        }
        // INVARIANT: `push_large` gave the word.
        ptr::from_ref(&self.large[argument.word as usize]).cast_mut().cast()
    }

    /// # Safety
    ///
    /// `pointers` are to the arguments of the kernel, and the stream is live. `plain`: there are no
    /// attributes.
    #[inline(always)] // As `Stream::with`.
    unsafe fn submit(
        &self,
        functions: &Functions,
        stream: CUstream,
        pointers: *mut *mut c_void,
        plain: bool,
    ) -> CUresult {
        if !plain && let Some(attributes) = self.extras.as_ref().filter(|some| !some.is_plain()) {
            // SAFETY: the caller's promise.
            return unsafe { self.submit_with_attributes(attributes, functions, stream, pointers) };
        }
        let (grid, block) = (self.grid, self.block);
        // SAFETY: the caller's promise.
        unsafe {
            (functions.cuLaunchKernel)(
                self.kernel.raw(),
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                self.shared_bytes as u32,
                stream,
                pointers,
                ptr::null_mut(),
            )
        }
    }

    /// # Safety
    ///
    /// As [`submit`](LaunchBuilder::submit).
    #[cold]
    unsafe fn submit_with_attributes(
        &self,
        attributes: &Attributes,
        functions: &Functions,
        stream: CUstream,
        pointers: *mut *mut c_void,
    ) -> CUresult {
        let mut attributes = attributes.to_raw();
        let config = CUlaunchConfig {
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
            ..self.config(stream)
        };
        let (kernel, extra) = (self.kernel.raw(), ptr::null_mut());
        // SAFETY: the caller's promise; the configuration and its attributes are live locals.
        unsafe { (functions.cuLaunchKernelEx)(&config, kernel, pointers, extra) }
    }

    /// The launch for the newer calls, without its attributes.
    fn config(&self, stream: CUstream) -> CUlaunchConfig {
        CUlaunchConfig {
            gridDimX: self.grid.x,
            gridDimY: self.grid.y,
            gridDimZ: self.grid.z,
            blockDimX: self.block.x,
            blockDimY: self.block.y,
            blockDimZ: self.block.z,
            sharedMemBytes: self.shared_bytes as u32,
            hStream: stream,
            attrs: ptr::null_mut(),
            numAttrs: 0,
        }
    }

    /// Says what is wrong, or prepares what is right and not plain.
    #[cold]
    fn check(&self, stream: &Stream) -> CudaResult<()> {
        self.check_for(stream.context(), "stream")?;
        if let Some(attributes) = &self.extras {
            attributes.check(stream.context(), self.grid, Function::cuLaunchKernelEx)?;
            // The driver refuses the rest by itself, but a capture would not survive that.
            if stream.is_capturing() {
                self.check_residency(attributes)?;
            }
        }
        let mut owners = self.arguments.iter().filter_map(|argument| argument.owner);
        owners.try_for_each(|owner| owner.note_use(stream))
    }

    /// Says what is wrong with the launch, for a stream or a graph of the context.
    #[cold]
    fn check_for(&self, context: &Context, than: &str) -> CudaResult<()> {
        if !context.same(self.kernel.context()) {
            return Err(other_context_than("kernel", than));
        }
        self.check_shape()?;
        self.check_slots()?;
        let given = self.arguments.iter().map(|argument| &argument.bytes);
        if let Some(sizes) = self.kernel.parameters().filter(|sizes| !given.eq(*sizes)) {
            return Err(self.bad_arguments(sizes));
        }
        let mut others = self.arguments.iter().filter_map(|argument| argument.owner);
        others.try_for_each(|owner| match owner.context() {
            own if own.same(context) => Ok(()),
            peer if !context.has_peer_access(peer) => Err(unreachable_memory(than)),
            _ if !owner.is_plain() => Err(of_its_context_alone()),
            _ => Ok(()),
        })
    }

    /// Whether an argument is memory of another context.
    fn uses_peers(&self, context: &Context) -> bool {
        let mut owners = self.arguments.iter().filter_map(|argument| argument.owner);
        owners.any(|owner| !owner.context().same(context))
    }

    /// Says what is wrong with the dimensions and the shared memory.
    #[cold]
    fn check_shape(&self) -> CudaResult<()> {
        if !self.dimensions_fit() {
            return Err(self.bad_dimensions());
        }
        if self.shared_bytes > self.kernel.dynamic_shared_limit() as usize {
            return Err(self.too_much_shared());
        }
        Ok(())
    }

    #[cold]
    fn bad_dimensions(&self) -> CudaError {
        let limits = self.kernel.limits();
        let dimensions = [
            ("kernel.grid_dim.x", self.grid.x, limits.grid.x),
            ("kernel.grid_dim.y", self.grid.y, limits.grid.y),
            ("kernel.grid_dim.z", self.grid.z, limits.grid.z),
            ("kernel.block_dim.x", self.block.x, limits.block.x),
            ("kernel.block_dim.y", self.block.y, limits.block.y),
            ("kernel.block_dim.z", self.block.z, limits.block.z),
        ];
        for (what, value, most) in dimensions {
            if value == 0 {
                return refused(what, "it is 0, and every dimension is at least 1".to_owned());
            }
            if value > most {
                return refused(
                    what,
                    format!("it is {value}, and the device allows at most {most}"),
                );
            }
        }
        let (name, threads, most) =
            (self.kernel.name(), self.block.count(), self.kernel.max_threads());
        refused(
            "kernel.block_dim",
            format!("a block has {threads} threads, and `{name}` allows at most {most} here"),
        )
    }

    #[cold]
    fn too_much_shared(&self) -> CudaError {
        let (bytes, most) = (self.shared_bytes, self.kernel.dynamic_shared_limit());
        refused(
            "kernel.shared_bytes",
            format!(
                "{bytes} bytes are more than the {most} that a block of `{}` may have: raise the \
                 limit with `Kernel::set_max_dynamic_shared_bytes`",
                self.kernel.name()
            ),
        )
    }

    #[cold]
    fn bad_arguments(&self, parameters: &[usize]) -> CudaError {
        let name = self.kernel.name();
        if parameters.len() != self.arguments.len() {
            let (takes, given) = (parameters.len(), self.arguments.len());
            return refused(
                "kernel.args",
                format!("`{name}` takes {takes} arguments, and {given} were given"),
            );
        }
        let wrong = parameters
            .iter()
            .zip(&self.arguments)
            .position(|(size, argument)| *size != argument.bytes)
            .unwrap_or(0);
        // INVARIANT: `wrong` is an index of both, which have the same length.
        let (takes, given) = (parameters[wrong], self.arguments[wrong].bytes);
        refused(
            "kernel.args",
            format!("argument {wrong} of `{name}` has {takes} bytes, and {given} were given"),
        )
    }
}

#[cold]
fn refused(what: &'static str, problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}

impl fmt::Debug for LaunchBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchBuilder")
            .field("kernel", &self.kernel.name())
            .field("grid", &self.grid)
            .field("block", &self.block)
            .field("arguments", &self.arguments.len())
            .finish_non_exhaustive()
    }
}
