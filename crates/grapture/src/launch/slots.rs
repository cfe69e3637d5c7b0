//! Launches with slots.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Pod;

use crate::dim3::Dim3;
use crate::error::CudaResult;
use crate::launch::attributes::Attributes;
use crate::launch::{LaunchBuilder, WORD};
use crate::memory::RawSlice;
use crate::operation::Operation;
use crate::slot::{Bound, Identity, KernelWork, Slot, SlotNode, SlotUse, SlotWork, Target, Value};
use crate::slot::{Work, unfit_memory};
use crate::stream::Stream;

/// What few launches have.
#[derive(Default)]
pub(super) struct Extras {
    attributes: Attributes,
    slots: Vec<SlotUse>,
}

impl Deref for Extras {
    type Target = Attributes;

    fn deref(&self) -> &Attributes {
        &self.attributes
    }
}

impl DerefMut for Extras {
    fn deref_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }
}

impl LaunchBuilder<'_> {
    /// The next argument: the value of a slot. In a graph it is what
    /// [`GraphExec::set`](crate::GraphExec::set) sets it to; until then, and outside of a capture,
    /// what the slot was made with.
    pub fn slot<T: Pod>(mut self, slot: &Slot<T>) -> Self {
        let (target, value) = (Target::Argument(self.arguments.len()), slot.initial());
        self.use_slot(slot.identity(), target, Value::of(&value));
        self.value(value)
    }

    /// Takes the blocks of the grid from a slot, as [`slot`](LaunchBuilder::slot) does an argument.
    pub fn grid_slot(mut self, slot: &Slot<Dim3>) -> Self {
        self.grid = slot.initial();
        self.use_slot(slot.identity(), Target::Grid, Value::of(&self.grid));
        self
    }

    /// Takes the threads of a block from a slot, as [`slot`](LaunchBuilder::slot) does an argument.
    pub fn block_slot(mut self, slot: &Slot<Dim3>) -> Self {
        self.block = slot.initial();
        self.use_slot(slot.identity(), Target::Block, Value::of(&self.block));
        self
    }

    /// Notes that the next argument is the memory of a slot.
    #[cold]
    pub(super) fn use_memory_slot(&mut self, slot: Identity, raw: RawSlice<'_>) {
        let target = Target::Argument(self.arguments.len());
        self.use_slot(slot, target, Value::Memory(Bound::of(raw)));
    }

    #[cold]
    fn use_slot(&mut self, slot: Identity, target: Target, initial: Value) {
        let extras = self.extras.get_or_insert_default();
        // What is set twice is what was set last.
        extras.slots.retain(|known| known.target != target);
        extras.slots.push(SlotUse { slot, target, initial });
    }

    pub(super) fn has_slots(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.slots.is_empty())
    }

    /// Refuses memory that a slot cannot have.
    pub(super) fn check_slots(&self) -> CudaResult<()> {
        let slots = self.extras.iter().flat_map(|extras| &extras.slots);
        let memory = slots.filter_map(|used| match &used.initial {
            Value::Memory(bound) => unfit_memory(&bound.owner),
            Value::Bytes(_) => None,
        });
        memory.map(Err).next().unwrap_or(Ok(()))
    }

    /// What a node with this launch is to be given anew when a slot of it is set. None: it has none.
    pub(crate) fn slot_node(&self) -> Option<Arc<SlotNode>> {
        let extras = self.extras.as_ref().filter(|extras| !extras.slots.is_empty())?;
        let (mut arguments, mut starts) = (Vec::new(), Vec::new());
        for argument in &self.arguments {
            starts.push(arguments.len());
            if argument.bytes <= WORD {
                arguments.push(argument.word);
            } else {
                let words = self.large.get(argument.word as usize..).unwrap_or_default();
                arguments.extend(words.iter().take(argument.bytes.div_ceil(WORD)));
            }
        }
        let work = Work::Kernel(KernelWork {
            kernel: self.kernel.clone(),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            attributes: extras.attributes,
            arguments,
            starts,
        });
        Some(SlotNode::new(Arc::new(SlotWork { work, uses: extras.slots.clone() })))
    }

    /// Has the stream's capture record the launch, which has slots and was checked. None: no capture
    /// records the stream.
    ///
    /// # Safety
    ///
    /// `pointers` are to the arguments of the kernel, which is sound with them.
    #[cold]
    #[track_caller]
    pub(super) unsafe fn record_slots(
        &self,
        stream: &Stream,
        pointers: *mut *mut c_void,
    ) -> Option<CudaResult<()>> {
        let operation = Operation::kernel(self.kernel);
        // SAFETY: the caller's promise; else as in `launch`.
        let call = |functions: &_, raw| unsafe { self.submit(functions, raw, pointers, false) };
        let node = self.slot_node()?;
        stream.submit_slotted(operation, &node, |owners| self.retain(owners), call)
    }
}

impl KernelWork {
    /// Refuses a grid and a block that a launch would be refused for.
    pub(crate) fn check_shape(&self, grid: Dim3, block: Dim3) -> CudaResult<()> {
        let launch = LaunchBuilder {
            kernel: &self.kernel,
            grid,
            block,
            shared_bytes: self.shared_bytes,
            arguments: smallvec::SmallVec::new(),
            large: Vec::new(),
            extras: None,
        };
        launch.check_shape()?;
        if let Some(cluster) = self.attributes.cluster {
            super::check_cluster(grid, cluster)?;
        }
        if self.attributes.is_plain() { Ok(()) } else { launch.check_residency(&self.attributes) }
    }
}
