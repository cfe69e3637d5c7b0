//! [`BatchNode`]: what a node of memory operations writes and waits for.

use std::fmt;

use bytemuck::Pod;
use grapture_sys::{
    CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_64,
    CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_64, CU_STREAM_WAIT_VALUE_AND,
    CU_STREAM_WAIT_VALUE_EQ, CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_NOR,
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_ERROR_INVALID_VALUE, CUdeviceptr, CUstreamBatchMemOpParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st as Barrier,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as WordOperation,
    CUstreamBatchMemOpType,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::{DeviceSlice, DeviceSliceMut, RawSlice};
use crate::retain::Owners;
use crate::slot::Identity;
use crate::stream::other_context_than;

/// The most operations that a batch has (measured: the driver refuses 256).
const MOST: usize = 255;

/// What a batch of memory operations does, in order: words that are written by the device without
/// a kernel, and words that it waits for. The same for a node that is
/// [added](crate::Graph::add_batch) to a graph and for one that is
/// [changed](crate::NodeMut::set_batch).
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut flag = DeviceBuffer::<u32>::zeroed(&context, 1)?;
/// let mut graph = Graph::new(&context)?;
/// let batch = BatchNode::new(&context).write(&mut flag, 5)?.wait(&flag, WaitFor::AtLeast(5))?;
/// graph.add_batch(batch, &[])?;
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(flag.to_vec(&stream)?, [5]);
/// # Ok::<(), CudaError>(())
/// ```
#[must_use = "a graph takes it"]
pub struct BatchNode {
    operations: Vec<CUstreamBatchMemOpParams>,
    pub(super) owners: Owners,
    pub(super) context: Context,
}

/// What a wait for a word waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitFor<W> {
    /// The word minus this, as a signed number, is not below 0.
    AtLeast(W),
    /// The word is this.
    Equal(W),
    /// The word and this have a bit in common.
    AnyBit(W),
    /// There is a bit that neither the word nor this has.
    NoBit(W),
}

/// A word that a memory operation can write or wait for: of 4 or of 8 bytes.
pub trait Word: Pod + sealed::Sealed {}

mod sealed {
    pub trait Sealed {
        /// The value, with zeros before it.
        fn bits(self) -> u64;
    }
}

macro_rules! words {
    ($($word:ty as $bits:ty),*) => {
        $(
            impl Word for $word {}

            impl sealed::Sealed for $word {
                fn bits(self) -> u64 {
                    u64::from(self as $bits)
                }
            }
        )*
    };
}

words!(u32 as u32, i32 as u32, u64 as u64, i64 as u64);

impl<W: Copy> WaitFor<W> {
    fn parts(self) -> (W, u32) {
        let (value, flag) = match self {
            WaitFor::AtLeast(value) => (value, CU_STREAM_WAIT_VALUE_GEQ),
            WaitFor::Equal(value) => (value, CU_STREAM_WAIT_VALUE_EQ),
            WaitFor::AnyBit(value) => (value, CU_STREAM_WAIT_VALUE_AND),
            WaitFor::NoBit(value) => (value, CU_STREAM_WAIT_VALUE_NOR),
        };
        (value, flag.0)
    }
}

impl BatchNode {
    /// No operations yet.
    #[track_caller]
    pub fn new(context: &Context) -> BatchNode {
        let owners = Owners::here();
        BatchNode { operations: Vec::new(), owners, context: context.clone() }
    }

    /// Next, writes the value to the first element of `target`. All that was written before is
    /// seen by whoever sees the value.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): no element, memory of another context, a slot, or too many
    /// operations.
    pub fn write<W: Word>(
        self,
        target: &mut (impl DeviceSliceMut<W> + ?Sized),
        value: W,
    ) -> CudaResult<BatchNode> {
        refuse_slot(target.slot())?;
        self.write_at(DeviceSlice::<W>::raw(target), value)
    }

    /// Next, writes the value to memory that begins there.
    pub(super) fn write_at<W: Word>(self, target: RawSlice<'_>, value: W) -> CudaResult<BatchNode> {
        let kinds = (CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_64);
        self.word(target, kinds, value, 0)
    }

    /// Next, waits for the first element of `source`.
    ///
    /// # Errors
    ///
    /// As [`write`](BatchNode::write).
    pub fn wait<W: Word>(
        self,
        source: &(impl DeviceSlice<W> + ?Sized),
        until: WaitFor<W>,
    ) -> CudaResult<BatchNode> {
        refuse_slot(source.slot())?;
        self.wait_at(source.raw(), until)
    }

    /// Next, waits for the word of memory that begins there.
    pub(super) fn wait_at<W: Word>(
        self,
        source: RawSlice<'_>,
        until: WaitFor<W>,
    ) -> CudaResult<BatchNode> {
        let (value, flags) = until.parts();
        let kinds = (CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_64);
        self.word(source, kinds, value, flags)
    }

    /// Next, a memory barrier: what comes later is seen by nobody who does not see what came
    /// before.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): too many operations.
    pub fn barrier(mut self) -> CudaResult<BatchNode> {
        let barrier = Barrier { operation: CU_STREAM_MEM_OP_BARRIER, flags: 0 };
        self.push(CUstreamBatchMemOpParams { memoryBarrier: barrier })?;
        Ok(self)
    }

    fn word<W: Word>(
        mut self,
        slice: RawSlice<'_>,
        (narrow, wide): (CUstreamBatchMemOpType, CUstreamBatchMemOpType),
        value: W,
        flags: u32,
    ) -> CudaResult<BatchNode> {
        if !self.context.same(slice.context()) {
            return Err(other_context_than("batch.word", "batch"));
        }
        let bytes = size_of::<W>();
        if slice.bytes < bytes || !slice.address.is_multiple_of(bytes as CUdeviceptr) {
            return Err(refused(
                "batch.word",
                format!("it has no element of {bytes} bytes that is aligned to them"),
            ));
        }
        let operation = if bytes == 4 { narrow } else { wide };
        // A wait has the same fields as a write.
        let mut word =
            WordOperation { operation, address: slice.address, flags, ..Default::default() };
        word.__bindgen_anon_1.value64 = value.bits();
        self.push(CUstreamBatchMemOpParams { writeValue: word })?;
        self.owners.retain_memory(slice.owner);
        Ok(self)
    }

    fn push(&mut self, operation: CUstreamBatchMemOpParams) -> CudaResult<()> {
        if self.operations.len() == MOST {
            return Err(refused("batch.len", format!("a batch has at most {MOST} operations")));
        }
        self.operations.push(operation);
        Ok(())
    }

    /// What the driver is told. It reads the operations in the call.
    pub(super) fn params(&mut self) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: self.context.as_raw(),
            count: self.operations.len() as u32,
            paramArray: self.operations.as_mut_ptr(),
            flags: 0,
        }
    }
}

#[cold]
fn refuse_slot(slot: Option<Identity>) -> CudaResult<()> {
    match slot {
        Some(_) => Err(refused(
            "batch.word",
            "it is a slot, and a batch stays with its words: give the memory itself".to_owned(),
        )),
        None => Ok(()),
    }
}

/// An operation of a batch, as the driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryOperation {
    /// It writes a word of 4 bytes.
    Write32 {
        /// Where.
        address: CUdeviceptr,
        /// What.
        value: u32,
    },
    /// It writes a word of 8 bytes.
    Write64 {
        /// Where.
        address: CUdeviceptr,
        /// What.
        value: u64,
    },
    /// It waits for a word of 4 bytes.
    Wait32 {
        /// Where.
        address: CUdeviceptr,
        /// For what; None: for something that this version of the library does not know.
        until: Option<WaitFor<u32>>,
    },
    /// It waits for a word of 8 bytes.
    Wait64 {
        /// Where.
        address: CUdeviceptr,
        /// For what; None: for something that this version of the library does not know.
        until: Option<WaitFor<u64>>,
    },
    /// A memory barrier.
    Barrier,
    /// An operation that this version of the library does not know.
    Other(u32),
}

impl MemoryOperation {
    /// # Safety
    ///
    /// The driver told it, or it was made here.
    pub(super) unsafe fn from_raw(raw: &CUstreamBatchMemOpParams) -> MemoryOperation {
        // SAFETY: the caller's promise: every kind of operation begins with its number.
        let operation = unsafe { raw.operation };
        let word = || {
            // SAFETY: the number says that it is a word's, and all of it was written.
            let word = unsafe { raw.writeValue };
            // SAFETY: as above.
            let value = unsafe { word.__bindgen_anon_1.value64 };
            (word.address, value, word.flags)
        };
        match operation {
            CU_STREAM_MEM_OP_WRITE_VALUE_32 => {
                let (address, value, _) = word();
                MemoryOperation::Write32 { address, value: value as u32 }
            }
            CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
                let (address, value, _) = word();
                MemoryOperation::Write64 { address, value }
            }
            CU_STREAM_MEM_OP_WAIT_VALUE_32 => {
                let (address, value, flags) = word();
                MemoryOperation::Wait32 { address, until: wait_for(value as u32, flags) }
            }
            CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
                let (address, value, flags) = word();
                MemoryOperation::Wait64 { address, until: wait_for(value, flags) }
            }
            CU_STREAM_MEM_OP_BARRIER => MemoryOperation::Barrier,
            other => MemoryOperation::Other(other.0),
        }
    }
}

fn wait_for<W: Copy>(value: W, flags: u32) -> Option<WaitFor<W>> {
    let all = [WaitFor::AtLeast, WaitFor::Equal, WaitFor::AnyBit, WaitFor::NoBit];
    all.into_iter().map(|make| make(value)).find(|until| until.parts().1 == flags)
}

#[cold]
fn refused(what: &'static str, problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}

impl fmt::Debug for BatchNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchNode")
            .field("operations", &self.operations.len())
            .finish_non_exhaustive()
    }
}
