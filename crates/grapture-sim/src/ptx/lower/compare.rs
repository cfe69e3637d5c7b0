//! Comparisons, tests and selections.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, AluFn, BoolOp, Compare, Comparison, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{NO_REG, Op, PredOp};
use crate::ptx::types::Type;

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn comparison(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        match opcode {
            "setp" => self.setp(modifiers, operands)?,
            "set" => self.set(modifiers, operands)?,
            "testp" => self.testp(modifiers, operands)?,
            "selp" => self.selp(modifiers, operands)?,
            "slct" => self.slct(modifiers, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn select_comparison(&self, modifiers: &mut Modifiers<'_>) -> Result<Comparison> {
        alu::select_comparison(modifiers).map_err(|message| self.error(message))
    }

    /// Compares with one function into `d` and its complement into `q`.
    fn compare(
        &mut self,
        f: Compare,
        comparison: &Comparison,
        [d, q]: [Reg; 2],
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.count(operands, if comparison.combine.is_some() { 3 } else { 2 })?;
        let [a, b, rest @ ..] = operands else { return self.count(operands, 2) };
        let (a, b) = (self.source(a, comparison.ty)?, self.source(b, comparison.ty)?);
        if let (Some(combine), Some(c)) = (comparison.combine, rest.first()) {
            let (c, negated) = self.predicate_operand(c)?;
            self.emit(Op::CompareWith { f, d, q, a, b, c, negated, combine });
        } else {
            self.emit(Op::Compare { f, d, q, a, b });
        }
        Ok(())
    }

    fn setp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let comparison = self.select_comparison(modifiers)?;
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let (d, q) = match first {
            Operand::Pair(p, q) => {
                let d = if *p == "_" { self.fresh(Type::Pred) } else { self.predicate(p)? };
                (d, if *q == "_" { NO_REG } else { self.predicate(q)? })
            }
            _ => (self.predicate_destination(first)?, NO_REG),
        };
        let Some(upper) = comparison.upper else {
            if q != NO_REG && matches!(comparison.ty, Type::F16 | Type::Bf16) {
                return Err(self.error("a second predicate is not allowed here"));
            }
            return self.compare(comparison.function, &comparison, [d, q], rest);
        };
        // The predicates are those of the two numbers. An operand may be one of the results.
        let first = self.fresh(Type::Pred);
        self.compare(comparison.function, &comparison, [first, NO_REG], rest)?;
        if q != NO_REG {
            self.compare(upper, &comparison, [q, NO_REG], rest)?;
        }
        self.emit(Op::Pred { op: PredOp::Move, d, a: first, b: first });
        Ok(())
    }

    /// What `set` writes where the comparison holds.
    fn one(&self, result: Type, ty: Type) -> Result<u64> {
        let half = matches!(ty, Type::F16 | Type::Bf16);
        let two = matches!(ty, Type::F16x2 | Type::Bf16x2);
        Ok(match result {
            Type::U32 | Type::S32 if two => 0xffff,
            Type::U32 | Type::S32 => 0xffff_ffff,
            Type::U16 | Type::S16 if half => 0xffff,
            Type::F32 if !half && !two => u64::from(1.0_f32.to_bits()),
            Type::F16 if !two && ty != Type::Bf16 => 0x3c00,
            Type::Bf16 if !two => 0x3f80,
            Type::F16x2 if ty == result => 0x3c00,
            Type::Bf16x2 if ty == result => 0x3f80,
            _ => {
                let (result, ty) = (result.name(), ty.name());
                return Err(self.error(format!("no comparison of '.{ty}' gives '.{result}'")));
            }
        })
    }

    fn set(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.ty(modifiers)?;
        let flushes = modifiers.contains("ftz");
        let comparison = self.select_comparison(modifiers)?;
        let one = self.one(ty, comparison.ty)?;
        if flushes && ty == Type::Bf16 {
            return Err(self.error("'.ftz' is not allowed here"));
        }
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let d = self.destination(first, ty)?;
        let Some(upper) = comparison.upper else {
            let one = self.bits(one, ty);
            return self.flag(comparison.function, &comparison, [d, one], rest);
        };
        let (low, high) = (self.fresh(ty), self.fresh(ty));
        let [in_low, in_high] = [one, one << 16].map(|bits| self.bits(bits, ty));
        self.flag(comparison.function, &comparison, [low, in_low], rest)?;
        self.flag(upper, &comparison, [high, in_high], rest)?;
        self.emit(Op::Alu2 { f: alu::or32(), d, a: low, b: high });
        Ok(())
    }

    /// `one` where the comparison holds, elsewhere zero.
    fn flag(
        &mut self,
        f: Compare,
        comparison: &Comparison,
        [d, one]: [Reg; 2],
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let p = self.fresh(Type::Pred);
        self.compare(f, comparison, [p, NO_REG], operands)?;
        let zero = self.bits(0, Type::B32);
        self.emit(Op::Select { wide: false, d, a: one, b: zero, p, negated: false });
        Ok(())
    }

    fn testp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let (f, ty) = alu::select_test(modifiers).map_err(|message| self.error(message))?;
        let [d, a] = operands else { return self.count(operands, 2) };
        let (d, a) = (self.predicate_destination(d)?, self.source(a, ty)?);
        self.emit(Op::Test { f, d, a });
        Ok(())
    }

    /// `lop3` that also tells whether its result is not zero, combined with a predicate; `false` when the
    /// instruction is none.
    pub(super) fn lop3_test(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        let combine = match (opcode, modifiers.one_of(&["and", "or"])) {
            ("lop3", Some("and")) => BoolOp::And,
            ("lop3", Some(_)) => BoolOp::Or,
            _ => return Ok(false),
        };
        let [Operand::Pair(d, p), inputs @ .., c] = operands else {
            return Err(
                self.error("a register, a predicate, three operands, a table and a predicate")
            );
        };
        let d = match *d {
            "_" => self.fresh(Type::B32),
            name => self.destination(&Operand::Name(name), Type::B32)?,
        };
        let (c, negated) = self.predicate_operand(c)?;
        let Some(Ok(lop3)) = alu::select("lop3", modifiers) else {
            return Err(self.error("type '.b32' is needed"));
        };
        self.count(inputs, lop3.sources.len())?;
        let mut sources = Vec::new();
        for (operand, ty) in inputs.iter().zip(&lop3.sources) {
            sources.push(self.source(operand, *ty)?);
        }
        if let (AluFn::Four(f), [a, b, c, e]) = (lop3.function, sources.as_slice()) {
            self.emit(Op::Alu4 { f, d, a: *a, b: *b, c: *c, e: *e });
        }
        let differs = self.select_comparison(&mut Modifiers::new(&["ne", "b32"]))?;
        let (f, b, p) = (differs.function, self.bits(0, Type::B32), self.predicate(p)?);
        self.emit(Op::CompareWith { f, d: p, q: NO_REG, a: d, b, c, negated, combine });
        Ok(true)
    }

    /// The type of what is selected.
    fn selected(&self, modifiers: &mut Modifiers<'_>) -> Result<Type> {
        match self.ty(modifiers)? {
            ty if ty.is_plain() => Ok(ty),
            ty => Err(self.error(format!("type '.{}' is not allowed here", ty.name()))),
        }
    }

    fn selp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.selected(modifiers)?;
        let [d, a, b, p] = operands else { return self.count(operands, 4) };
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let (p, negated) = self.predicate_operand(p)?;
        let d = self.destination(d, ty)?;
        self.emit(Op::Select { wide: ty.is_wide(), d, a, b, p, negated });
        Ok(())
    }

    fn slct(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let flush = modifiers.flag("ftz");
        let (ty, of) = (self.selected(modifiers)?, self.ty(modifiers)?);
        let words: &[&str] = match (of, flush) {
            (Type::S32, false) => &["ge", "s32"],
            (Type::F32, false) => &["ge", "f32"],
            (Type::F32, true) => &["ge", "ftz", "f32"],
            _ => return Err(self.error(format!("type '.{}' is not allowed here", of.name()))),
        };
        let comparison = self.select_comparison(&mut Modifiers::new(words))?;
        let [d, a, b, c] = operands else { return self.count(operands, 4) };
        let (a, b, c) = (self.source(a, ty)?, self.source(b, ty)?, self.source(c, of)?);
        let d = self.destination(d, ty)?;
        let p = self.fresh(Type::Pred);
        let zero = self.bits(0, of);
        self.emit(Op::Compare { f: comparison.function, d: p, q: NO_REG, a: c, b: zero });
        self.emit(Op::Select { wide: ty.is_wide(), d, a, b, p, negated: false });
        Ok(())
    }
}
