//! What the parser makes of a module: still names, no meaning yet.

use super::error::Position;
use super::types::{Space, Type};

/// A whole module.
#[derive(Debug, Default)]
pub struct Ast<'a> {
    /// The PTX version, major and minor.
    pub version: (u32, u32),
    /// The architecture of `.target`.
    pub target: &'a str,
    /// Variables at module scope.
    pub variables: Vec<Variable<'a>>,
    /// Functions, declarations included.
    pub functions: Vec<Function<'a>>,
}

/// How a name is seen outside its module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// Not at all.
    #[default]
    Internal,
    /// `.visible`, `.weak` or `.common`: defined here.
    Visible,
    /// `.extern`: defined elsewhere.
    Extern,
}

/// A declared variable, parameter or register.
#[derive(Debug)]
pub struct Variable<'a> {
    /// Where its name stands.
    pub at: Position,
    /// Its linkage.
    pub linkage: Linkage,
    /// Its space; `None` for `.reg`.
    pub space: Option<Space>,
    /// `.align`, or zero.
    pub align: u64,
    /// Its element type.
    pub ty: Type,
    /// Elements of a vector: 1, 2 or 4.
    pub vector: u64,
    /// Its name, without the count of `%r<10>`.
    pub name: &'a str,
    /// The count of a parametrised name.
    pub count: Option<u64>,
    /// Array dimensions; zero for `[]`.
    pub dims: Vec<u64>,
    /// Its initial value.
    pub init: Option<Init<'a>>,
}

impl Variable<'_> {
    /// Its size in bytes, `None` when that overflows.
    pub fn bytes(&self) -> Option<u64> {
        let element = (self.ty.bytes() as u64).checked_mul(self.vector)?;
        self.dims.iter().try_fold(element, |bytes, dim| bytes.checked_mul(*dim))
    }

    /// Its alignment in bytes.
    pub fn alignment(&self) -> u64 {
        self.align.max(self.ty.bytes() as u64 * self.vector).max(1)
    }
}

/// An initial value.
#[derive(Debug)]
pub enum Init<'a> {
    /// One value.
    Value(Position, Constant<'a>),
    /// A list in braces.
    List(Vec<Init<'a>>),
}

/// The value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant<'a> {
    /// An integer.
    Integer(u64),
    /// The bits of a single-precision literal.
    Single(u32),
    /// A double-precision number.
    Double(f64),
    /// The address of a symbol plus a number; `generic` inside `generic(…)`.
    Symbol {
        /// The symbol.
        name: &'a str,
        /// The number of bytes past it.
        addend: i64,
        /// Whether its generic address is meant.
        generic: bool,
    },
}

/// A function or a kernel.
#[derive(Debug)]
pub struct Function<'a> {
    /// Where its name stands.
    pub at: Position,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Its name.
    pub name: &'a str,
    /// What it returns.
    pub returns: Vec<Variable<'a>>,
    /// Its parameters.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg` and their numbers.
    pub tuning: Vec<(&'a str, Vec<u64>)>,
    /// Its body; `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

/// A statement of a body.
#[derive(Debug)]
pub enum Statement<'a> {
    /// A declaration.
    Variable(Variable<'a>),
    /// A label.
    Label(Position, &'a str),
    /// A nested scope.
    Block(Vec<Statement<'a>>),
    /// `name: .branchtargets a, b;`
    Targets(&'a str, Vec<(Position, &'a str)>),
    /// `name: .callprototype (…) _ (…);`
    Prototype(&'a str),
    /// An instruction.
    Instruction(Instruction<'a>),
}

/// An instruction.
#[derive(Debug)]
pub struct Instruction<'a> {
    /// Where its opcode stands.
    pub at: Position,
    /// The guard predicate and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    /// The word before the first dot.
    pub opcode: &'a str,
    /// The dotted words, without dots.
    pub modifiers: Vec<&'a str>,
    /// The operands.
    pub operands: Vec<Operand<'a>>,
}

impl Instruction<'_> {
    /// Opcode and modifiers, as written.
    pub fn full_name(&self) -> String {
        let mut name = self.opcode.to_owned();
        for modifier in &self.modifiers {
            name.push('.');
            name.push_str(modifier);
        }
        name
    }
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label, function or special register.
    Name(&'a str),
    /// `!p`
    Not(&'a str),
    /// `-r` has no meaning in PTX; a constant has.
    Constant(Constant<'a>),
    /// `p|q`
    Pair(&'a str, &'a str),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `[base + offset]`
    Address(AddressBase<'a>, i64),
    /// `(a, b)`, the lists of a call.
    List(Vec<Operand<'a>>),
    /// `_`
    Sink,
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AddressBase<'a> {
    /// A register or variable.
    Name(&'a str),
    /// Nothing: the offset is the address.
    Absolute,
}
