//! Fills of device memory.

use std::sync::Arc;

use grapture_sys::CUDA_ERROR_ILLEGAL_ADDRESS;

use crate::fault::Fault;
use crate::memory::accesses::{AccessKind, Accesses};
use crate::sim::Sim;

/// The most elements that are written at once.
const PIECE: usize = 1 << 16;

/// A fill of `height` rows of `width` elements, `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillWork {
    /// The first byte.
    pub(crate) address: u64,
    /// The bytes from row to row; without meaning for one row.
    pub(crate) pitch: usize,
    /// The value, in its low bits.
    pub(crate) value: u32,
    /// The bytes of an element: 1, 2 or 4.
    pub(crate) element: usize,
    /// The elements of a row.
    pub(crate) width: usize,
    /// The rows.
    pub(crate) height: usize,
}

impl FillWork {
    /// The bytes from the first to the last one written; nothing on overflow.
    pub(crate) fn extent(&self) -> Option<usize> {
        let row = self.width.checked_mul(self.element)?;
        let before = self.pitch.checked_mul(self.height.saturating_sub(1))?;
        before.checked_add(row)
    }

    /// Writes it.
    pub(crate) fn run(
        &self,
        sim: &Arc<Sim>,
        mut accesses: Option<&mut Accesses>,
    ) -> Result<(), Fault> {
        let row = self.width * self.element;
        let pattern = self.pattern();
        for y in 0..self.height {
            let start = self.address.wrapping_add((y * self.pitch) as u64);
            if let Some(accesses) = &mut accesses {
                accesses.add(AccessKind::Write, 0, start, row as u64);
            }
            for done in (0..row).step_by(pattern.len().max(1)) {
                let piece = pattern.get(..row - done).unwrap_or(&pattern);
                sim.memory.write(start.wrapping_add(done as u64), piece).map_err(|reason| {
                    Fault::new(CUDA_ERROR_ILLEGAL_ADDRESS, format!("a fill: {reason}"))
                })?;
            }
        }
        Ok(())
    }

    /// The bytes of a row, or of a piece of it.
    fn pattern(&self) -> Vec<u8> {
        let bytes = self.value.to_ne_bytes();
        // INVARIANT: the API functions make elements of 1, 2 or 4 bytes only.
        let element = &bytes[..self.element.min(4)];
        element.repeat(self.width.min(PIECE))
    }
}
