//! Moves, selections, comparisons, predicates and address conversions.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, Comparison, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::memory::window;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{NO_REG, Op, PredOp};
use crate::ptx::types::{Space, Type};

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn data(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        let is_pred = modifiers.last_type() == Some(Type::Pred);
        match opcode {
            "mov" => self.mov(modifiers, operands)?,
            "setp" => self.setp(modifiers, operands)?,
            "set" => self.set(modifiers, operands)?,
            "testp" => self.testp(modifiers, operands)?,
            "selp" => self.selp(modifiers, operands)?,
            "slct" => self.slct(modifiers, operands)?,
            "cvta" => self.cvta(modifiers, operands)?,
            "isspacep" => self.isspacep(modifiers, operands)?,
            "and" | "or" | "xor" | "not" if is_pred => self.logic(opcode, modifiers, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn ty(&self, modifiers: &mut Modifiers<'_>) -> Result<Type> {
        modifiers.ty().map_err(|message| self.error(message))
    }

    fn mov(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.ty(modifiers)?;
        let [d, a] = operands else { return self.count(operands, 2) };
        match (d, a) {
            _ if ty == Type::Pred => {
                let d = self.predicate_destination(d)?;
                let (a, negated) = self.predicate_operand(a)?;
                let op = if negated { PredOp::Not } else { PredOp::Move };
                self.emit(Op::Pred { op, d, a, b: a });
            }
            (Operand::Vector(parts), Operand::Vector(from)) if parts.len() == from.len() => {
                return Err(self.unsupported("a move between vectors is not supported"));
            }
            (Operand::Vector(parts), _) => {
                let a = self.source(a, ty)?;
                self.unpack(parts, a, ty)?;
            }
            (_, Operand::Vector(parts)) => {
                let d = self.destination(d, ty)?;
                self.pack(parts, d, ty)?;
            }
            _ => {
                let a = self.source(a, ty)?;
                let d = self.destination(d, ty)?;
                self.emit(Op::Copy { d, a });
            }
        }
        Ok(())
    }

    /// The bits type of a part of a vector.
    fn part_type(&self, parts: &[Operand<'a>], ty: Type) -> Result<Type> {
        match (ty.bytes(), parts.len()) {
            (8, 2) => Ok(Type::B32),
            (4, 2) | (8, 4) => Ok(Type::B16),
            (2, 2) | (4, 4) => Ok(Type::B8),
            _ => Err(self.error("this many elements do not fit the type")),
        }
    }

    fn halved(&self, ty: Type) -> Type {
        match ty.bytes() {
            8 => Type::B32,
            4 => Type::B16,
            _ => Type::B8,
        }
    }

    fn pack(&mut self, parts: &[Operand<'a>], d: Reg, ty: Type) -> Result<()> {
        let part = self.part_type(parts, ty)?;
        let mut regs = Vec::new();
        for operand in parts {
            regs.push(self.vector_source(operand, part)?);
        }
        self.join(&regs, part, d)
    }

    fn vector_source(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        // An 8-bit part may stand in a 16-bit register.
        if let (Operand::Name(name), Type::B8) = (operand, ty) {
            return self.register(name).map(|(reg, _)| reg);
        }
        self.source(operand, ty)
    }

    fn join(&mut self, regs: &[Reg], part: Type, d: Reg) -> Result<()> {
        let Some(f) = alu::join(part.bytes()) else {
            return Err(self.error("these parts cannot be joined"));
        };
        match regs {
            [a, b] => self.emit(Op::Alu2 { f, d, a: *a, b: *b }),
            [a, b, c, e] => {
                let twice = if part == Type::B8 { Type::B16 } else { Type::B32 };
                let (low, high) = (self.fresh(twice), self.fresh(twice));
                self.emit(Op::Alu2 { f, d: low, a: *a, b: *b });
                self.emit(Op::Alu2 { f, d: high, a: *c, b: *e });
                return self.join(&[low, high], twice, d);
            }
            _ => return Err(self.error("wrong number of elements")),
        }
        Ok(())
    }

    fn unpack(&mut self, parts: &[Operand<'a>], a: Reg, ty: Type) -> Result<()> {
        let part = self.part_type(parts, ty)?;
        if let [low, high] = parts {
            for (operand, upper) in [(low, false), (high, true)] {
                if *operand != Operand::Sink {
                    let d = self.destination(operand, part)?;
                    self.take(d, a, part, upper)?;
                }
            }
            return Ok(());
        }
        // Taken apart through temporaries, so that a destination may also be the source.
        let half = self.halved(ty);
        let (low, high) = (self.fresh(half), self.fresh(half));
        self.take(low, a, half, false)?;
        self.take(high, a, half, true)?;
        let (first, last) = parts.split_at(2);
        self.unpack(first, low, half)?;
        self.unpack(last, high, half)
    }

    fn take(&mut self, d: Reg, a: Reg, part: Type, upper: bool) -> Result<()> {
        match alu::part(part.bytes(), upper) {
            Some(f) => {
                self.emit(Op::Alu1 { f, d, a });
                Ok(())
            }
            None => Err(self.error("this type cannot be taken apart")),
        }
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        d: Reg,
        q: Reg,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.count(operands, if comparison.combine.is_some() { 3 } else { 2 })?;
        let [a, b, rest @ ..] = operands else { return self.count(operands, 2) };
        let (a, b) = (self.source(a, comparison.ty)?, self.source(b, comparison.ty)?);
        let f = comparison.function;
        if let (Some(combine), Some(c)) = (comparison.combine, rest.first()) {
            let (c, negated) = self.predicate_operand(c)?;
            self.emit(Op::CompareWith { f, d, q, a, b, c, negated, combine });
        } else {
            self.emit(Op::Compare { f, d, q, a, b });
        }
        Ok(())
    }

    fn setp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let comparison =
            alu::select_comparison(modifiers).map_err(|message| self.error(message))?;
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let (d, q) = match first {
            Operand::Pair(p, q) => {
                let d = if *p == "_" { self.fresh(Type::Pred) } else { self.predicate(p)? };
                (d, if *q == "_" { NO_REG } else { self.predicate(q)? })
            }
            _ => (self.predicate_destination(first)?, NO_REG),
        };
        self.compare(comparison, d, q, rest)
    }

    fn set(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.ty(modifiers)?;
        let one = match ty {
            Type::U32 | Type::S32 | Type::B32 => u64::from(u32::MAX),
            Type::F32 => u64::from(1.0_f32.to_bits()),
            _ => return Err(self.error(format!("type '.{}' is not allowed here", ty.name()))),
        };
        let comparison =
            alu::select_comparison(modifiers).map_err(|message| self.error(message))?;
        let [first, rest @ ..] = operands else { return self.count(operands, 3) };
        let d = self.destination(first, ty)?;
        let p = self.fresh(Type::Pred);
        self.compare(comparison, p, NO_REG, rest)?;
        let (a, b) = (self.bits(one, Type::B32), self.bits(0, Type::B32));
        self.emit(Op::Select { wide: false, d, a, b, p, negated: false });
        Ok(())
    }

    fn testp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let (f, ty) = alu::select_test(modifiers).map_err(|message| self.error(message))?;
        let [d, a] = operands else { return self.count(operands, 2) };
        let (d, a) = (self.predicate_destination(d)?, self.source(a, ty)?);
        self.emit(Op::Test { f, d, a });
        Ok(())
    }

    fn selp(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.ty(modifiers)?;
        let [d, a, b, p] = operands else { return self.count(operands, 4) };
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let (p, negated) = self.predicate_operand(p)?;
        let d = self.destination(d, ty)?;
        self.emit(Op::Select { wide: ty.is_wide(), d, a, b, p, negated });
        Ok(())
    }

    fn slct(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let flush = modifiers.flag("ftz");
        let (ty, of) = (self.ty(modifiers)?, self.ty(modifiers)?);
        let words: &[&str] = match (of, flush) {
            (Type::S32, false) => &["ge", "s32"],
            (Type::F32, false) => &["ge", "f32"],
            (Type::F32, true) => &["ge", "ftz", "f32"],
            _ => return Err(self.error(format!("type '.{}' is not allowed here", of.name()))),
        };
        let comparison = alu::select_comparison(&mut Modifiers::new(words))
            .map_err(|message| self.error(message))?;
        let [d, a, b, c] = operands else { return self.count(operands, 4) };
        let (a, b, c) = (self.source(a, ty)?, self.source(b, ty)?, self.source(c, of)?);
        let d = self.destination(d, ty)?;
        let p = self.fresh(Type::Pred);
        let zero = self.bits(0, of);
        self.emit(Op::Compare { f: comparison.function, d: p, q: NO_REG, a: c, b: zero });
        self.emit(Op::Select { wide: ty.is_wide(), d, a, b, p, negated: false });
        Ok(())
    }

    fn logic(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.ty(modifiers)?;
        let op = match opcode {
            "and" => PredOp::And,
            "or" => PredOp::Or,
            "xor" => PredOp::Xor,
            _ => PredOp::Not,
        };
        self.count(operands, if opcode == "not" { 2 } else { 3 })?;
        let [d, a, rest @ ..] = operands else { return self.count(operands, 2) };
        let d = self.predicate_destination(d)?;
        let a = self.plain_predicate(a)?;
        let b = match rest.first() {
            Some(b) => self.plain_predicate(b)?,
            None => a,
        };
        self.emit(Op::Pred { op, d, a, b });
        Ok(())
    }

    fn plain_predicate(&mut self, operand: &Operand<'a>) -> Result<Reg> {
        match self.predicate_operand(operand)? {
            (reg, false) => Ok(reg),
            _ => Err(self.error("a negated predicate is not allowed here")),
        }
    }

    fn cvta(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let to_space = modifiers.flag("to");
        let Some(space) = modifiers.find(Space::parse) else {
            return Err(self.error("a state space is missing"));
        };
        if self.ty(modifiers)? != Type::U64 {
            return Err(self.unsupported("only 64-bit addresses are supported"));
        }
        let [d, a] = operands else { return self.count(operands, 2) };
        let a = self.source(a, Type::U64)?;
        let d = self.destination(d, Type::U64)?;
        let space =
            if space == Space::Param && !self.function.entry { Space::Local } else { space };
        let base = window(space);
        let base = self.bits(if to_space { base.wrapping_neg() } else { base }, Type::U64);
        if window(space) == 0 {
            self.emit(Op::Copy { d, a });
        } else {
            self.emit(Op::Alu2 { f: alu::add64(), d, a, b: base });
        }
        Ok(())
    }

    fn isspacep(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let Some(space) = modifiers.find(Space::parse) else {
            return Err(self.error("a state space is missing"));
        };
        let [d, a] = operands else { return self.count(operands, 2) };
        if space == Space::Const {
            return Err(self.unsupported("the constant space has no window"));
        }
        let (d, a) = (self.predicate_destination(d)?, self.source(a, Type::U64)?);
        self.emit(Op::IsSpace { space, d, a });
        Ok(())
    }
}
