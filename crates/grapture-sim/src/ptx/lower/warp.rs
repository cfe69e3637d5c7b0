//! Instructions by which the lanes of a warp exchange values.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::special::Special;
use crate::ptx::ir::{NO_REG, Op, Redux, Shuffle, Vote};
use crate::ptx::types::Type;

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn warp(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        match opcode {
            "vote" => self.vote(modifiers, operands)?,
            "shfl" => self.shuffle(modifiers, operands)?,
            "match" => self.matching(modifiers, operands)?,
            "redux" => self.redux(modifiers, operands)?,
            "elect" => self.elect(modifiers, operands)?,
            "activemask" => {
                let ty = modifiers.ty().map_err(|message| self.error(message))?;
                if ty != Type::B32 {
                    return Err(self.error(format!("type '.{}' is not allowed here", ty.name())));
                }
                let [d] = operands else { return self.count(operands, 1).map(|()| true) };
                let d = self.destination(d, ty)?;
                self.emit(Op::ActiveMask { d });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn demand_sync(&self, modifiers: &mut Modifiers<'_>) -> Result<()> {
        if modifiers.flag("sync") {
            return Ok(());
        }
        if self.module.processor < 70 {
            return Err(self.unsupported("only the '.sync' form is supported"));
        }
        Err(self.error("'.sync' is missing"))
    }

    /// The lowest of the lanes that meet is the one elected.
    fn elect(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        self.demand_sync(modifiers)?;
        let [Operand::Pair(d, p), members] = operands else {
            return Err(self.error("a register, a predicate and a mask are needed"));
        };
        let members = self.source(members, Type::B32)?;
        let leader = self.fresh(Type::B32);
        let (active, lane) = (self.fresh(Type::B32), self.fresh(Type::B32));
        self.emit(Op::WarpSync { members });
        self.emit(Op::ActiveMask { d: active });
        self.emit(Op::Alu2 { f: alu::and32(), d: active, a: active, b: members });
        self.emit(Op::Alu1 { f: alu::lowest(), d: leader, a: active });
        self.emit(Op::Special { what: Special::LaneId, wide: false, d: lane });
        if *p != "_" {
            let equal = alu::select_comparison(&mut Modifiers::new(&["eq", "u32"]))
                .map_err(|message| self.error(message))?;
            let d = self.predicate(p)?;
            self.emit(Op::Compare { f: equal.function, d, q: NO_REG, a: leader, b: lane });
        }
        if *d != "_" {
            let d = self.destination(&Operand::Name(d), Type::B32)?;
            self.emit(Op::Copy { d, a: leader });
        }
        Ok(())
    }

    fn vote(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        self.demand_sync(modifiers)?;
        let (mode, ty) = match modifiers.one_of(&["all", "any", "uni", "ballot"]) {
            Some("all") => (Vote::All, Type::Pred),
            Some("any") => (Vote::Any, Type::Pred),
            Some("uni") => (Vote::Uni, Type::Pred),
            Some(_) => (Vote::Ballot, Type::B32),
            None => return Err(self.error("a mode is missing")),
        };
        if modifiers.ty().map_err(|message| self.error(message))? != ty {
            return Err(self.error("the type does not fit the mode"));
        }
        let [d, p, members] = operands else { return self.count(operands, 3) };
        let (p, negated) = self.predicate_operand(p)?;
        let members = self.source(members, Type::B32)?;
        let d = self.destination(d, ty)?;
        self.emit(Op::Vote { mode, d, p, negated, members });
        Ok(())
    }

    fn shuffle(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        self.demand_sync(modifiers)?;
        let mode = match modifiers.one_of(&["up", "down", "bfly", "idx"]) {
            Some("up") => Shuffle::Up,
            Some("down") => Shuffle::Down,
            Some("bfly") => Shuffle::Butterfly,
            Some(_) => Shuffle::Index,
            None => return Err(self.error("a mode is missing")),
        };
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        if ty != Type::B32 {
            return Err(self.error("only '.b32' can be shuffled"));
        }
        let [d, a, b, c, members] = operands else { return self.count(operands, 5) };
        let (d, p) = match d {
            Operand::Pair(d, p) => {
                let d = self
                    .destination(&if *d == "_" { Operand::Sink } else { Operand::Name(d) }, ty)?;
                (d, if *p == "_" { NO_REG } else { self.predicate(p)? })
            }
            _ => (self.destination(d, ty)?, NO_REG),
        };
        let a = self.source(a, ty)?;
        let b = self.source(b, Type::B32)?;
        let c = self.source(c, Type::B32)?;
        let members = self.source(members, Type::B32)?;
        self.emit(Op::Shuffle { mode, d, p, a, b, c, members });
        Ok(())
    }

    fn matching(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let all = match modifiers.one_of(&["any", "all"]) {
            Some(mode) => mode == "all",
            None => return Err(self.error("one of .any, .all is missing")),
        };
        self.demand_sync(modifiers)?;
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        let wide = match ty {
            Type::B32 => false,
            Type::B64 => true,
            _ => return Err(self.error(format!("type '.{}' is not allowed here", ty.name()))),
        };
        let [d, a, members] = operands else { return self.count(operands, 3) };
        let a = self.source(a, ty)?;
        let members = self.source(members, Type::B32)?;
        if !all {
            let d = self.destination(d, Type::B32)?;
            self.emit(Op::MatchAny { wide, d, a, members });
            return Ok(());
        }
        let (d, p) = match d {
            Operand::Pair(d, p) => {
                let d = self.destination(
                    &if *d == "_" { Operand::Sink } else { Operand::Name(d) },
                    Type::B32,
                )?;
                (d, if *p == "_" { NO_REG } else { self.predicate(p)? })
            }
            _ => (self.destination(d, Type::B32)?, NO_REG),
        };
        self.emit(Op::MatchAll { wide, d, p, a, members });
        Ok(())
    }

    fn redux(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        self.demand_sync(modifiers)?;
        let operation = modifiers.one_of(&["add", "min", "max", "and", "or", "xor"]);
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        let mode = match (operation, ty) {
            (Some("add"), Type::U32 | Type::S32) => Redux::Add,
            (Some("min"), Type::U32) => Redux::MinU,
            (Some("min"), Type::S32) => Redux::MinS,
            (Some("max"), Type::U32) => Redux::MaxU,
            (Some("max"), Type::S32) => Redux::MaxS,
            (Some("and"), Type::B32) => Redux::And,
            (Some("or"), Type::B32) => Redux::Or,
            (Some("xor"), Type::B32) => Redux::Xor,
            _ => return Err(self.error("no such reduction")),
        };
        let [d, a, members] = operands else { return self.count(operands, 3) };
        let a = self.source(a, ty)?;
        let members = self.source(members, Type::B32)?;
        let d = self.destination(d, ty)?;
        self.emit(Op::Redux { mode, d, a, members });
        Ok(())
    }
}
