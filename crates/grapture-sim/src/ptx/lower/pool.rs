//! The constants of a module, each held once.

use std::collections::HashMap;

use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::Pooled;

/// The constants of a module.
#[derive(Debug, Default)]
pub(super) struct Pool {
    narrow: Half,
    wide: Half,
}

#[derive(Debug, Default)]
struct Half {
    values: Vec<Pooled>,
    places: HashMap<Pooled, usize>,
}

impl Half {
    fn intern(&mut self, wide: bool, value: Pooled) -> Reg {
        let next = self.values.len();
        let place = *self.places.entry(value).or_insert(next);
        if place == next {
            self.values.push(value);
        }
        Reg::constant(wide, place)
    }
}

impl Pool {
    /// A constant of 64 bits, or of at most 32.
    pub fn intern(&mut self, wide: bool, value: Pooled) -> Reg {
        let half = if wide { &mut self.wide } else { &mut self.narrow };
        half.intern(wide, value)
    }

    /// The 32-bit constants and the 64-bit ones.
    pub fn into_parts(self) -> (Vec<Pooled>, Vec<Pooled>) {
        (self.narrow.values, self.wide.values)
    }
}
