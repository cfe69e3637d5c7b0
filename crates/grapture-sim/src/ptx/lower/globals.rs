//! Initial values of module variables.

use super::{ModuleLowering, ModuleSymbol};
use crate::ptx::ast::{Constant, Init, Linkage, Variable};
use crate::ptx::error::{CompileError, Position, Result};
use crate::ptx::ir::FUNCTION_BASE;
use crate::ptx::module::Relocation;
use crate::ptx::types::{Space, Type};

/// The bytes and addresses of one variable.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
}

impl<'a> ModuleLowering<'a> {
    /// Evaluates the initial values, once every name is known.
    pub(super) fn initialise(&mut self, variables: &[Variable<'a>]) -> Result<()> {
        let ours = variables.iter().filter(|variable| variable.space != Some(Space::Shared));
        for (index, variable) in ours.enumerate() {
            if let Some(init) = &variable.init {
                if variable.linkage == Linkage::Extern {
                    return Err(CompileError::invalid(
                        variable.at,
                        "an .extern variable cannot be initialised",
                    ));
                }
                let image = self.image(variable, init)?;
                if let Some(global) = self.globals.get_mut(index) {
                    // `[]` takes its size from the initial value.
                    if variable.dims.first() == Some(&0) {
                        global.size = image.bytes.len();
                    }
                    if image.bytes.len() > global.size {
                        return Err(CompileError::invalid(
                            variable.at,
                            "the initial value is larger than the variable",
                        ));
                    }
                    global.initial = image.bytes;
                    global.relocations = image.relocations;
                }
            }
        }
        Ok(())
    }

    fn image(&self, variable: &Variable<'a>, init: &Init<'a>) -> Result<Image> {
        let mut image = Image::default();
        let element = variable.ty.bytes() as u64;
        let mut dims: Vec<u64> = variable.dims.clone();
        if variable.vector > 1 {
            dims.push(variable.vector);
        }
        // The bytes that a list at each depth spans; an open dimension spans what it holds.
        let mut spans = vec![element];
        for dim in dims.iter().rev() {
            let inner = spans.last().copied().unwrap_or(element);
            spans.push(inner.saturating_mul(*dim));
        }
        spans.reverse();
        self.fill(&mut image, variable.ty, init, &spans)?;
        Ok(image)
    }

    fn fill(&self, image: &mut Image, ty: Type, init: &Init<'a>, spans: &[u64]) -> Result<()> {
        let list = match init {
            Init::Value(at, value) => return self.value(image, ty, *at, *value),
            Init::List(list) => list,
        };
        let inner = spans.get(1..).unwrap_or(&[]);
        for item in list {
            let start = image.bytes.len();
            self.fill(image, ty, item, inner)?;
            // A row may be shorter than its dimension says; its rest is zero.
            if let (Init::List(_), Some(row)) = (item, inner.first()) {
                if (image.bytes.len() - start) as u64 > *row || *row > 1 << 30 {
                    return Err(CompileError::invalid(
                        Position::default(),
                        "too many initial values in a row",
                    ));
                }
                image.bytes.resize(start + *row as usize, 0);
            }
        }
        Ok(())
    }

    fn value(&self, image: &mut Image, ty: Type, at: Position, value: Constant<'a>) -> Result<()> {
        let size = ty.bytes();
        let bits = match (value, ty) {
            (Constant::Integer(bits), Type::F32) => u64::from((bits as i64 as f32).to_bits()),
            (Constant::Integer(bits), Type::F64) => (bits as i64 as f64).to_bits(),
            (Constant::Integer(bits), _) => bits,
            (Constant::Single(bits), _) if size == 4 => u64::from(bits),
            (Constant::Single(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
            (Constant::Double(number), Type::F32) => u64::from((number as f32).to_bits()),
            (Constant::Double(number), _) if size == 8 => number.to_bits(),
            (Constant::Symbol { name, addend, .. }, _) if size == 8 => {
                self.address(image, at, name, addend)?
            }
            (Constant::Symbol { .. }, _) => {
                return Err(CompileError::unsupported(
                    at,
                    "only 64-bit variables can hold addresses",
                ));
            }
            _ => return Err(CompileError::invalid(at, "the initial value does not fit the type")),
        };
        image.bytes.extend(bits.to_le_bytes().iter().take(size));
        Ok(())
    }

    fn address(&self, image: &mut Image, at: Position, name: &str, addend: i64) -> Result<u64> {
        match self.symbols.get(name) {
            Some(ModuleSymbol::Function(index)) if addend == 0 => {
                Ok(FUNCTION_BASE + 16 * u64::from(*index))
            }
            Some(ModuleSymbol::Global(index)) => {
                let offset = image.bytes.len();
                image.relocations.push(Relocation { offset, global: *index as usize, addend });
                Ok(0)
            }
            Some(_) => Err(CompileError::unsupported(
                at,
                format!("the address of '{name}' is not a constant"),
            )),
            None => Err(CompileError::invalid(at, format!("unknown symbol '{name}'"))),
        }
    }
}
