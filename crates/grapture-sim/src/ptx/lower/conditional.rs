//! `cudaGraphSetConditional`: what a kernel calls to steer a conditional node.
//!
//! The values of the conditional handles of a launch lie in a window of the address space of their
//! own, so that the call is a store.

use super::function::FunctionLowering;
use crate::ptx::alu;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{Address, Base, CONDITIONAL_BASE, Element, Op, Slice};
use crate::ptx::types::{Space, Type};

/// The name that compilers declare it by.
pub(super) const SET_CONDITIONAL: &str = "cudaGraphSetConditional";

impl FunctionLowering<'_, '_> {
    /// Compiles the call, whose arguments are a handle and a value.
    pub(super) fn set_conditional(&mut self, arguments: &[Slice]) -> Result<()> {
        let [Slice { offset: handle, bytes: 8 }, Slice { offset: value, bytes: 4 }] = *arguments
        else {
            return Err(self.error(format!("'{SET_CONDITIONAL}' takes a .b64 and a .b32")));
        };
        let (wide, narrow) = (unsigned(8), unsigned(4));
        let argument = |offset: u32| Address { base: Base::Frame, offset: i64::from(offset) };
        let (number, word) = (self.fresh(Type::U64), self.fresh(Type::U32));
        let space = Space::Local;
        self.emit(Op::Load { space, element: wide, d: number, address: argument(handle) });
        self.emit(Op::Load { space, element: narrow, d: word, address: argument(value) });
        let twice = self.double(number);
        let base = Base::Wide(self.double(twice));
        let address = Address { base, offset: CONDITIONAL_BASE as i64 };
        self.emit(Op::Store { space: Space::Global, element: narrow, a: word, address });
        Ok(())
    }

    fn double(&mut self, a: Reg) -> Reg {
        let d = self.fresh(Type::U64);
        self.emit(Op::Alu2 { f: alu::add64(), d, a, b: a });
        d
    }
}

fn unsigned(bytes: u8) -> Element {
    // Several threads may set one handle: that is no race.
    Element { bytes, signed: false, width: 8 * bytes, strong: true }
}
