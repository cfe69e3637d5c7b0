//! [`Slot`]: a value that executables made of one graph can have different.

mod change;
mod copy;
mod node;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::error::{CudaError, CudaResult};
use crate::operation::Line;

pub(crate) use change::{Bound, Value, Written, unfit_memory};
pub use change::{SlotChange, SlotValue};
pub(crate) use copy::{captured_copy, captured_fill, is_slot, no_rectangle};
pub(crate) use node::{KernelWork, NodePlace, SlotNode, SlotUse, SlotWork, Target, Work};

/// A value of a launch that can be set anew in an executable: an argument
/// ([`LaunchBuilder::slot`](crate::LaunchBuilder::slot)), the blocks of a grid
/// ([`grid_slot`](crate::LaunchBuilder::grid_slot)) or the threads of a block
/// ([`block_slot`](crate::LaunchBuilder::block_slot)).
///
/// It is a name and the value that launches begin with. [`GraphExec::set`](crate::GraphExec::set)
/// gives it another value in one executable, in every node that uses it, whether the node was
/// captured or added, in embedded graphs and in bodies of conditional nodes too. A launch outside of
/// a capture has the first value. A clone is the same slot; two slots are never the same.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// # let module = context.load_ptx(
/// #     ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry put(.param .u64 p, .param .u32 v) {\
/// #      .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\
/// #      st.global.u32 [%a], %v; ret; }")?;
/// let put = module.kernel("put")?;
/// let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
/// let value = Slot::new(2u32);
/// let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
///     // SAFETY: `put` takes the address of a word, and any value.
///     unsafe { put.launch_builder(1, 1).arg_mut(&mut word).slot(&value).launch(&stream) }
/// })?;
/// let mut exec = graph.instantiate()?;
/// exec.set(&value, 3)?;
/// exec.launch(&stream)?;
/// assert_eq!((word.to_vec(&stream)?[0], exec.get(&value)?), (3, 3));
/// # Ok::<(), CudaError>(())
/// ```
pub struct Slot<T: Pod> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    identity: Identity,
    value: T,
    rule: Option<Rule<T>>,
}

type Rule<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

impl<T: Pod> Slot<T> {
    /// A new slot, which takes every value of its type.
    #[track_caller]
    pub fn new(value: T) -> Slot<T> {
        Slot::of(value, None)
    }

    /// A new slot that takes only what `rule` gives true for: what the kernels are sound with.
    ///
    /// ```
    /// # use grapture::*;
    /// let len = Slot::accepting(64u32, |len| *len <= 64)?;
    /// assert!(Slot::accepting(65u32, |len| *len <= 64).is_err());
    /// # assert_eq!(len.initial(), 64);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): it does not take `value`.
    #[track_caller]
    pub fn accepting(
        value: T,
        rule: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> CudaResult<Slot<T>> {
        let slot = Slot::of(value, Some(Box::new(rule)));
        slot.check(&value)?;
        Ok(slot)
    }

    #[track_caller]
    fn of(value: T, rule: Option<Rule<T>>) -> Slot<T> {
        Slot { inner: Arc::new(Inner { identity: Identity::new::<T>(), value, rule }) }
    }

    /// The value that launches begin with.
    pub fn initial(&self) -> T {
        self.inner.value
    }

    #[inline]
    pub(crate) fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// Refuses a value that the slot does not take.
    #[inline]
    fn check(&self, value: &T) -> CudaResult<()> {
        match &self.inner.rule {
            Some(rule) if !rule(value) => Err(not_accepted(self.identity())),
            _ => Ok(()),
        }
    }
}

#[cold]
fn not_accepted(slot: Identity) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "slot.value",
        format!("{slot} does not accept it: its rule gave false"),
    )
}

impl<T: Pod> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot { inner: self.inner.clone() }
    }
}

impl<T: Pod> PartialEq for Slot<T> {
    /// Whether both are the same slot.
    fn eq(&self, other: &Slot<T>) -> bool {
        self.identity() == other.identity()
    }
}

impl<T: Pod> Eq for Slot<T> {}

impl<T: Pod> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.identity())
    }
}

/// Which slot it is, and how it is named in errors.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    number: u64,
    of: &'static str,
    line: &'static Location<'static>,
}

impl Identity {
    #[track_caller]
    pub(crate) fn new<T>() -> Identity {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Identity { number, of: std::any::type_name::<T>(), line: Location::caller() }
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.number == other.number
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the slot of `{}` from {}", self.of, Line(self.line))
    }
}
