//! Nodes from what a file holds.

use std::ptr;

use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
};

use crate::error::{CudaError, CudaResult};
use crate::graph::save::format::{
    MemoryKind, Place, SavedArgument, SavedCopy, SavedFill, SavedKernel, SavedWord, refused, unhex,
};
use crate::graph::save::read::{Allocated, Loader};
use crate::graph::{BatchNode, CopyNode, FillNode, Graph, NodeId};
use crate::launch::{LaunchBuilder, MemorySyncDomain};
use crate::memory::RawSlice;
use crate::retain::Owners;

/// The size of an address in bytes.
const WORD: usize = size_of::<u64>();

impl Loader<'_> {
    /// # Safety
    ///
    /// That of [`Graph::load`].
    pub(super) unsafe fn add_kernel(
        &self,
        graph: &mut Graph,
        saved: &SavedKernel,
        after: &[NodeId],
        allocated: &Allocated,
    ) -> CudaResult<NodeId> {
        let module = self.modules.get(saved.module).ok_or_else(|| {
            refused(format!("it names module {}, and there is none", saved.module))
        })?;
        let kernel = module.kernel(&saved.name)?;
        let sizes = kernel.parameter_sizes().ok_or(CudaError::NotSupported)?;
        let mut owners = Owners::default();
        let arguments = saved.arguments.iter();
        let arguments = arguments.map(|one| self.argument(one, &mut owners, allocated));
        let arguments: Vec<Vec<u8>> = arguments.collect::<CudaResult<_>>()?;
        if !arguments.iter().map(Vec::len).eq(sizes.iter().copied()) {
            return Err(refused(format!(
                "`{}` takes arguments of {sizes:?} bytes, and the file has others",
                saved.name
            )));
        }
        owners.wait_until_ready()?;
        let launch = kernel.launch_builder(saved.grid, saved.block);
        let launch = launch.shared_bytes(saved.shared_bytes).cooperative(saved.cooperative);
        let launch = with(launch, saved.priority, LaunchBuilder::priority);
        let launch = with(launch, saved.cluster, LaunchBuilder::cluster);
        let domain = saved.memory_sync_domain.map(MemorySyncDomain::from_number);
        let launch = with(launch, domain, LaunchBuilder::memory_sync_domain);
        let launch = arguments.iter().fold(launch, |launch, bytes| launch.bytes(bytes));
        graph.share_mut().add(owners);
        // SAFETY: the caller's promise. Numbers and sizes of the arguments are checked there, and
        // the graph keeps the memory alive.
        unsafe { graph.add_kernel(launch, after) }
    }

    /// The bytes of an argument, with addresses in the memory that is there now.
    fn argument(
        &self,
        saved: &SavedArgument,
        owners: &mut Owners,
        allocated: &Allocated,
    ) -> CudaResult<Vec<u8>> {
        let mut bytes = unhex(&saved.bytes)
            .ok_or_else(|| refused("the bytes of an argument are not hexadecimal".to_owned()))?;
        for address in &saved.addresses {
            let found = self.place(address.place, 1, allocated)?;
            found.retain(owners, true);
            let end = address.at.checked_add(WORD);
            let word = end.and_then(|end| bytes.get_mut(address.at..end)).ok_or_else(|| {
                refused("an address reaches past the end of its argument".to_owned())
            })?;
            word.copy_from_slice(&found.address.to_le_bytes());
        }
        Ok(bytes)
    }

    pub(super) fn copy(&self, saved: &SavedCopy, allocated: &Allocated) -> CudaResult<CopyNode> {
        let rows = |pitch| rectangle(saved.row_bytes, saved.rows, pitch);
        let source = self.place(saved.from, rows(saved.from_pitch)?, allocated)?;
        let target = self.place(saved.to, rows(saved.to_pitch)?, allocated)?;
        let (from, to) = (source.address, target.address);
        let mut params = CUDA_MEMCPY3D {
            WidthInBytes: saved.row_bytes as usize,
            Height: saved.rows as usize,
            Depth: 1,
            srcPitch: saved.from_pitch as usize,
            dstPitch: saved.to_pitch as usize,
            ..CUDA_MEMCPY3D::default()
        };
        if source.kind() == MemoryKind::Pinned {
            let pointer = ptr::without_provenance(from as usize);
            (params.srcMemoryType, params.srcHost) = (CU_MEMORYTYPE_HOST, pointer);
        } else {
            (params.srcMemoryType, params.srcDevice) = (CU_MEMORYTYPE_DEVICE, from);
        }
        if target.kind() == MemoryKind::Pinned {
            let pointer = ptr::without_provenance_mut(to as usize);
            (params.dstMemoryType, params.dstHost) = (CU_MEMORYTYPE_HOST, pointer);
        } else {
            (params.dstMemoryType, params.dstDevice) = (CU_MEMORYTYPE_DEVICE, to);
        }
        let mut owners = Owners::default();
        source.retain(&mut owners, false);
        target.retain(&mut owners, true);
        let context = self.bindings.context.clone();
        Ok(CopyNode { params, owners, context, slots: None })
    }

    pub(super) fn fill_of(&self, saved: &SavedFill, allocated: &Allocated) -> CudaResult<FillNode> {
        let most = match saved.element_bytes {
            1 => u32::from(u8::MAX),
            2 => u32::from(u16::MAX),
            4 => u32::MAX,
            other => return Err(refused(format!("it fills with elements of {other} bytes"))),
        };
        let row = saved.row_elements.checked_mul(saved.element_bytes);
        let row = row.ok_or_else(|| refused("its rows are too long".to_owned()))?;
        let bytes = rectangle(row, saved.rows, saved.pitch)?;
        let target = self.place(saved.to, bytes, allocated)?;
        let aligned = target.address.is_multiple_of(saved.element_bytes)
            && (saved.rows == 1 || saved.pitch.is_multiple_of(saved.element_bytes));
        if target.kind() != MemoryKind::Device || saved.value > most || !aligned {
            let problem = "it fills memory of the host, or with a value that does not fit, or at a \
                           place that does not";
            return Err(refused(problem.to_owned()));
        }
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst: target.address,
            pitch: saved.pitch as usize,
            value: saved.value,
            elementSize: saved.element_bytes as u32,
            width: saved.row_elements as usize,
            height: saved.rows as usize,
        };
        let mut owners = Owners::default();
        target.retain(&mut owners, true);
        let context = self.bindings.context.clone();
        Ok(FillNode { params, owners, context, slots: None })
    }

    pub(super) fn batch(
        &self,
        saved: &[SavedWord],
        allocated: &Allocated,
    ) -> CudaResult<BatchNode> {
        let mut batch = BatchNode::new(&self.bindings.context);
        let found = |place: &Place, bytes: usize| self.place(*place, bytes as u64, allocated);
        for word in saved {
            batch = match word {
                SavedWord::Barrier => batch.barrier(),
                SavedWord::Write32(word) => {
                    let found = found(&word.to, 4)?;
                    let owner = found.device()?;
                    batch.write_at(RawSlice { address: found.address, bytes: 4, owner }, word.value)
                }
                SavedWord::Write64(word) => {
                    let found = found(&word.to, 8)?;
                    let owner = found.device()?;
                    batch.write_at(RawSlice { address: found.address, bytes: 8, owner }, word.value)
                }
                SavedWord::Wait32(word) => {
                    let found = found(&word.word, 4)?;
                    let owner = found.device()?;
                    let slice = RawSlice { address: found.address, bytes: 4, owner };
                    batch.wait_at(slice, word.until.into())
                }
                SavedWord::Wait64(word) => {
                    let found = found(&word.word, 8)?;
                    let owner = found.device()?;
                    let slice = RawSlice { address: found.address, bytes: 8, owner };
                    batch.wait_at(slice, word.until.into())
                }
            }?;
        }
        Ok(batch)
    }
}

/// How many bytes there are from the first to the last of so many rows.
fn rectangle(row: u64, rows: u64, pitch: u64) -> CudaResult<u64> {
    if row == 0 || rows == 0 || rows > 1 && pitch < row {
        return Err(refused("its rows have no bytes, or lie upon one another".to_owned()));
    }
    let before = (rows - 1).checked_mul(pitch);
    let bytes = before.and_then(|before| before.checked_add(row));
    bytes.ok_or_else(|| refused("its rows reach past the end of any memory".to_owned()))
}

fn with<'a, T>(
    launch: LaunchBuilder<'a>,
    value: Option<T>,
    set: impl FnOnce(LaunchBuilder<'a>, T) -> LaunchBuilder<'a>,
) -> LaunchBuilder<'a> {
    match value {
        Some(value) => set(launch, value),
        None => launch,
    }
}
