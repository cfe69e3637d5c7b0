//! Copies.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_ILLEGAL_ADDRESS, CUmemorytype};

use crate::fault::Fault;
use crate::graph::Graphs;
use crate::memory::AllocationKind;
use crate::memory::accesses::{AccessKind, Accesses};
use crate::sim::Sim;

/// The most bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// What an executable's copy may not change at an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Any memory but that of the other two.
    #[default]
    Plain,
    /// Of a pool.
    Pool,
    /// Of an allocation node.
    Graph,
}

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
    /// Where the memory of a node came from when its parameters were given.
    pub(crate) origin: Origin,
}

impl Origin {
    /// Where the memory at an address came from.
    pub(crate) fn of(sim: &Sim, graphs: &Graphs, address: u64) -> Origin {
        if graphs.plans(address, 1) {
            return Origin::Graph;
        }
        match sim.memory.find(address) {
            Some(found) if found.kind == AllocationKind::Pooled => Origin::Pool,
            _ => Origin::Plain,
        }
    }
}

impl Place {
    /// A plain address.
    pub(crate) fn linear(kind: CUmemorytype, address: u64) -> Place {
        Place { kind, address, x: 0, y: 0, z: 0, pitch: 0, rows: 0, origin: Origin::Plain }
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

    /// The same, where the rows of an end without a pitch lie one behind the other.
    pub(crate) fn tight(mut self) -> CopyWork {
        for end in [&mut self.source, &mut self.target] {
            if end.pitch == 0 && self.height.max(self.depth) > 1 {
                end.pitch = self.width;
            }
        }
        self
    }

    /// Notes where the memory at both ends came from.
    pub(crate) fn note_origins(&mut self, sim: &Sim, graphs: &Graphs) {
        for end in [&mut self.source, &mut self.target] {
            end.origin = Origin::of(sim, graphs, end.address);
        }
    }

    /// Whether an end of it is memory of the program that no device reaches.
    pub(crate) fn is_pageable(&self, sim: &Sim) -> bool {
        [&self.source, &self.target].iter().any(|place| sim.memory.is_pageable(place.address))
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> usize {
        self.width.saturating_mul(self.height).saturating_mul(self.depth)
    }

    /// The address of the first byte of a row of an end; nothing on overflow. Without a pitch, rows
    /// follow each other, and without a height, slices do.
    pub(crate) fn row(&self, place: &Place, y: usize, z: usize) -> Option<u64> {
        let or = |given: usize, other: usize| if given == 0 { other } else { given };
        let pitch = or(place.pitch, place.x.checked_add(self.width)?);
        let height = or(place.rows, place.y.checked_add(self.height)?);
        let rows = place.z.checked_add(z)?.checked_mul(height)?;
        let rows = rows.checked_add(place.y.checked_add(y)?)?;
        let offset = rows.checked_mul(pitch)?.checked_add(place.x)?;
        place.address.checked_add(offset as u64)
    }

    /// The rows, as pairs of addresses.
    fn rows(&self) -> impl Iterator<Item = Option<(u64, u64)>> + '_ {
        (0..self.depth).flat_map(move |z| {
            (0..self.height)
                .map(move |y| Some((self.row(&self.source, y, z)?, self.row(&self.target, y, z)?)))
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
