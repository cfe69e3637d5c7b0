//! Moves, operations on predicates, and address conversions.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::memory::window;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{NO_REG, Op, Pooled, PredOp};
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
            "cvta" => self.cvta(modifiers, operands)?,
            "isspacep" => self.isspacep(modifiers, operands)?,
            "and" | "or" | "xor" | "not" if is_pred => self.logic(opcode, modifiers, operands)?,
            _ => return self.comparison(opcode, modifiers, operands),
        }
        Ok(true)
    }

    pub(super) fn ty(&self, modifiers: &mut Modifiers<'_>) -> Result<Type> {
        modifiers.ty().map_err(|message| self.error(message))
    }

    fn mov(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let ty = self.ty(modifiers)?;
        if !(ty == Type::Pred || ty.is_plain()) {
            return Err(self.error(format!("type '.{}' is not allowed here", ty.name())));
        }
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

    /// A predicate operand in a register of its own if it is negated.
    fn plain_predicate(&mut self, operand: &Operand<'a>) -> Result<Reg> {
        let (a, negated) = self.predicate_operand(operand)?;
        if !negated {
            return Ok(a);
        }
        let d = self.fresh(Type::Pred);
        self.emit(Op::Pred { op: PredOp::Not, d, a, b: a });
        Ok(d)
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
        // The shared memory of a cluster is that of its one block.
        let space = match modifiers.flag("shared::cluster") {
            true => Some(Space::Shared),
            false => modifiers.find(Space::parse),
        };
        let Some(space) = space else {
            return Err(self.error("a state space is missing"));
        };
        let [d, a] = operands else { return self.count(operands, 2) };
        let (d, a) = (self.predicate_destination(d)?, self.source(a, Type::U64)?);
        if space == Space::Const {
            return self.is_constant(d, a);
        }
        if space != Space::Global {
            self.emit(Op::IsSpace { space, d, a });
            return Ok(());
        }
        // Constants lie among what else is global here, and not on a device.
        let (global, constant) = (self.fresh(Type::Pred), self.fresh(Type::Pred));
        self.emit(Op::IsSpace { space, d: global, a });
        self.is_constant(constant, a)?;
        self.emit(Op::Pred { op: PredOp::Not, d: constant, a: constant, b: constant });
        self.emit(Op::Pred { op: PredOp::And, d, a: global, b: constant });
        Ok(())
    }

    /// Whether an address lies in one of the constant variables, which have no window of their own.
    fn is_constant(&mut self, d: Reg, a: Reg) -> Result<()> {
        let variables = self.module.globals.iter().enumerate();
        let constants: Vec<(u32, usize)> = variables
            .filter(|(_, global)| global.space == Space::Const)
            .map(|(index, global)| (index as u32, global.size))
            .collect();
        let below = alu::select_comparison(&mut Modifiers::new(&["lo", "u64"]))
            .map_err(|message| self.error(message))?;
        let (found, one) = (self.fresh(Type::Pred), self.fresh(Type::Pred));
        let offset = self.fresh(Type::U64);
        self.emit(Op::Pred { op: PredOp::False, d: found, a: NO_REG, b: NO_REG });
        for (index, size) in constants {
            let start = self.module.pool.intern(true, Pooled::Global(index, 0));
            let size = self.bits(size as u64, Type::U64);
            self.emit(Op::Alu2 { f: alu::sub64(), d: offset, a, b: start });
            self.emit(Op::Compare { f: below.function, d: one, q: NO_REG, a: offset, b: size });
            self.emit(Op::Pred { op: PredOp::Or, d: found, a: found, b: one });
        }
        self.emit(Op::Pred { op: PredOp::Move, d, a: found, b: found });
        Ok(())
    }
}
