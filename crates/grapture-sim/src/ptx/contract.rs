//! Multiplications that are fused with the addition of their product.
//!
//! PTX lets a driver fuse `mul` and `add` or `sub` that name no rounding, and the driver does: so the
//! product is not rounded, and the sum has other bits. A product that only such sums use, in the same
//! straight piece of code, is fused here with each of them.

use std::collections::HashMap;

use super::ast::{Ast, Instruction, Operand, Statement};

/// How often a register is named in a function.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    writes: u32,
    reads: u32,
}

/// Fuses what can be fused in every function.
pub(super) fn contract(ast: &mut Ast<'_>) {
    for function in &mut ast.functions {
        if let Some(body) = &mut function.body {
            let uses = uses_of_products(body);
            let mut pass = Pass { uses, products: HashMap::new(), gone: Vec::new() };
            pass.walk(body);
            let mut index = 0;
            pass.gone.sort_unstable();
            remove(body, &pass.gone, &mut index);
        }
    }
}

/// A piece of a body, in order: an instruction, or a place where control may come from elsewhere.
#[derive(Clone, Copy)]
enum Line<'b, 'a> {
    Instruction(&'b Instruction<'a>),
    Label,
}

fn lines<'b, 'a>(body: &'b [Statement<'a>], list: &mut Vec<Line<'b, 'a>>) {
    for statement in body {
        match statement {
            Statement::Block(block) => lines(block, list),
            Statement::Instruction(instruction) => list.push(Line::Instruction(instruction)),
            Statement::Label(..) => list.push(Line::Label),
            _ => {}
        }
    }
}

/// Whether the first operand is written.
fn writes(instruction: &Instruction<'_>) -> bool {
    !matches!(instruction.opcode, "st" | "red" | "call" | "bra")
}

/// Whether control may go elsewhere after it.
fn leaves(instruction: &Instruction<'_>) -> bool {
    matches!(instruction.opcode, "bra" | "brx" | "ret" | "exit" | "call")
}

/// How often an instruction reads a register, and whether it writes it.
fn named(instruction: &Instruction<'_>, register: &str) -> (u32, bool) {
    let (mut reads, mut written) = (0, false);
    if instruction.guard.is_some_and(|(guard, _)| guard == register) {
        reads += 1;
    }
    for (index, operand) in instruction.operands.iter().enumerate() {
        each_name(operand, &mut |name| {
            if name == register {
                if index == 0 && writes(instruction) { written = true } else { reads += 1 }
            }
        });
    }
    (reads, written)
}

/// The products that only sums use which they can be fused with, by the place of their instruction, and
/// how often they are used.
fn uses_of_products(body: &[Statement<'_>]) -> HashMap<usize, u32> {
    let mut list = Vec::new();
    lines(body, &mut list);
    let mut registers: HashMap<&str, Register> = HashMap::new();
    for line in &list {
        let Line::Instruction(instruction) = line else { continue };
        if let Some((guard, _)) = instruction.guard {
            registers.entry(guard).or_default().reads += 1;
        }
        for (index, operand) in instruction.operands.iter().enumerate() {
            each_name(operand, &mut |name| {
                let known = registers.entry(name).or_default();
                if index == 0 && writes(instruction) { known.writes += 1 } else { known.reads += 1 }
            });
        }
    }
    let mut found = HashMap::new();
    let mut place = 0;
    for (index, line) in list.iter().enumerate() {
        let Line::Instruction(instruction) = line else { continue };
        if let Some(uses) = uses(instruction, &list[index + 1..], &registers) {
            found.insert(place, uses);
        }
        place += 1;
    }
    found
}

/// How many sums use a product, if nothing else does.
fn uses(
    product: &Instruction<'_>,
    after: &[Line<'_, '_>],
    registers: &HashMap<&str, Register>,
) -> Option<u32> {
    let kind = fusible(product).filter(|_| product.opcode == "mul")?;
    let [Operand::Name(result), factors @ ..] = product.operands.as_slice() else { return None };
    if product.modifiers.contains(&"sat") {
        return None;
    }
    let known = registers.get(result)?;
    let (mut uses, mut stale) = (0, false);
    for line in after {
        if known.writes == 1 && known.reads == uses {
            break;
        }
        let Line::Instruction(instruction) = line else { break };
        let (reads, written) = named(instruction, result);
        let sum = matches!(instruction.opcode, "add" | "sub") && fusible(instruction) == Some(kind);
        if reads > 0 && (!sum || stale || reads > 1) || written && instruction.guard.is_some() {
            return None;
        }
        uses += reads;
        if written {
            return (uses > 0).then_some(uses);
        }
        if leaves(instruction) {
            break;
        }
        // A factor that is written again is not the one that was multiplied.
        let factor = |operand: &Operand<'_>| matches!(operand, Operand::Name(name) if named(instruction, name).1);
        stale |= factors.iter().any(factor);
    }
    (uses > 0 && known.writes == 1 && known.reads == uses).then_some(uses)
}

fn each_name<'a>(operand: &Operand<'a>, visit: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name) | Operand::Not(name) => visit(name),
        Operand::Pair(a, b) => [a, b].into_iter().for_each(|name| visit(name)),
        Operand::Vector(list) | Operand::List(list) => {
            list.iter().for_each(|part| each_name(part, visit));
        }
        Operand::Address(super::ast::AddressBase::Name(name), _) => visit(name),
        _ => {}
    }
}

/// A product that may still be fused.
struct Product<'a> {
    /// The place of its instruction, counted over the whole body.
    place: usize,
    factors: [Operand<'a>; 2],
    modifiers: Vec<&'a str>,
    /// The sums that still have to be fused until it is not needed any more.
    uses: u32,
}

struct Pass<'a> {
    /// What [`uses_of_products`] found.
    uses: HashMap<usize, u32>,
    products: HashMap<&'a str, Product<'a>>,
    /// The places of instructions that are not needed any more.
    gone: Vec<usize>,
}

/// The type and whether subnormals are flushed, of an operation that may be fused.
fn fusible<'a>(instruction: &Instruction<'a>) -> Option<(&'a str, bool)> {
    let mut ty = None;
    let mut flush = false;
    for word in &instruction.modifiers {
        match *word {
            "ftz" => flush = true,
            "sat" => {}
            "f32" | "f64" | "f16" | "f16x2" | "bf16" | "bf16x2" => ty = Some(*word),
            _ => return None,
        }
    }
    let plain = instruction.guard.is_none() && instruction.operands.len() == 3;
    ty.filter(|_| plain).map(|ty| (ty, flush))
}

impl<'a> Pass<'a> {
    fn walk(&mut self, body: &mut [Statement<'a>]) {
        let mut place = 0;
        self.block(body, &mut place);
    }

    fn block(&mut self, body: &mut [Statement<'a>], place: &mut usize) {
        for statement in body {
            match statement {
                Statement::Block(block) => self.block(block, place),
                Statement::Label(..) => self.products.clear(),
                Statement::Instruction(instruction) => {
                    self.instruction(instruction, *place);
                    *place += 1;
                }
                _ => {}
            }
        }
    }

    fn instruction(&mut self, instruction: &mut Instruction<'a>, place: usize) {
        if matches!(instruction.opcode, "add" | "sub") {
            self.sum(instruction);
        }
        if leaves(instruction) {
            self.products.clear();
        }
        if let (Some(operand), true) = (instruction.operands.first(), writes(instruction)) {
            each_name(operand, &mut |name| {
                self.products.remove(name);
                self.products.retain(|_, product| {
                    product.factors.iter().all(|factor| *factor != Operand::Name(name))
                });
            });
        }
        if let Some(uses) = self.uses.get(&place) {
            self.product(instruction, place, *uses);
        }
    }

    fn product(&mut self, instruction: &Instruction<'a>, place: usize, uses: u32) {
        let [Operand::Name(result), a, b] = instruction.operands.as_slice() else { return };
        let factors = [a.clone(), b.clone()];
        // Where it takes the place of a factor, that is only there while the product is not.
        if uses > 1 && factors.contains(&Operand::Name(result)) {
            return;
        }
        let modifiers = instruction.modifiers.clone();
        self.products.insert(result, Product { place, factors, modifiers, uses });
    }

    fn sum(&mut self, instruction: &mut Instruction<'a>) {
        let Some(kind) = fusible(instruction) else { return };
        let [_, a, b] = instruction.operands.as_slice() else { return };
        let order = [(a.clone(), b.clone(), false), (b.clone(), a.clone(), true)];
        for (candidate, other, second) in order {
            let Operand::Name(name) = candidate else { continue };
            let Some(product) = self.products.get(name) else { continue };
            let alike =
                kind.1 == product.modifiers.contains(&"ftz") && product.modifiers.contains(&kind.0);
            if !alike {
                continue;
            }
            let negated = match (instruction.opcode, second) {
                ("add", _) => Negated::Nothing,
                (_, false) => Negated::Addend,
                (_, true) => Negated::Factor,
            };
            self.fuse(instruction, name, other, negated);
            return;
        }
    }

    fn fuse(
        &mut self,
        instruction: &mut Instruction<'a>,
        product: &'a str,
        addend: Operand<'a>,
        negated: Negated,
    ) {
        let Some(product) = self.products.get_mut(product) else { return };
        let Some(result) = instruction.operands.first().cloned() else { return };
        let [a, b] = product.factors.clone();
        product.uses -= 1;
        if product.uses == 0 {
            self.gone.push(product.place);
        }
        instruction.opcode = negated.opcode();
        instruction.modifiers.insert(0, "rn");
        instruction.operands = vec![result, a, b, addend];
    }
}

/// What of a fused operation has its sign changed.
#[derive(Clone, Copy)]
enum Negated {
    Nothing,
    Addend,
    Factor,
}

impl Negated {
    /// The names by which lowering knows the three; none but the first can be in a text.
    fn opcode(self) -> &'static str {
        match self {
            Negated::Nothing => "fma",
            Negated::Addend => FUSED_MINUS,
            Negated::Factor => MINUS_FUSED,
        }
    }
}

/// `a * b - c`
pub(super) const FUSED_MINUS: &str = "fma -c";
/// `c - a * b`
pub(super) const MINUS_FUSED: &str = "fma -a";

/// Takes instructions away, by their places in order.
fn remove(body: &mut Vec<Statement<'_>>, gone: &[usize], next: &mut usize) {
    body.retain_mut(|statement| match statement {
        Statement::Block(block) => {
            remove(block, gone, next);
            true
        }
        Statement::Instruction(_) => {
            *next += 1;
            gone.binary_search(&(*next - 1)).is_err()
        }
        _ => true,
    });
}
