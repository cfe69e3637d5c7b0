//! Operands to registers.

use super::function::{FunctionLowering, Symbol};
use crate::ptx::alu;
use crate::ptx::ast::{AddressBase, Constant, Operand};
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::exec::special::Special;
use crate::ptx::ir::{Address, Base, FUNCTION_BASE, NO_REG, Op, Pooled};
use crate::ptx::types::{Class, Space, Type};

impl<'a> FunctionLowering<'_, 'a> {
    /// A register by name.
    pub(super) fn register(&self, name: &str) -> Result<(Reg, Type)> {
        match self.lookup(name) {
            Some(Symbol::Register(reg, ty)) => Ok((reg, ty)),
            Some(_) => Err(self.error(format!("'{name}' is not a register"))),
            None => Err(self.error(format!("unknown register '{name}'"))),
        }
    }

    /// A predicate register by name.
    pub(super) fn predicate(&self, name: &str) -> Result<Reg> {
        match self.register(name)? {
            (reg, Type::Pred) => Ok(reg),
            _ => Err(self.error(format!("'{name}' is not a predicate"))),
        }
    }

    /// A predicate operand and whether it is negated; constants become predicates too.
    pub(super) fn predicate_operand(&mut self, operand: &Operand<'a>) -> Result<(Reg, bool)> {
        match operand {
            Operand::Name(name) => Ok((self.predicate(name)?, false)),
            Operand::Not(name) => Ok((self.predicate(name)?, true)),
            Operand::Constant(Constant::Integer(value)) => {
                let d = self.fresh(Type::Pred);
                let op = if *value != 0 {
                    crate::ptx::ir::PredOp::True
                } else {
                    crate::ptx::ir::PredOp::False
                };
                let guard = std::mem::replace(&mut self.guard, crate::ptx::ir::Guard::ALWAYS);
                self.emit(Op::Pred { op, d, a: NO_REG, b: NO_REG });
                self.guard = guard;
                Ok((d, false))
            }
            _ => Err(self.error("expected a predicate")),
        }
    }

    fn mismatch(&self, name: &str, have: Type, want: Type) -> crate::ptx::error::CompileError {
        self.error(format!("'{name}' has type '.{}', '.{}' is needed", have.name(), want.name()))
    }

    /// The register that an instruction writes.
    pub(super) fn destination(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        match operand {
            Operand::Sink => Ok(self.fresh(ty)),
            Operand::Name(name) => {
                let (reg, have) = self.register(name)?;
                if have.fits(ty) { Ok(reg) } else { Err(self.mismatch(name, have, ty)) }
            }
            _ => Err(self.error("expected a register to write to")),
        }
    }

    /// The predicate that an instruction writes.
    pub(super) fn predicate_destination(&mut self, operand: &Operand<'a>) -> Result<Reg> {
        self.destination(operand, Type::Pred)
    }

    /// The register or constant that an instruction reads.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        match operand {
            Operand::Name(name) => {
                if let Some(Symbol::Register(reg, have)) = self.lookup(name) {
                    return if have.fits(ty) {
                        Ok(reg)
                    } else {
                        Err(self.mismatch(name, have, ty))
                    };
                }
                if name.starts_with('%') {
                    return self.special(name, ty);
                }
                self.symbol_address(name, 0, ty)
            }
            Operand::Constant(Constant::Symbol { name, addend, generic: false }) => {
                self.symbol_address(name, *addend, ty)
            }
            Operand::Constant(constant) => self.constant(*constant, ty),
            _ => Err(self.error("expected a register or a constant")),
        }
    }

    fn special(&mut self, name: &str, ty: Type) -> Result<Reg> {
        let Some(what) = Special::parse(name) else {
            return Err(self.error(format!("unknown register '{name}'")));
        };
        let wide = ty.is_wide();
        if ty.bytes() < 2 || (!wide && what.is_wide()) {
            return Err(self.error(format!("'{name}' does not fit '.{}'", ty.name())));
        }
        let d = self.fresh(if wide { ty } else { Type::U32 });
        self.emit(Op::Special { what, wide, d });
        if ty.bytes() > 2 {
            return Ok(d);
        }
        // The lower half.
        let half = self.fresh(ty);
        if let Some(f) = alu::part(2, false) {
            self.emit(Op::Alu1 { f, d: half, a: d });
        }
        Ok(half)
    }

    /// A constant of the given type.
    pub(super) fn constant(&mut self, constant: Constant<'_>, ty: Type) -> Result<Reg> {
        let float = ty.class() == Class::Float;
        let bits = match (constant, ty) {
            (Constant::Integer(_), _) if float => {
                return Err(self.error("an integer where a float is needed"));
            }
            (Constant::Integer(value), _) => value,
            (Constant::Single(bits), Type::F32 | Type::B32) => u64::from(bits),
            // The bits are taken as they are.
            (Constant::Single(bits), Type::F64) => u64::from(bits),
            (Constant::Double(value), Type::F32) => u64::from((value as f32).to_bits()),
            (Constant::Double(value), Type::F64 | Type::B64) => value.to_bits(),
            _ => return Err(self.error(format!("the constant does not fit '.{}'", ty.name()))),
        };
        Ok(self.bits(bits, ty))
    }

    /// A constant of the given bits.
    pub(super) fn bits(&mut self, bits: u64, ty: Type) -> Reg {
        let kept = match ty.bytes() {
            1 => bits & 0xff,
            2 => bits & 0xffff,
            4 => bits & 0xffff_ffff,
            _ => bits,
        };
        self.module.pool.intern(ty.is_wide(), Pooled::Bits(kept))
    }

    /// The address of a variable or function as a value.
    fn symbol_address(&mut self, name: &str, addend: i64, ty: Type) -> Result<Reg> {
        let wide = ty.is_wide();
        if ty.bytes() < 4 || ty.class() == Class::Float {
            return Err(self.error(format!("an address does not fit '.{}'", ty.name())));
        }
        let wide_only = || if wide { Ok(()) } else { Err(self.error("an address needs 64 bits")) };
        let pooled = match self.lookup(name) {
            Some(Symbol::Shared(index)) => {
                self.shared.push(index);
                Pooled::Shared(index, addend)
            }
            Some(Symbol::Global(index)) => {
                wide_only()?;
                Pooled::Global(index, addend)
            }
            Some(Symbol::Function(index)) => {
                wide_only()?;
                self.calls.push(index);
                Pooled::Bits((FUNCTION_BASE + 16 * u64::from(index)).wrapping_add(addend as u64))
            }
            Some(Symbol::EntryParam(offset)) => Pooled::Bits((i64::from(offset) + addend) as u64),
            Some(Symbol::Frame { offset, .. }) => {
                let d = self.fresh(ty);
                self.emit(Op::FrameAddress {
                    d,
                    offset: (i64::from(offset) + addend) as u32,
                    wide,
                });
                return Ok(d);
            }
            Some(Symbol::Register(..)) => return Err(self.error(format!("'{name}' is a register"))),
            None => return Err(self.error(format!("unknown symbol '{name}'"))),
        };
        Ok(self.module.pool.intern(wide, pooled))
    }

    /// An address operand, and the space that it is in when the instruction names `space`.
    pub(super) fn address(
        &mut self,
        operand: &Operand<'a>,
        space: Space,
    ) -> Result<(Address, Space)> {
        let Operand::Address(base, offset) = operand else {
            return Err(self.error("expected an address in brackets"));
        };
        // Parameters of functions other than kernels lie in the frame.
        let in_frame = space == Space::Param && !self.function.entry;
        let name = match base {
            AddressBase::Absolute => {
                return Ok((Address { base: Base::Absolute, offset: *offset }, space));
            }
            AddressBase::Name(name) => name,
        };
        match self.lookup(name) {
            Some(Symbol::Register(reg, ty)) => {
                let base = match ty.bytes() {
                    8 => Base::Wide(reg),
                    4 => Base::Narrow(reg),
                    _ => return Err(self.error(format!("'{name}' cannot hold an address"))),
                };
                Ok((Address { base, offset: *offset }, if in_frame { Space::Local } else { space }))
            }
            Some(Symbol::EntryParam(start)) if space == Space::Param => Ok((
                Address { base: Base::Absolute, offset: offset.wrapping_add(i64::from(start)) },
                space,
            )),
            Some(Symbol::Frame { offset: start, .. })
                if matches!(space, Space::Local | Space::Param) =>
            {
                Ok((
                    Address { base: Base::Frame, offset: offset.wrapping_add(i64::from(start)) },
                    Space::Local,
                ))
            }
            Some(Symbol::Shared(index)) if space == Space::Shared => {
                self.shared.push(index);
                let reg = self.module.pool.intern(true, Pooled::Shared(index, 0));
                Ok((Address { base: Base::Wide(reg), offset: *offset }, space))
            }
            Some(Symbol::Global(index))
                if matches!(space, Space::Global | Space::Const | Space::Generic) =>
            {
                let reg = self.module.pool.intern(true, Pooled::Global(index, 0));
                Ok((Address { base: Base::Wide(reg), offset: *offset }, space))
            }
            Some(_) => Err(self.error(format!("'{name}' is not in this state space"))),
            None => Err(self.error(format!("unknown symbol '{name}'"))),
        }
    }
}
