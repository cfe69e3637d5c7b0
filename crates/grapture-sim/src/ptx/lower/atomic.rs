//! Atomic operations.

use super::function::FunctionLowering;
use super::qualifiers;
use crate::ptx::alu::Modifiers;
use crate::ptx::ast::Operand;
use crate::ptx::error::Result;
use crate::ptx::exec::atomics::{AtomicKind, AtomicOp, AtomicType};
use crate::ptx::ir::{Address, NO_REG, Op};
use crate::ptx::types::{Space, Type};

impl<'a> FunctionLowering<'_, 'a> {
    /// What is done to what. Sums of halves say that nothing is flushed, and their extremes come as
    /// vectors only.
    fn atomic_kind(&self, op: AtomicOp, ty: Type, parts: usize, noftz: bool) -> Result<AtomicKind> {
        let half = matches!(ty, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2);
        let single = ty == Type::F32 && op == AtomicOp::Add;
        let alone = !half || op == AtomicOp::Add;
        let bits = if parts > 1 { 8 * ty.bytes() * parts } else { 0 };
        match AtomicType::of(op, ty) {
            Some(of)
                if noftz == half
                    && (parts > 1 || alone)
                    && (parts == 1 || half || single)
                    && bits <= 128 =>
            {
                Ok(AtomicKind { op, ty: of })
            }
            _ => Err(self.error(format!("type '.{}' is not allowed here", ty.name()))),
        }
    }

    /// Compiles `atom`, or `red` where nothing is returned.
    pub(super) fn atomic(
        &mut self,
        returns: bool,
        modifiers: &mut Modifiers<'_>,
        operands: &[Operand<'a>],
    ) -> Result<()> {
        qualifiers::atomic(modifiers, returns).map_err(|message| self.error(message))?;
        let noftz = modifiers.flag("noftz");
        let space = modifiers.find(Space::parse).unwrap_or(Space::Generic);
        let Some(op) = modifiers.find(AtomicOp::parse) else {
            return Err(self.error("an atomic operation is missing"));
        };
        let parts = match modifiers.one_of(&["v2", "v4", "v8"]) {
            None => 1,
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
        };
        let ty = modifiers.ty().map_err(|message| self.error(message))?;
        if ty == Type::B128 {
            return Err(self.unsupported("atomics of 128 bits are not supported"));
        }
        let kind = self.atomic_kind(op, ty, parts, noftz)?;
        if !returns && matches!(op, AtomicOp::Cas | AtomicOp::Exch) {
            return Err(self.error("what is exchanged must be returned"));
        }
        if !matches!(space, Space::Generic | Space::Global | Space::Shared)
            || parts > 1 && space == Space::Shared
        {
            return Err(self.error("this space is not allowed here"));
        }
        let inputs = if op == AtomicOp::Cas { 2 } else { 1 };
        let wanted = usize::from(returns) + 1 + inputs;
        let operands = self.without_policy(modifiers, operands, wanted)?;
        self.count(operands, wanted)?;
        let (d, rest) = match operands {
            [d, rest @ ..] if returns => (d, rest),
            _ => (&Operand::Sink, operands),
        };
        let [address, a, more @ ..] = rest else { return self.count(operands, wanted) };
        let (address, space) = self.address(address, space)?;
        let b = more.first();
        if parts == 1 {
            return self.one_atomic((space, kind), ty, [Some(d), Some(a), b], address);
        }
        // Only each element by itself is atomic.
        for part in 0..parts {
            let element = |operand| element_of(operand, part);
            let address = Address {
                offset: address.offset.wrapping_add((part * ty.bytes()) as i64),
                ..address
            };
            self.one_atomic((space, kind), ty, [element(d), element(a), None], address)?;
        }
        Ok(())
    }

    fn one_atomic(
        &mut self,
        (space, kind): (Space, AtomicKind),
        ty: Type,
        [d, a, b]: [Option<&Operand<'a>>; 3],
        address: Address,
    ) -> Result<()> {
        let (Some(d), Some(a)) = (d, a) else {
            return Err(self.error("a vector of as many elements is needed"));
        };
        let d = if *d == Operand::Sink { NO_REG } else { self.destination(d, ty)? };
        let a = self.source(a, ty)?;
        let b = match b {
            Some(b) => self.source(b, ty)?,
            None => a,
        };
        self.emit(Op::Atomic { space, kind, d, a, b, address });
        Ok(())
    }
}

/// An element of a vector; all elements of the operand that throws a result away are that.
fn element_of<'o, 'a>(operand: &'o Operand<'a>, part: usize) -> Option<&'o Operand<'a>> {
    match operand {
        Operand::Sink => Some(operand),
        Operand::Vector(list) => list.get(part),
        _ => None,
    }
}
