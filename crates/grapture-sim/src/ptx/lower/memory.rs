//! Loads, stores and fences.

use super::function::FunctionLowering;
use super::qualifiers;
use crate::ptx::alu::{self, AluFn, Modifiers};
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::ir::{Element, NO_REG, Op};
use crate::ptx::types::{Class, Space, Type};

/// Whether a load or store counts as atomic where races are looked for.
fn is_strong(modifiers: &Modifiers<'_>) -> bool {
    let words = ["volatile", "relaxed", "acquire", "release", "mmio"];
    words.iter().any(|word| modifiers.contains(word))
}

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles one of these instructions; `false` when it is none.
    pub(super) fn memory(
        &mut self,
        opcode: &str,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<bool> {
        match opcode {
            "ld" | "ldu" => self.load(modifiers, operands)?,
            "st" => self.store(modifiers, operands)?,
            "atom" => self.atomic(true, modifiers, operands)?,
            "red" => self.atomic(false, modifiers, operands)?,
            "prefetch" | "prefetchu" => {
                modifiers.ignore(|word| {
                    matches!(word, "L1" | "L2" | "global" | "local")
                        || word.starts_with("L1::")
                        || word.starts_with("L2::")
                });
                self.emit(Op::Nop);
            }
            "membar" | "fence" => {
                modifiers.ignore(|word| {
                    matches!(
                        word,
                        "cta"
                            | "gl"
                            | "gpu"
                            | "sys"
                            | "cluster"
                            | "sc"
                            | "acq_rel"
                            | "acquire"
                            | "release"
                    )
                });
                self.emit(Op::Fence);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn element(&self, ty: Type, width: usize, strong: bool) -> Result<Element> {
        if ty == Type::B128 {
            return Err(self.unsupported("loads and stores of 128 bits are not supported"));
        }
        if !ty.is_plain() && ty.bytes() != 1 {
            return Err(self.error(format!("type '.{}' is not allowed here", ty.name())));
        }
        let signed = ty.class() == Class::Signed;
        let width = 8 * width.max(ty.bytes()) as u8;
        Ok(Element { bytes: ty.bytes() as u8, signed, width, strong })
    }

    /// Space, number of elements and type of a load or store.
    fn access(&self, modifiers: &mut Modifiers<'_>) -> Result<(Space, usize, Type)> {
        let space = modifiers.find(Space::parse).unwrap_or(Space::Generic);
        let count = match modifiers.one_of(&["v2", "v4", "v8"]) {
            None => 1,
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
        };
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        if count * ty.bytes() > 16 {
            return Err(self.error("the vector is too long"));
        }
        Ok((space, count, ty))
    }

    /// The register of one element; it may be wider than the element.
    fn element_register(
        &mut self,
        operand: &Operand<'a>,
        ty: Type,
        load: bool,
    ) -> Result<(Reg, usize)> {
        match operand {
            Operand::Name(name) => {
                if let Ok((reg, have)) = self.register(name) {
                    let fits = have != Type::Pred && have.bytes() >= ty.bytes();
                    return if fits {
                        Ok((reg, have.bytes()))
                    } else {
                        Err(self.error(format!("'{name}' is too small for '.{}'", ty.name())))
                    };
                }
                self.source(operand, ty).map(|reg| (reg, ty.bytes()))
            }
            Operand::Sink if load => Ok((self.fresh(ty), ty.bytes())),
            _ if load => Err(self.error("expected a register to write to")),
            _ => self.source(operand, ty).map(|reg| (reg, ty.bytes())),
        }
    }

    /// The registers of a vector, and the size of each.
    fn list(
        &mut self,
        operand: &Operand<'a>,
        count: usize,
        ty: Type,
        load: bool,
    ) -> Result<(u32, usize)> {
        let Operand::Vector(parts) = operand else {
            return Err(self.error("expected a vector in braces"));
        };
        self.count(parts, count)?;
        let mut width = None;
        let mut regs = Vec::new();
        for part in parts {
            if *part == Operand::Sink && load {
                regs.push(NO_REG);
                continue;
            }
            let (reg, bytes) = self.element_register(part, ty, load)?;
            let constant =
                !load && !matches!(part, Operand::Name(name) if self.register(name).is_ok());
            if !constant && width.is_some_and(|width| width != bytes) {
                return Err(self.error("the registers of a vector must be equally wide"));
            }
            if !constant {
                width = Some(bytes);
            }
            regs.push(reg);
        }
        let width = width.unwrap_or(ty.bytes());
        // Constants sit in the file of their type, which must be that of the registers.
        if !load && (width == 8) != ty.is_wide() {
            return Err(self.unsupported("registers wider than the elements of a stored vector"));
        }
        let first = self.module.code.registers.len() as u32;
        self.module.code.registers.extend(regs);
        Ok((first, width))
    }

    fn load(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let strong = is_strong(modifiers);
        let operands = self.without_policy(modifiers, operands, 2)?;
        let acquire = qualifiers::load(modifiers).map_err(|message| self.error(message))?;
        let (space, count, ty) = self.access(modifiers)?;
        let [d, address] = operands else { return self.count(operands, 2) };
        let (address, space) = self.address(address, space)?;
        if count == 1 {
            let d = match d {
                // A vector of one element may be written without braces, and the other way round.
                Operand::Vector(parts) if parts.len() == 1 => parts.first().unwrap_or(d),
                _ => d,
            };
            let (d, width) = self.element_register(d, ty, true)?;
            let element = self.element(ty, width, strong)?;
            self.emit(Op::Load { space, element, d, address });
        } else {
            let (list, width) = self.list(d, count, ty, true)?;
            let element = self.element(ty, width, strong)?;
            self.emit(Op::LoadList { space, element, list, count: count as u8, address });
        }
        if acquire {
            self.emit(Op::Fence);
        }
        Ok(())
    }

    fn store(&mut self, modifiers: &mut Modifiers<'_>, operands: &[Operand<'a>]) -> Result<()> {
        let strong = is_strong(modifiers);
        let operands = self.without_policy(modifiers, operands, 2)?;
        let release = qualifiers::store(modifiers).map_err(|message| self.error(message))?;
        let (space, count, ty) = self.access(modifiers)?;
        let [address, a] = operands else { return self.count(operands, 2) };
        let (address, space) = self.address(address, space)?;
        if matches!(space, Space::Const | Space::Param) {
            return Err(self.error("this space cannot be stored to"));
        }
        if release {
            self.emit(Op::Fence);
        }
        if count == 1 {
            let (a, width) = self.element_register(a, ty, false)?;
            let (a, width) = self.narrowed(a, width, ty)?;
            let element = self.element(ty, width, strong)?;
            self.emit(Op::Store { space, element, a, address });
        } else {
            let (list, width) = self.list(a, count, ty, false)?;
            let element = self.element(ty, width, strong)?;
            self.emit(Op::StoreList { space, element, list, count: count as u8, address });
        }
        Ok(())
    }

    /// What is stored of a register. A wider one that is stored as single precision holds an integer, as
    /// GPUs take it.
    fn narrowed(&mut self, a: Reg, width: usize, ty: Type) -> Result<(Reg, usize)> {
        if ty != Type::F32 || width != 8 {
            return Ok((a, width));
        }
        let words = &mut Modifiers::new(&["rn", "f32", "u64"]);
        let alu = match alu::select("cvt", words) {
            Some(selection) => selection.map_err(|message| self.error(message))?,
            None => return Err(self.error("this register cannot be stored")),
        };
        let AluFn::One(f) = alu.function else { return Ok((a, width)) };
        let d = self.fresh(ty);
        self.emit(Op::Alu1 { f, d, a });
        Ok((d, 4))
    }

    /// The operands without the cache policy that `.L2::cache_hint` adds.
    pub(super) fn without_policy<'o>(
        &self,
        modifiers: &mut Modifiers<'_>,
        operands: &'o [Operand<'a>],
        wanted: usize,
    ) -> Result<&'o [Operand<'a>]> {
        if !modifiers.flag("L2::cache_hint") {
            return Ok(operands);
        }
        self.count(operands, wanted + 1)?;
        Ok(operands.get(..wanted).unwrap_or(operands))
    }
}
