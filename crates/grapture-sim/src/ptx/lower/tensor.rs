//! Products of matrices: `mma` and `wmma`.

use super::function::FunctionLowering;
use crate::ptx::alu::Modifiers;
use crate::ptx::alu::softfloat::Rounding;
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::registers::Reg;
use crate::ptx::extra::{Accumulator, BitProduct, Element, Extra, Fragment, Mma, Order, Tile};
use crate::ptx::types::{Space, Type};

/// The measures of a product: `a` has `m` rows and `k` columns, `b` has `n` columns.
#[derive(Clone, Copy)]
struct Shape {
    m: u32,
    n: u32,
    k: u32,
}

impl Shape {
    /// Reads `m16n8k16`.
    fn parse(word: &str) -> Option<Self> {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Self { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }
}

/// The products of `mma`: of which types, and with which numbers of columns of `a`.
const MMA: [(&[Element], u32, &[u32]); 8] = [
    (&[Element::F16], 16, &[8, 16]),
    (&[Element::Bf16], 16, &[8, 16]),
    (&[Element::Tf32], 16, &[4, 8]),
    (&[Element::F64], 8, &[4]),
    (&[Element::F64], 16, &[4, 8, 16]),
    (&[Element::S8, Element::U8], 16, &[16, 32]),
    (&[Element::S4, Element::U4], 16, &[32, 64]),
    (&[Element::B1], 16, &[128, 256]),
];
/// The smaller ones, of eight rows.
const SMALL_MMA: [(&[Element], u32); 3] =
    [(&[Element::S8, Element::U8], 16), (&[Element::S4, Element::U4], 32), (&[Element::B1], 128)];

/// The most columns of `a` that are summed at once.
const AT_ONCE: u8 = 16;

impl<'a> FunctionLowering<'_, 'a> {
    /// Compiles `mma`.
    pub(super) fn mma(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        self.meet(modifiers)?;
        let shape = self.shape(modifiers)?;
        if !modifiers.flag("row") || !modifiers.flag("col") {
            return Err(self.error("'.row.col' is needed"));
        }
        let saturate = modifiers.flag("satfinite");
        let bits = self.bit_product(modifiers)?;
        let missing = "the types of the matrices are missing";
        let to = modifiers.find(Accumulator::parse).ok_or_else(|| self.error(missing))?;
        let mut element = || modifiers.find(Element::parse);
        let (Some(a), Some(b)) = (element(), element()) else { return Err(self.error(missing)) };
        let from = modifiers.find(Accumulator::parse).ok_or_else(|| self.error(missing))?;
        self.check_mma(shape, [a, b], [from, to])?;
        let fragment = |order, rows, columns, bits| Fragment { order, rows, columns, bits };
        let fragments = [
            fragment(Order::Left, shape.m, shape.k, a.bits()),
            fragment(Order::Right, shape.k, shape.n, b.bits()),
            fragment(Order::Sum, shape.m, shape.n, from.bits()),
            fragment(Order::Sum, shape.m, shape.n, to.bits()),
        ];
        let [d, a_operand, b_operand, c] = operands else { return self.count(operands, 4) };
        let left = self.exact_fragment(a_operand, fragments[0], factor_type(a), false)?;
        let right = self.exact_fragment(b_operand, fragments[1], factor_type(b), false)?;
        let add = self.exact_fragment(c, fragments[2], sum_type(from), false)?;
        let result = self.exact_fragment(d, fragments[3], sum_type(to), true)?;
        let registers = [left.len() as u8, right.len() as u8, add.len() as u8];
        let mma = Mma {
            types: [a, b],
            sums: [from, to],
            fragments,
            registers,
            saturate,
            bits,
            at_once: AT_ONCE,
        };
        self.emit_extra(Extra::Mma(mma), &[left, right, add].concat(), &result);
        Ok(())
    }

    fn bit_product(&self, modifiers: &mut Modifiers<'_>) -> Result<BitProduct> {
        let product = match modifiers.one_of(&["xor", "and"]) {
            Some("and") => BitProduct::And,
            other => {
                if other.is_none() {
                    return Ok(BitProduct::Xor);
                }
                BitProduct::Xor
            }
        };
        if !modifiers.flag("popc") {
            return Err(self.error("'.popc' is missing"));
        }
        Ok(product)
    }

    fn check_mma(&self, shape: Shape, types: [Element; 2], sums: [Accumulator; 2]) -> Result<()> {
        let [a, b] = types;
        let known = |list: &[Element]| list.contains(&a) && list.contains(&b);
        let large = MMA
            .iter()
            .any(|(list, m, columns)| known(list) && *m == shape.m && columns.contains(&shape.k));
        let small = SMALL_MMA.iter().any(|(list, k)| known(list) && shape.m == 8 && *k == shape.k);
        let wanted: &[Accumulator] = match a {
            Element::F16 => &[Accumulator::F16, Accumulator::F32],
            Element::Bf16 | Element::Tf32 => &[Accumulator::F32],
            Element::F64 => &[Accumulator::F64],
            _ => &[Accumulator::S32],
        };
        if !(large || small) || shape.n != 8 {
            return Err(self.unsupported("this shape is not supported for these types"));
        }
        if sums.iter().any(|sum| !wanted.contains(sum)) {
            return Err(self.error("the type of the sum does not go with those of the factors"));
        }
        Ok(())
    }

    /// Compiles `wmma`.
    pub(super) fn wmma(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let part = modifiers.one_of(&["load", "store", "mma"]);
        let Some(part) = part else {
            return Err(self.error("one of .load, .store, .mma is missing"));
        };
        if part == "mma" {
            return self.wmma_product(modifiers, operands);
        }
        let Some(matrix) = modifiers.one_of(&["a", "b", "c", "d"]) else {
            return Err(self.error("one of .a, .b, .c, .d is missing"));
        };
        self.meet(modifiers)?;
        let by_column = match modifiers.one_of(&["row", "col"]) {
            Some(order) => order == "col",
            None => return Err(self.error("one of .row, .col is missing")),
        };
        let shape = self.shape(modifiers)?;
        let space = modifiers.find(Space::parse).unwrap_or(Space::Generic);
        let missing = "a type is missing";
        let (rows, columns, bits, ty) = match matrix {
            "a" | "b" => {
                let element = modifiers.find(Element::parse).ok_or_else(|| self.error(missing))?;
                let (rows, columns) =
                    if matrix == "a" { (shape.m, shape.k) } else { (shape.k, shape.n) };
                (rows, columns, element.bits(), factor_type(element))
            }
            _ => {
                let sum = modifiers.find(Accumulator::parse).ok_or_else(|| self.error(missing))?;
                (shape.m, shape.n, sum.bits(), sum_type(sum))
            }
        };
        let fragment = Fragment { order: Order::Rows, rows, columns, bits };
        let store = part == "store";
        let (list, address, stride) = match (operands, store) {
            ([address, list], true) | ([list, address], false) => (list, address, None),
            ([address, list, stride], true) | ([list, address, stride], false) => {
                (list, address, Some(stride))
            }
            _ => return self.count(operands, 3),
        };
        let (address, space) = self.address(address, space)?;
        let address = self.address_value(address);
        let stride = match stride {
            Some(stride) => self.source(stride, Type::U32)?,
            None => {
                let length = if by_column { rows } else { columns };
                self.bits(u64::from(length), Type::U32)
            }
        };
        let registers = self.fragment(list, ty, !store)?;
        let tile = Extra::Tile(Tile { fragment, store, by_column, space });
        if store {
            self.emit_extra(tile, &[vec![address, stride], registers].concat(), &[]);
        } else {
            self.emit_extra(tile, &[address, stride], &registers);
        }
        Ok(())
    }

    fn wmma_product(
        &mut self,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        let bits = self.bit_product(modifiers)?;
        self.meet(modifiers)?;
        // How the tiles were laid out in memory says nothing of how they lie in registers here.
        modifiers.one_of(&["row", "col"]);
        modifiers.one_of(&["row", "col"]);
        let shape = self.shape(modifiers)?;
        let saturate = modifiers.flag("satfinite");
        if !matches!(modifiers.rounding(), None | Some(Rounding::Nearest)) {
            return Err(self.unsupported("only rounding to nearest is supported"));
        }
        let missing = "the types of the matrices are missing";
        let to = modifiers.find(Accumulator::parse).ok_or_else(|| self.error(missing))?;
        // Factors of half precision are not named: then the types of the sums stand alone.
        let first = modifiers.find(word_of_wmma).ok_or_else(|| self.error(missing))?;
        let (types, from) = match first {
            Named::Sum(from) => ([Element::F16; 2], from),
            Named::Factor(a) => {
                let b = modifiers.find(Element::parse).ok_or_else(|| self.error(missing))?;
                let from = modifiers.find(Accumulator::parse);
                ([a, b], from.ok_or_else(|| self.error(missing))?)
            }
        };
        let fragment = |rows, columns, bits| Fragment { order: Order::Rows, rows, columns, bits };
        let fragments = [
            fragment(shape.m, shape.k, types[0].bits()),
            fragment(shape.k, shape.n, types[1].bits()),
            fragment(shape.m, shape.n, from.bits()),
            fragment(shape.m, shape.n, to.bits()),
        ];
        let [d, a, b, c] = operands else { return self.count(operands, 4) };
        let left = self.fragment(a, factor_type(types[0]), false)?;
        let right = self.fragment(b, factor_type(types[1]), false)?;
        let add = self.fragment(c, sum_type(from), false)?;
        let result = self.fragment(d, sum_type(to), true)?;
        let registers = [left.len() as u8, right.len() as u8, add.len() as u8];
        // The products of these are summed in two halves.
        let at_once = if types[0] == Element::Tf32 { 4 } else { AT_ONCE };
        let mma = Mma { types, sums: [from, to], fragments, registers, saturate, bits, at_once };
        self.emit_extra(Extra::Mma(mma), &[left, right, add].concat(), &result);
        Ok(())
    }

    fn shape(&self, modifiers: &mut Modifiers<'_>) -> Result<Shape> {
        modifiers.find(Shape::parse).ok_or_else(|| self.error("a shape is missing"))
    }

    /// A fragment whose number of registers is known.
    fn exact_fragment(
        &mut self,
        operand: &Operand<'a>,
        fragment: Fragment,
        ty: Type,
        write: bool,
    ) -> Result<Vec<Reg>> {
        let registers = self.fragment(operand, ty, write)?;
        if registers.len() != fragment.registers() {
            return Err(self.error(format!("{} registers are needed", fragment.registers())));
        }
        Ok(registers)
    }
}

/// A word of a `wmma` product behind the type of its result.
enum Named {
    Sum(Accumulator),
    Factor(Element),
}

fn word_of_wmma(word: &str) -> Option<Named> {
    // `f16` alone names a sum: factors of that type go without saying.
    Accumulator::parse(word)
        .filter(|sum| *sum != Accumulator::F64)
        .map(Named::Sum)
        .or_else(|| Element::parse(word).map(Named::Factor))
}

/// The type of a register with elements of a factor.
fn factor_type(element: Element) -> Type {
    if element == Element::F64 { Type::F64 } else { Type::B32 }
}

/// The type of a register of a sum.
fn sum_type(sum: Accumulator) -> Type {
    match sum {
        Accumulator::F16 => Type::B32,
        Accumulator::F32 => Type::F32,
        Accumulator::F64 => Type::F64,
        Accumulator::S32 => Type::S32,
    }
}
