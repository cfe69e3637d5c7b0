//! Copies.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_ILLEGAL_ADDRESS, CUmemorytype};

use crate::fault::Fault;
use crate::memory::accesses::{AccessKind, Accesses};
use crate::sim::Sim;

/// The most bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// One end of a copy, as the program gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Host, device or unified.
    pub(crate) kind: CUmemorytype,
    /// The address before the offsets.
    pub(crate) address: u64,
    /// The offset in a row, in bytes.
    pub(crate) x: usize,
    /// The offset in rows.
    pub(crate) y: usize,
    /// The offset in slices.
    pub(crate) z: usize,
    /// The bytes from row to row.
    pub(crate) pitch: usize,
    /// The rows from slice to slice.
    pub(crate) rows: usize,
}

impl Place {
    /// A plain address.
    pub(crate) fn linear(kind: CUmemorytype, address: u64) -> Place {
        Place { kind, address, x: 0, y: 0, z: 0, pitch: 0, rows: 0 }
    }

    /// The address of the first byte of a row; nothing on overflow.
    pub(crate) fn row(&self, y: usize, z: usize) -> Option<u64> {
        let rows = (self.z + z).checked_mul(self.rows)?.checked_add(self.y + y)?;
        let offset = rows.checked_mul(self.pitch)?.checked_add(self.x)?;
        self.address.checked_add(offset as u64)
    }
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Debug)]
pub(crate) struct CopyWork {
    /// From where.
    pub(crate) source: Place,
    /// To where.
    pub(crate) target: Place,
    /// Bytes of a row.
    pub(crate) width: usize,
    /// Rows of a slice.
    pub(crate) height: usize,
    /// Slices.
    pub(crate) depth: usize,
    /// The bytes of the source, where they were taken at the call (pageable memory).
    pub(crate) staged: Option<Arc<[u8]>>,
}

impl CopyWork {
    /// A copy of neighbouring bytes.
    pub(crate) fn linear(source: Place, target: Place, bytes: usize) -> CopyWork {
        CopyWork { source, target, width: bytes, height: 1, depth: 1, staged: None }
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> usize {
        self.width.saturating_mul(self.height).saturating_mul(self.depth)
    }

    /// The rows, as pairs of addresses.
    fn rows(&self) -> impl Iterator<Item = Option<(u64, u64)>> + '_ {
        (0..self.depth).flat_map(move |z| {
            (0..self.height).map(move |y| Some((self.source.row(y, z)?, self.target.row(y, z)?)))
        })
    }

    /// The bytes that it would read, row after row.
    pub(crate) fn read_source(&self, sim: &Sim) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.bytes()];
        // A width of zero has no rows to read.
        for (row, into) in self.rows().zip(bytes.chunks_exact_mut(self.width.max(1))) {
            let (source, _) = row.ok_or_else(|| fault("its address overflows"))?;
            sim.memory.read_any(source, into).map_err(fault)?;
        }
        Ok(bytes)
    }

    /// Notes the memory that it accesses; staged bytes are nobody's any more.
    fn note(&self, accesses: &mut Accesses) {
        for (source, target) in self.rows().flatten() {
            if self.staged.is_none() {
                accesses.add(AccessKind::Read, 0, source, self.width as u64);
            }
            accesses.add(AccessKind::Write, 0, target, self.width as u64);
        }
    }

    /// Copies.
    pub(crate) fn run(&self, sim: &Arc<Sim>, accesses: Option<&mut Accesses>) -> Result<(), Fault> {
        if let Some(accesses) = accesses {
            self.note(accesses);
        }
        let mut staged = self.staged.as_ref().map(|bytes| bytes.chunks_exact(self.width.max(1)));
        let mut buffer = vec![0; self.width.min(PIECE)];
        for row in self.rows() {
            let (source, target) = row.ok_or_else(|| fault("its address overflows"))?;
            if let Some(bytes) = staged.as_mut().and_then(Iterator::next) {
                sim.memory.write_any(target, bytes).map_err(fault)?;
                continue;
            }
            for done in (0..self.width).step_by(PIECE) {
                let len = (self.width - done).min(PIECE);
                // INVARIANT: the buffer holds a whole row, or a piece of the most there is.
                let piece = &mut buffer[..len];
                sim.memory.read_any(source + done as u64, piece).map_err(fault)?;
                sim.memory.write_any(target + done as u64, piece).map_err(fault)?;
            }
        }
        Ok(())
    }
}

fn fault(reason: impl std::fmt::Display) -> Fault {
    Fault::new(CUDA_ERROR_ILLEGAL_ADDRESS, format!("a copy: {reason}"))
}
