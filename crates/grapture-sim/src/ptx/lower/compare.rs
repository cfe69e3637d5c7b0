//! Comparisons, of numbers and of packed halves.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, Comparison, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{NO_REG, Op};
use crate::ptx::types::Type;

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles `setp`.
    pub(super) fn setp(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let packed = self.halves(modifiers);
        let comparison = self.comparison(modifiers, packed)?;
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let (d, q) = match first {
            Operand::Pair(p, q) => {
                let d = if *p == "_" { self.fresh(Type::Pred) } else { self.predicate(p)? };
                (d, if *q == "_" { NO_REG } else { self.predicate(q)? })
            }
            _ => (self.predicate_destination(first)?, NO_REG),
        };
        match packed {
            // The second predicate is that of the upper halves.
            Some(ty) => self.compare_halves(comparison, ty, [d, q], rest),
            None => self.compare(comparison, d, q, rest),
        }
    }

    /// Compiles `set`.
    pub(super) fn set(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let ty = self.ty(modifiers)?;
        let packed = self.halves(modifiers);
        let comparison = self.comparison(modifiers, packed)?;
        let part = if packed.is_some() { half_of(ty) } else { Some(ty) };
        let Some((part, one)) = part.and_then(|part| Some((part, truth(part)?))) else {
            return Err(self.error(format!("type '.{}' is not allowed here", ty.name())));
        };
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let d = self.destination(first, ty)?;
        let (a, b) = (self.bits(one, part), self.bits(0, part));
        let p = self.fresh(Type::Pred);
        let Some(halves) = packed else {
            self.compare(comparison, p, NO_REG, rest)?;
            self.emit(Op::Select { wide: false, d, a, b, p, negated: false });
            return Ok(());
        };
        let q = self.fresh(Type::Pred);
        self.compare_halves(comparison, halves, [p, q], rest)?;
        let (low, high) = (self.fresh(part), self.fresh(part));
        self.emit(Op::Select { wide: false, d: low, a, b, p, negated: false });
        self.emit(Op::Select { wide: false, d: high, a, b, p: q, negated: false });
        self.join(&[low, high], Type::B16, d)
    }

    /// The type of a packed comparison's halves.
    fn halves(&self, modifiers: &mut Modifiers<'_>) -> Option<Type> {
        if modifiers.flag("f16x2") {
            return Some(Type::F16);
        }
        modifiers.flag("bf16x2").then_some(Type::Bf16)
    }

    /// The comparison that a name means; `ty` is its type where that is not in the name any more.
    fn comparison(&self, modifiers: &mut Modifiers<'_>, ty: Option<Type>) -> Result<Comparison> {
        alu::select_comparison(modifiers, ty).map_err(|message| self.error(message))
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        d: Reg,
        q: Reg,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let [a, b, rest @ ..] = operands else { return self.count(operands, 2) };
        let (a, b) = (self.source(a, comparison.ty)?, self.source(b, comparison.ty)?);
        self.compare_registers(comparison, [d, q], [a, b], rest)
    }

    fn compare_halves(
        &mut self,
        comparison: Comparison,
        ty: Type,
        results: [Reg; 2],
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let [a, b, rest @ ..] = operands else { return self.count(operands, 2) };
        let (a, b) = (self.source(a, Type::B32)?, self.source(b, Type::B32)?);
        for (result, upper) in results.into_iter().zip([false, true]) {
            let (x, y) = (self.fresh(ty), self.fresh(ty));
            self.take(x, a, Type::B16, upper)?;
            self.take(y, b, Type::B16, upper)?;
            if result != NO_REG {
                self.compare_registers(comparison, [result, NO_REG], [x, y], rest)?;
            }
        }
        Ok(())
    }

    fn compare_registers(
        &mut self,
        comparison: Comparison,
        [d, q]: [Reg; 2],
        [a, b]: [Reg; 2],
        rest: &[Operand<'a>],
    ) -> Result<()> {
        let f = comparison.function;
        match (comparison.combine, rest) {
            (Some(combine), [c]) => {
                let (c, negated) = self.predicate_operand(c)?;
                self.emit(Op::CompareWith { f, d, q, a, b, c, negated, combine });
                Ok(())
            }
            (None, []) => {
                self.emit(Op::Compare { f, d, q, a, b });
                Ok(())
            }
            _ => Err(self.error("wrong number of operands")),
        }
    }
}

/// What `set` writes where the comparison holds: one, or all bits.
fn truth(ty: Type) -> Option<u64> {
    Some(match ty {
        Type::U32 | Type::S32 | Type::B32 => u64::from(u32::MAX),
        Type::U16 | Type::S16 => u64::from(u16::MAX),
        Type::F32 => u64::from(1.0_f32.to_bits()),
        Type::F16 => 0x3c00,
        Type::Bf16 => 0x3f80,
        _ => return None,
    })
}

/// The type of half a result.
fn half_of(ty: Type) -> Option<Type> {
    Some(match ty {
        Type::U32 | Type::S32 => Type::U16,
        Type::F16x2 => Type::F16,
        Type::Bf16x2 => Type::Bf16,
        _ => return None,
    })
}
