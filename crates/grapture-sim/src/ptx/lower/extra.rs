//! Rare instructions: matrices between memory and registers, asynchronous copies.

use super::function::FunctionLowering;
use crate::ptx::alu::{self, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::{FULL, Reg};
use crate::ptx::extra::{AsyncCopy, Extra, Limit, Matrices, MatrixMove};
use crate::ptx::ir::{Address, Base, Op};
use crate::ptx::types::{Space, Type};

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn extra(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        match opcode {
            "mma" => self.mma(modifiers, operands)?,
            "wmma" => self.wmma(modifiers, operands)?,
            "ldmatrix" => self.matrices_in_memory(MatrixMove::Load, modifiers, operands)?,
            "stmatrix" => self.matrices_in_memory(MatrixMove::Store, modifiers, operands)?,
            "movmatrix" => self.move_matrix(modifiers, operands)?,
            "cp" if modifiers.contains("async") => self.async_copy(modifiers, operands)?,
            "griddepcontrol" => {
                // A kernel starts here when what it depends on has ended, so there is nothing to
                // wait for, and nobody to tell.
                if modifiers.one_of(&["launch_dependents", "wait"]).is_none() {
                    return Err(self.error("one of .launch_dependents, .wait is missing"));
                }
                self.count(operands, 0)?;
                self.emit(Op::Fence);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends a rare instruction with the registers that it reads and those that it writes.
    pub(super) fn emit_extra(&mut self, extra: Extra, reads: &[Reg], writes: &[Reg]) {
        let code = &mut self.module.code;
        let (what, list) = (code.extras.len() as u32, code.registers.len() as u32);
        code.extras.push(extra);
        code.registers.extend(reads);
        code.registers.extend(writes);
        self.emit(Op::Extra { what, list, reads: reads.len() as u8, writes: writes.len() as u8 });
    }

    /// All lanes of the warp meet before an instruction that they run together.
    pub(super) fn meet(&mut self, modifiers: &mut Modifiers<'_>) -> Result<()> {
        if !modifiers.flag("sync") || !modifiers.flag("aligned") {
            return Err(self.error("'.sync.aligned' is missing"));
        }
        let members = self.bits(u64::from(FULL), Type::B32);
        self.emit(Op::WarpSync { members });
        Ok(())
    }

    /// The registers of a fragment, all of one type.
    pub(super) fn fragment(
        &mut self,
        operand: &Operand<'a>,
        ty: Type,
        write: bool,
    ) -> Result<Vec<Reg>> {
        let single = std::slice::from_ref(operand);
        let parts = if let Operand::Vector(parts) = operand { parts.as_slice() } else { single };
        let mut registers = Vec::new();
        for part in parts {
            registers.push(if write {
                self.destination(part, ty)?
            } else {
                self.source(part, ty)?
            });
        }
        Ok(registers)
    }

    fn matrices(&self, modifiers: &mut Modifiers<'_>) -> Result<(u8, bool)> {
        if !modifiers.flag("m8n8") {
            return Err(self.unsupported("only matrices of 8 rows and 8 columns are supported"));
        }
        let count = match modifiers.one_of(&["x1", "x2", "x4"]) {
            Some("x1") => 1,
            Some("x2") => 2,
            Some(_) => 4,
            None => return Err(self.error("one of .x1, .x2, .x4 is missing")),
        };
        let transposed = modifiers.flag("trans");
        let space = modifiers.find(Space::parse);
        if !matches!(space, None | Some(Space::Shared)) {
            return Err(self.error("shared memory is needed"));
        }
        match modifiers.ty() {
            Ok(Type::B16) => Ok((count, transposed)),
            _ => Err(self.unsupported("only '.b16' is supported")),
        }
    }

    /// A load, whose registers are the first operand, or a store, whose address is.
    fn matrices_in_memory(
        &mut self,
        how: MatrixMove,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.meet(modifiers)?;
        let (count, transposed) = self.matrices(modifiers)?;
        let [first, second] = operands else { return self.count(operands, 2) };
        let loads = how == MatrixMove::Load;
        let (list, address) = if loads { (first, second) } else { (second, first) };
        let (address, _) = self.address(address, Space::Shared)?;
        let address = self.address_value(address);
        let registers = self.fragment(list, Type::B32, loads)?;
        self.all_matrices(&registers, count)?;
        let extra = Extra::Matrices(Matrices { how, count, transposed });
        if loads {
            self.emit_extra(extra, &[address], &registers);
        } else {
            self.emit_extra(extra, &[vec![address], registers].concat(), &[]);
        }
        Ok(())
    }

    fn all_matrices(&self, registers: &[Reg], count: u8) -> Result<()> {
        if registers.len() == usize::from(count) {
            return Ok(());
        }
        Err(self.error(format!("{count} registers are needed")))
    }

    fn move_matrix(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.meet(modifiers)?;
        let wanted = modifiers.flag("m8n8") && modifiers.flag("trans") && modifiers.flag("b16");
        if !wanted {
            return Err(self.error("'.m8n8.trans.b16' is needed"));
        }
        let [d, a] = operands else { return self.count(operands, 2) };
        let a = self.source(a, Type::B32)?;
        let d = self.destination(d, Type::B32)?;
        let matrices = Matrices { how: MatrixMove::Registers, count: 1, transposed: true };
        self.emit_extra(Extra::Matrices(matrices), &[a], &[d]);
        Ok(())
    }

    fn async_copy(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        modifiers.flag("async");
        if modifiers.one_of(&["commit_group", "wait_group", "wait_all"]).is_some() {
            self.emit(Op::Fence);
            return Ok(());
        }
        modifiers.ignore(|word| {
            matches!(word, "ca" | "cg" | "shared" | "shared::cta" | "global")
                || word.starts_with("L2::") && word != "L2::cache_hint"
        });
        let operands = if modifiers.flag("L2::cache_hint") {
            operands.split_last().map_or(operands, |(_, rest)| rest)
        } else {
            operands
        };
        let [to, from, bytes, limit @ ..] = operands else { return self.count(operands, 3) };
        let Operand::Constant(crate::ptx::ast::Constant::Integer(bytes @ (4 | 8 | 16))) = bytes
        else {
            return Err(self.error("a size of 4, 8 or 16 bytes is needed"));
        };
        let (to, _) = self.address(to, Space::Shared)?;
        let (from, _) = self.address(from, Space::Global)?;
        let mut reads = vec![self.address_value(to), self.address_value(from)];
        let limit = match limit {
            [] => Limit::None,
            [limit] => match self.predicate_of(limit) {
                Some((predicate, negated)) => {
                    reads.push(predicate);
                    Limit::Ignored { negated }
                }
                None => {
                    reads.push(self.source(limit, Type::U32)?);
                    Limit::Size
                }
            },
            _ => return self.count(operands, 4),
        };
        let copy = AsyncCopy { bytes: *bytes as u8, limit };
        self.emit_extra(Extra::AsyncCopy(copy), &reads, &[]);
        Ok(())
    }

    /// The predicate that an operand is, if it is one.
    fn predicate_of(&self, operand: &Operand<'a>) -> Option<(Reg, bool)> {
        match operand {
            Operand::Name(name) => self.predicate(name).ok().map(|reg| (reg, false)),
            Operand::Not(name) => self.predicate(name).ok().map(|reg| (reg, true)),
            _ => None,
        }
    }

    /// A register of 64 bits with an address in it.
    pub(super) fn address_value(&mut self, address: Address) -> Reg {
        let offset = self.bits(address.offset as u64, Type::U64);
        match address.base {
            Base::Absolute => offset,
            Base::Wide(reg) if address.offset == 0 => reg,
            Base::Wide(a) => {
                let d = self.fresh(Type::U64);
                self.emit(Op::Alu2 { f: alu::add64(), d, a, b: offset });
                d
            }
            Base::Narrow(a) => {
                let (wide, d) = (self.fresh(Type::U64), self.fresh(Type::U64));
                if let Some(f) = alu::extension(Type::U32, 8) {
                    self.emit(Op::Alu1 { f, d: wide, a });
                }
                self.emit(Op::Alu2 { f: alu::add64(), d, a: wide, b: offset });
                d
            }
            Base::Frame => {
                let d = self.fresh(Type::U64);
                self.emit(Op::FrameAddress { d, offset: address.offset as u32, wide: true });
                d
            }
        }
    }
}
