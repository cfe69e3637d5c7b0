//! [`Params`]: what the driver is given of a node with slots; [`Arguments`]: those of all kernels.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use grapture_sys::{
    CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdeviceptr,
};

use crate::dim3::Dim3;
use crate::slot::{KernelWork, Target, Work};

/// The parameters of a node as they are now.
pub(super) enum Params {
    /// The arguments are those of the table.
    Kernel(CUDA_KERNEL_NODE_PARAMS_v2),
    // In a box, since they are large, and few.
    Copy(Box<CUDA_MEMCPY3D>, CUcontext),
    Fill(CUDA_MEMSET_NODE_PARAMS, CUcontext),
}

/// Where a slot is written.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The word among the arguments from which on the argument is.
    Argument(usize),
    Grid,
    Block,
    CopyTo,
    CopyFrom,
    Fill,
}

impl Params {
    /// Those of a kernel have no arguments yet.
    pub(super) fn of(work: &Work) -> Params {
        let work = match work {
            Work::Kernel(work) => work,
            Work::Copy(params, context) => {
                return Params::Copy(Box::new(*params), context.as_raw());
            }
            Work::Fill(params, context) => return Params::Fill(*params, context.as_raw()),
        };
        Params::Kernel(CUDA_KERNEL_NODE_PARAMS_v2 {
            func: work.kernel.raw(),
            gridDimX: work.grid.x,
            gridDimY: work.grid.y,
            gridDimZ: work.grid.z,
            blockDimX: work.block.x,
            blockDimY: work.block.y,
            blockDimZ: work.block.z,
            sharedMemBytes: work.shared_bytes as u32,
            kernelParams: ptr::null_mut(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: work.kernel.context().as_raw(),
        })
    }

    pub(super) fn set_dimensions(&mut self, place: Place, bytes: &[u8]) {
        let Params::Kernel(params) = self else { return };
        let Ok(Dim3 { x, y, z }) = bytemuck::try_pod_read_unaligned(bytes) else { return };
        match place {
            Place::Grid => (params.gridDimX, params.gridDimY, params.gridDimZ) = (x, y, z),
            Place::Block => (params.blockDimX, params.blockDimY, params.blockDimZ) = (x, y, z),
            // Nothing else has dimensions.
            _ => {}
        }
    }

    pub(super) fn set_address(&mut self, place: Place, address: CUdeviceptr) {
        match (self, place) {
            (Params::Copy(params, _), Place::CopyTo) => params.dstDevice = address,
            (Params::Copy(params, _), Place::CopyFrom) => params.srcDevice = address,
            (Params::Fill(params, _), Place::Fill) => params.dst = address,
            // What a place takes is what its slot is of.
            _ => {}
        }
    }
}

/// The arguments of kernels, where the driver finds them: for each kernel the addresses of its
/// arguments, then these, and the next kernel's after them, since they are read in that order.
///
/// By a pointer, since others point there: a box would have what it owns for itself.
pub(super) struct Arguments {
    words: NonNull<[u64]>,
}

impl Default for Arguments {
    fn default() -> Arguments {
        Arguments::of(0)
    }
}

impl Arguments {
    fn of(words: usize) -> Arguments {
        Arguments { words: NonNull::from(Box::leak(vec![0; words].into_boxed_slice())) }
    }

    /// Room for those of these kernels.
    pub(super) fn for_all<'a>(works: impl Iterator<Item = &'a Work>) -> Arguments {
        let words = works.map(|work| match work {
            Work::Kernel(work) => work.starts.len() + work.arguments.len(),
            Work::Copy(..) | Work::Fill(..) => 0,
        });
        Arguments::of(words.sum())
    }

    fn at(&self, word: usize) -> *mut u64 {
        self.words.cast::<u64>().as_ptr().wrapping_add(word)
    }

    /// Puts those of a kernel at a word, and says where the driver finds them, and where the next
    /// kernel's come. None: there is no room.
    pub(super) fn place(
        &mut self,
        at: usize,
        work: &KernelWork,
    ) -> Option<(*mut *mut c_void, usize)> {
        let (first, end) = (at + work.starts.len(), at + work.starts.len() + work.arguments.len());
        if end > self.words.len() {
            return None;
        }
        for (index, start) in work.starts.iter().enumerate() {
            let argument: *mut c_void = self.at(first + start).cast();
            // SAFETY: within the words, see above; a pointer is as large as a word.
            unsafe { self.at(at + index).cast::<*mut c_void>().write(argument) };
        }
        for (index, word) in work.arguments.iter().enumerate() {
            // SAFETY: within the words, see above.
            unsafe { self.at(first + index).write(*word) };
        }
        Some((if work.starts.is_empty() { ptr::null_mut() } else { self.at(at).cast() }, end))
    }

    /// Writes an argument.
    #[inline]
    pub(super) fn write(&mut self, word: usize, bytes: &[u8]) {
        if word * size_of::<u64>() + bytes.len() > self.words.len() * size_of::<u64>() {
            return;
        }
        let argument = self.at(word).cast::<u8>();
        // The usual lengths take one store.
        if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
            // SAFETY: within the words, see above, and an argument that was made of as many bytes,
            // since a slot has one type. No driver call reads them now.
            unsafe { argument.cast::<[u8; 4]>().write(bytes) };
        } else if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
            // SAFETY: as above.
            unsafe { argument.cast::<[u8; 8]>().write(bytes) };
        } else {
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), argument, bytes.len()) };
        }
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        // SAFETY: a box was made to this in `of`.
        drop(unsafe { Box::from_raw(self.words.as_ptr()) });
    }
}

impl Place {
    /// That of a target of a node whose arguments begin at this word.
    pub(super) fn of(target: Target, work: &Work, at: usize) -> Option<Place> {
        Some(match target {
            Target::Argument(index) => {
                let Work::Kernel(work) = work else { return None };
                Place::Argument(at + work.starts.len() + work.starts.get(index)?)
            }
            Target::Grid => Place::Grid,
            Target::Block => Place::Block,
            Target::CopyTo => Place::CopyTo,
            Target::CopyFrom => Place::CopyFrom,
            Target::Fill => Place::Fill,
        })
    }
}
