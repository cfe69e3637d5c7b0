//! Multiplications that are fused with the addition of their product.
//!
//! PTX lets a driver fuse `mul` and `add` or `sub` that name no rounding, and the driver does: so the
//! product is not rounded, and the sum has other bits. A product that is used once, by a sum in the
//! same straight piece of code, is fused here.

use std::collections::HashMap;

use super::ast::{Ast, Instruction, Operand, Statement};

/// What is known of a register.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    writes: u32,
    reads: u32,
}

/// Fuses what can be fused in every function.
pub(super) fn contract(ast: &mut Ast<'_>) {
    for function in &mut ast.functions {
        if let Some(body) = &mut function.body {
            let mut registers = HashMap::new();
            count(body, &mut registers);
            let mut pass = Pass { registers, products: HashMap::new(), gone: Vec::new() };
            pass.walk(body);
            let mut index = 0;
            pass.gone.sort_unstable();
            remove(body, &pass.gone, &mut index);
        }
    }
}

fn count<'a>(body: &[Statement<'a>], registers: &mut HashMap<&'a str, Register>) {
    for statement in body {
        match statement {
            Statement::Block(block) => count(block, registers),
            Statement::Instruction(instruction) => {
                if let Some((guard, _)) = instruction.guard {
                    registers.entry(guard).or_default().reads += 1;
                }
                let writes = !matches!(instruction.opcode, "st" | "red" | "call" | "bra");
                for (index, operand) in instruction.operands.iter().enumerate() {
                    each_name(operand, &mut |name| {
                        let known = registers.entry(name).or_default();
                        if index == 0 && writes { known.writes += 1 } else { known.reads += 1 }
                    });
                }
            }
            _ => {}
        }
    }
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
}

struct Pass<'a> {
    registers: HashMap<&'a str, Register>,
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
        match instruction.opcode {
            "mul" => self.product(instruction, place),
            "add" | "sub" => self.sum(instruction),
            "bra" | "brx" | "ret" | "exit" | "call" => self.products.clear(),
            _ => {}
        }
        // A factor that is written again is not the one that was multiplied.
        let Some(Operand::Name(written)) = instruction.operands.first() else { return };
        if self.registers.get(written).is_some_and(|known| known.writes > 1) {
            self.products.retain(|_, product| {
                product.factors.iter().all(|factor| *factor != Operand::Name(written))
            });
        }
    }

    fn product(&mut self, instruction: &Instruction<'a>, place: usize) {
        let [Operand::Name(result), a, b] = instruction.operands.as_slice() else { return };
        let once = self.registers.get(result).is_some_and(|r| r.writes == 1 && r.reads == 1);
        if once && fusible(instruction).is_some() && !instruction.modifiers.contains(&"sat") {
            let (factors, modifiers) = ([a.clone(), b.clone()], instruction.modifiers.clone());
            self.products.insert(result, Product { place, factors, modifiers });
        }
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
        let Some(product) = self.products.remove(product) else { return };
        let Some(result) = instruction.operands.first().cloned() else { return };
        let [a, b] = product.factors;
        self.gone.push(product.place);
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
