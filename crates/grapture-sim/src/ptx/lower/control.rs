//! Branches, calls, ends and barriers.

use super::conditional::SET_CONDITIONAL;
use super::function::{FunctionLowering, Symbol};
use crate::ptx::alu::Modifiers;
use crate::ptx::ast::{Constant, Operand};
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::extra::{Assert, Extra, Print};
use crate::ptx::ir::{BarrierKind, CallSite, NO_REG, Op, Slice};
use crate::ptx::types::Type;

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn control(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        match opcode {
            "bra" => self.branch(modifiers, operands)?,
            "brx" => self.branch_table(modifiers, operands)?,
            "call" => self.call(modifiers, operands)?,
            "ret" => {
                modifiers.flag("uni");
                self.count(operands, 0)?;
                self.emit(Op::Return);
            }
            "exit" => self.plain(operands, Op::Exit)?,
            "trap" | "brkpt" => self.plain(operands, Op::Trap)?,
            "nanosleep" => {
                let ty = modifiers.ty().map_err(|message| self.error(message))?;
                let [a] = operands else { return self.count(operands, 1).map(|()| true) };
                self.source(a, ty)?;
                self.emit(Op::Yield);
            }
            "bar" | "barrier" => self.barrier(opcode, modifiers, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn plain(&mut self, operands: &[Operand<'a>], op: Op) -> Result<()> {
        self.count(operands, 0)?;
        self.emit(op);
        Ok(())
    }

    fn branch(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        modifiers.flag("uni");
        let [Operand::Name(name)] = operands else {
            return Err(self.error("expected a label"));
        };
        let target = self.label(name)?;
        self.emit(Op::Branch { target });
        Ok(())
    }

    fn branch_table(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        if !modifiers.flag("idx") {
            return Err(self.error("'.idx' is missing"));
        }
        modifiers.flag("uni");
        let [index, Operand::Name(name)] = operands else {
            return Err(self.error("expected an index and a list of branch targets"));
        };
        let index = self.source(index, Type::U32)?;
        let mut targets = Vec::new();
        for (_, label) in self.table(name)? {
            targets.push(self.label(label)?);
        }
        let list = self.module.code.targets.len() as u32;
        let count = targets.len() as u32;
        self.module.code.targets.extend(targets);
        self.emit(Op::BranchTable { list, count, index });
        Ok(())
    }

    /// The places of arguments or results in this function's frame.
    fn slices(&self, list: &[Operand<'a>]) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        for operand in list {
            match operand {
                Operand::Name(name) => match self.lookup(name) {
                    Some(Symbol::Frame { offset, bytes }) => slices.push(Slice { offset, bytes }),
                    Some(_) => {
                        return Err(
                            self.unsupported("only .param variables can be passed to functions")
                        );
                    }
                    None => return Err(self.error(format!("unknown symbol '{name}'"))),
                },
                Operand::Constant(Constant::Integer(_)) => {
                    return Err(
                        self.unsupported("only .param variables can be passed to functions")
                    );
                }
                _ => return Err(self.error("expected a .param variable")),
            }
        }
        Ok(slices)
    }

    fn call(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        modifiers.flag("uni");
        let (results, rest) = match operands {
            [Operand::List(results), rest @ ..] => (self.slices(results)?, rest),
            _ => (Vec::new(), operands),
        };
        let [Operand::Name(name), rest @ ..] = rest else {
            return Err(self.error("expected a function"));
        };
        let (arguments, rest) = match rest {
            [Operand::List(arguments), rest @ ..] => (self.slices(arguments)?, rest),
            _ => (Vec::new(), rest),
        };
        let site = self.module.code.sites.len() as u32;
        match self.lookup(name) {
            Some(Symbol::Function(callee)) => self.call_direct(site, callee, arguments, results),
            Some(Symbol::Register(target, ty)) if ty.is_wide() => {
                match rest {
                    [Operand::Name(prototype)] if self.is_prototype(prototype) => {}
                    _ => return Err(self.error("an indirect call needs a .callprototype")),
                }
                self.module.code.sites.push(CallSite {
                    caller: self.index,
                    callee: 0,
                    arguments,
                    results,
                });
                self.calls_by_address = true;
                self.emit(Op::CallIndirect { site, target });
                Ok(())
            }
            _ => Err(self.error(format!("'{name}' is not a function"))),
        }
    }

    fn call_direct(
        &mut self,
        site: u32,
        callee: u32,
        arguments: Vec<Slice>,
        results: Vec<Slice>,
    ) -> Result<()> {
        let info = self.info(callee);
        let same = |ours: &[Slice], theirs: &[Slice]| {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.bytes == b.bytes)
        };
        let name = info.name.clone();
        if !same(&arguments, &info.params) || !(results.is_empty() || same(&results, &info.returns))
        {
            return Err(self.error(format!("the arguments do not match those of '{name}'")));
        }
        if !info.defined {
            if let ("__assertfail", [condition, file, line, function, ..]) =
                (name.as_str(), arguments.as_slice())
            {
                let [condition, file, line, function] =
                    [condition, file, line, function].map(|slice| slice.offset);
                let assert = Assert { condition, file, line, function };
                self.emit_extra(Extra::Assert(assert), &[], &[]);
                return Ok(());
            }
            if let ("vprintf", [format, values]) = (name.as_str(), arguments.as_slice()) {
                let result = results.first().map(|slice| slice.offset);
                let (format, arguments) = (format.offset, values.offset);
                self.emit_extra(Extra::Print(Print { format, arguments, result }), &[], &[]);
                return Ok(());
            }
            if name == SET_CONDITIONAL {
                return self.set_conditional(&arguments);
            }
            return Err(match name.as_str() {
                "malloc" | "free" => self.unsupported(format!("'{name}' is not supported")),
                _ => self.error(format!("'{name}' is declared and not defined")),
            });
        }
        self.calls.push(callee);
        self.module.code.sites.push(CallSite { caller: self.index, callee, arguments, results });
        self.emit(Op::Call { site });
        Ok(())
    }

    fn barrier(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        if modifiers.flag("warp") {
            modifiers.flag("sync");
            let [members] = operands else { return self.count(operands, 1) };
            let members = self.source(members, Type::B32)?;
            self.emit(Op::WarpSync { members });
            return Ok(());
        }
        if modifiers.contains("cluster") {
            return Err(self.unsupported("clusters are not supported"));
        }
        modifiers.ignore(|word| matches!(word, "cta" | "aligned"));
        match modifiers.one_of(&["sync", "arrive", "red"]) {
            Some("sync") => self.barrier_plain(BarrierKind::Sync, operands),
            Some("arrive") => self.barrier_plain(BarrierKind::Arrive, operands),
            Some(_) => self.barrier_reduction(modifiers, operands),
            None => {
                Err(self.error(format!("one of .sync, .arrive, .red is missing after '{opcode}'")))
            }
        }
    }

    fn barrier_plain(&mut self, kind: BarrierKind, operands: &[Operand<'a>]) -> Result<()> {
        let [id, rest @ ..] = operands else { return self.count(operands, 1) };
        if rest.len() > 1 || (kind == BarrierKind::Arrive && rest.is_empty()) {
            return self.count(operands, 2);
        }
        let id = self.source(id, Type::U32)?;
        let count = match rest.first() {
            Some(count) => self.source(count, Type::U32)?,
            None => NO_REG,
        };
        self.emit(Op::Barrier { kind, id, count, p: NO_REG, negated: false, d: NO_REG });
        Ok(())
    }

    fn barrier_reduction(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let kind = match modifiers.one_of(&["popc", "and", "or"]) {
            Some("popc") => BarrierKind::Count,
            Some("and") => BarrierKind::All,
            Some(_) => BarrierKind::Any,
            None => return Err(self.error("one of .popc, .and, .or is missing")),
        };
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        let wanted = if kind == BarrierKind::Count { Type::U32 } else { Type::Pred };
        if ty != wanted {
            return Err(self.error(format!("type '.{}' is not allowed here", ty.name())));
        }
        let (d, id, count, p): (_, _, Option<&Operand<'a>>, _) = match operands {
            [d, id, p] => (d, id, None, p),
            [d, id, count, p] => (d, id, Some(count), p),
            _ => return self.count(operands, 3),
        };
        let d: Reg = self.destination(d, ty)?;
        let id = self.source(id, Type::U32)?;
        let count = match count {
            Some(count) => self.source(count, Type::U32)?,
            None => NO_REG,
        };
        let (p, negated) = self.predicate_operand(p)?;
        self.emit(Op::Barrier { kind, id, count, p, negated, d });
        Ok(())
    }
}
