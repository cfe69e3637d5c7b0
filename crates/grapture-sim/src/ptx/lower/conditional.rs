//! `cudaGraphSetConditional`: what a kernel calls to steer a conditional node.
//!
//! The value of a conditional handle is a word of device memory here, and the handle is its
//! address, so that the call is a store.

use super::function::FunctionLowering;
use crate::ptx::error::Result;
use crate::ptx::ir::{Address, Base, Element, Op, Slice};
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
        let (address, word) = (self.fresh(Type::U64), self.fresh(Type::U32));
        let space = Space::Local;
        self.emit(Op::Load { space, element: wide, d: address, address: argument(handle) });
        self.emit(Op::Load { space, element: narrow, d: word, address: argument(value) });
        let target = Address { base: Base::Wide(address), offset: 0 };
        self.emit(Op::Store { space: Space::Global, element: narrow, a: word, address: target });
        Ok(())
    }
}

fn unsigned(bytes: u8) -> Element {
    // Several threads may set one handle: that is no race.
    Element { bytes, signed: false, width: 8 * bytes, strong: true }
}
