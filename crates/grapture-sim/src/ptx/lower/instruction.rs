//! One instruction: which part of lowering knows it, and those that only compute.

use super::function::FunctionLowering;
use super::unsupported;
use crate::ptx::alu::{self, Alu, AluFn, Modifiers};
use crate::ptx::ast::{Instruction, Operand};
use crate::ptx::contract::{FUSED_MINUS, MINUS_FUSED};
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::Op;
use crate::ptx::types::{Class, Type};

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one instruction.
    pub(super) fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        if let Some(reason) = unsupported::reason(instruction.opcode, &instruction.modifiers) {
            return Err(self.unsupported(reason));
        }
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let operands = &instruction.operands;
        let known = self.control(instruction.opcode, &mut modifiers, operands)?
            || self.data(instruction.opcode, &mut modifiers, operands)?
            || self.memory(instruction.opcode, &mut modifiers, operands)?
            || self.warp(instruction.opcode, &mut modifiers, operands)?
            || self.extra(instruction.opcode, &mut modifiers, operands)?
            || self.lop3_test(instruction.opcode, &mut modifiers, operands)?
            || self.compute(instruction.opcode, &mut modifiers, operands)?;
        if !known {
            return Err(self.unknown(instruction));
        }
        match modifiers.left_over() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("unknown modifier '.{word}'"))),
        }
    }

    fn unknown(&self, instruction: &Instruction<'_>) -> crate::ptx::error::CompileError {
        let message = format!("unknown instruction '{}'", instruction.full_name());
        crate::ptx::error::CompileError::invalid(instruction.at, message)
    }

    /// Demands a number of operands.
    pub(super) fn count(&self, operands: &[Operand<'a>], wanted: usize) -> Result<()> {
        if operands.len() == wanted {
            return Ok(());
        }
        Err(self.error(format!("{wanted} operands are needed, {} are given", operands.len())))
    }

    fn compute(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        let (name, negated) = match opcode {
            FUSED_MINUS => ("fma", Some(2)),
            MINUS_FUSED => ("fma", Some(0)),
            name => (name, None),
        };
        let ty = modifiers.last_type();
        let Some(selection) = alu::select(name, modifiers) else {
            return Ok(false);
        };
        let alu = selection.map_err(|message| self.error(message))?;
        self.count(operands, alu.sources.len() + 1)?;
        let Some((first, rest)) = operands.split_first() else {
            return Err(self.error("operands are missing"));
        };
        let converts = opcode == "cvt";
        let mut sources = Vec::new();
        for (operand, ty) in rest.iter().zip(&alu.sources) {
            let reg =
                if converts { self.convertible(operand, *ty)? } else { self.source(operand, *ty)? };
            sources.push(reg);
        }
        if let (Some(index), Some(ty)) = (negated, ty) {
            self.negate(&mut sources, index, ty)?;
        }
        let (d, extension) = if converts {
            self.converted(first, alu.destination)?
        } else {
            (self.destination(first, alu.destination)?, None)
        };
        match (alu.function, sources.as_slice()) {
            (AluFn::One(f), [a]) => self.emit(Op::Alu1 { f, d, a: *a }),
            (AluFn::Two(f), [a, b]) => self.emit(Op::Alu2 { f, d, a: *a, b: *b }),
            (AluFn::Three(f), [a, b, c]) => self.emit(Op::Alu3 { f, d, a: *a, b: *b, c: *c }),
            (AluFn::Four(f), [a, b, c, e]) => {
                self.emit(Op::Alu4 { f, d, a: *a, b: *b, c: *c, e: *e })
            }
            _ => return Err(self.error("wrong number of operands")),
        }
        if let Some((f, wide)) = extension {
            self.emit(Op::Alu1 { f, d: wide, a: d });
        }
        Ok(true)
    }

    /// Changes the sign of one of the sources, in a register of its own.
    fn negate(&mut self, sources: &mut [Reg], index: usize, ty: Type) -> Result<()> {
        let name = [ty.name()];
        let negation = alu::select("neg", &mut Modifiers::new(&name));
        let Some(Ok(Alu { function: AluFn::One(f), .. })) = negation else {
            return Err(self.error("this type has no sign"));
        };
        if let Some(source) = sources.get_mut(index) {
            let d = self.fresh(ty);
            self.emit(Op::Alu1 { f, d, a: *source });
            *source = d;
        }
        Ok(())
    }

    /// A source of `cvt`, whose register may be wider than its type.
    fn convertible(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        let Operand::Name(name) = operand else {
            return self.source(operand, ty);
        };
        let Ok((reg, have)) = self.register(name) else {
            return self.source(operand, ty);
        };
        let integer = matches!(ty.class(), Class::Unsigned | Class::Signed);
        if have.bytes() <= ty.bytes()
            || !integer
            || matches!(have.class(), Class::Float | Class::Pred)
        {
            return self.source(operand, ty);
        }
        if !have.is_wide() {
            return Ok(reg);
        }
        let d = self.fresh(Type::U32);
        self.emit(Op::Alu1 { f: alu::low_half(), d, a: reg });
        Ok(d)
    }

    /// The destination of `cvt`; when its register is wider than its type, a register for the type
    /// and what extends that into the other.
    #[allow(clippy::type_complexity)] // a pair that is taken apart at once
    fn converted(
        &mut self,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<(Reg, Option<(alu::Alu1, Reg)>)> {
        let Operand::Name(name) = operand else {
            return Ok((self.destination(operand, ty)?, None));
        };
        let (reg, have) = self.register(name)?;
        let integer = matches!(ty.class(), Class::Unsigned | Class::Signed);
        if have.bytes() <= ty.bytes()
            || !integer
            || matches!(have.class(), Class::Float | Class::Pred)
        {
            return Ok((self.destination(operand, ty)?, None));
        }
        let Some(extend) = alu::extension(ty, have.bytes()) else {
            return Err(self.error(format!("'{name}' does not fit '.{}'", ty.name())));
        };
        Ok((self.fresh(ty), Some((extend, reg))))
    }
}
