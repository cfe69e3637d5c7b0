//! The body of one function.

use std::collections::{HashMap, HashSet};

use super::hoist::{Hoisted, hoist};
use super::liveness::unset;
use super::{ModuleLowering, checked_bytes, place};
use crate::ptx::ast::{Function, Instruction, Linkage, Statement, Variable};
use crate::ptx::error::{CompileError, CompileErrorKind, Position, Result};
use crate::ptx::exec::registers::{Frame, Reg};
use crate::ptx::ir::{FunctionInfo, Guard, Inst, Op};
use crate::ptx::module::Kernel;
use crate::ptx::types::{Space, Type};

/// What a name inside a function means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    /// A register.
    Register(Reg, Type),
    /// A parameter of a kernel, at an offset.
    EntryParam(u32),
    /// A variable in the function's frame: `.local`, or a `.param` of a function or call.
    Frame { offset: u32, bytes: u32 },
    /// A shared variable.
    Shared(u32),
    /// A global or constant variable.
    Global(u32),
    /// A function.
    Function(u32),
}

/// `%r<10>`
#[derive(Clone, Copy, Debug)]
struct Family {
    count: u64,
    first: u32,
    ty: Type,
}

/// The names of one pair of braces.
#[derive(Debug, Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Symbol>,
    families: HashMap<&'a str, Family>,
    labels: HashMap<&'a str, u32>,
    tables: HashMap<&'a str, Vec<(Position, &'a str)>>,
    prototypes: HashSet<&'a str>,
}

/// A function while it is compiled.
#[derive(Debug)]
pub(super) struct FunctionLowering<'m, 'a> {
    pub(super) module: &'m mut ModuleLowering<'a>,
    pub(super) index: u32,
    pub(super) function: &'m Function<'a>,
    pub(super) frame: Frame,
    pub(super) calls: Vec<u32>,
    pub(super) shared: Vec<u32>,
    pub(super) guard: Guard,
    pub(super) calls_by_address: bool,
    at: Position,
    shown: String,
    scopes: Vec<Scope<'a>>,
    places: Vec<Option<u32>>,
    start: usize,
}

impl<'m, 'a> FunctionLowering<'m, 'a> {
    pub(super) fn new(
        module: &'m mut ModuleLowering<'a>,
        index: u32,
        function: &'m Function<'a>,
    ) -> Result<Self> {
        let start = module.code.insts.len();
        let mut lowering = Self {
            index,
            function,
            frame: module.code.functions[index as usize].frame,
            calls: Vec::new(),
            shared: Vec::new(),
            guard: Guard::ALWAYS,
            calls_by_address: false,
            at: function.at,
            shown: function.name.to_owned(),
            scopes: vec![Scope::default()],
            places: Vec::new(),
            start,
            module,
        };
        lowering.declare_parameters()?;
        Ok(lowering)
    }

    fn declare_parameters(&mut self) -> Result<()> {
        let info = &self.module.code.functions[self.index as usize];
        let slices: Vec<_> = info.params.iter().chain(&info.returns).copied().collect();
        let variables = self.function.params.iter().chain(&self.function.returns);
        for (variable, slice) in variables.zip(slices) {
            let symbol = if self.function.entry {
                Symbol::EntryParam(slice.offset)
            } else {
                Symbol::Frame { offset: slice.offset, bytes: slice.bytes }
            };
            self.declare(variable.at, variable.name, symbol)?;
        }
        Ok(())
    }

    /// Compiles the body; answers the kernel if it is one.
    pub(super) fn lower(mut self) -> Result<Option<Kernel>> {
        let function = self.function;
        let body = function.body.as_deref().unwrap_or(&[]);
        self.open(body)?;
        self.statements(body)?;
        self.scopes.pop();
        self.guard = Guard::ALWAYS;
        self.emit(Op::Return);
        self.patch()?;
        let code = &mut self.module.code;
        let hoisted = match function.entry {
            true => hoist(code, self.start, self.frame, place(&function.params, 0)?.1),
            false => Hoisted::default(),
        };
        let mut unset = unset(code, self.start, self.frame);
        unset.retain(|reg| !hoisted.writes(*reg));
        let info = &mut self.module.code.functions[self.index as usize];
        info.entry = self.start as u32;
        info.frame = self.frame;
        info.frame.local = self.frame.local.next_multiple_of(16);
        info.indirect = self.calls_by_address;
        info.calls = std::mem::take(&mut self.calls);
        info.shared = std::mem::take(&mut self.shared);
        (info.launch_ops, info.block_ops) = (hoisted.launch, hoisted.block);
        info.unset = unset;
        if !function.entry {
            return Ok(None);
        }
        self.kernel().map(Some)
    }

    fn kernel(&self) -> Result<Kernel> {
        let (params, end) = place(&self.function.params, 0)?;
        let mut kernel = Kernel {
            name: self.function.name.to_owned(),
            params,
            param_bytes: end as usize,
            local_bytes: self.frame.local as usize,
            registers: (self.frame.narrow + 2 * self.frame.wide).clamp(1, 255),
            function: self.index,
            ..Kernel::default()
        };
        for (word, numbers) in &self.function.tuning {
            let first = numbers.first().copied().unwrap_or(1);
            let block: Vec<u32> =
                (0..3).map(|axis| numbers.get(axis).map_or(1, |n| *n as u32)).collect();
            let threads = block.iter().fold(1_u32, |product, n| product.saturating_mul(*n));
            match *word {
                "maxntid" => kernel.max_threads_per_block = Some(threads),
                "reqntid" => {
                    kernel.required_block = <[u32; 3]>::try_from(block).ok();
                }
                "reqnctapercluster" => {
                    kernel.required_cluster = <[u32; 3]>::try_from(block).ok();
                }
                "minnctapersm" => kernel.min_blocks_per_multiprocessor = Some(first as u32),
                "maxnreg" => kernel.registers = kernel.registers.min(first as u32),
                _ => {}
            }
        }
        Ok(kernel)
    }

    /// An error at the current instruction.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> CompileError {
        CompileError::invalid(self.at, format!("{message} in '{}'", self.shown))
    }

    /// A refusal of the current instruction.
    pub(super) fn unsupported(&self, message: impl std::fmt::Display) -> CompileError {
        CompileError::new(
            CompileErrorKind::Unsupported,
            self.at,
            format!("{message} in '{}'", self.shown),
        )
    }

    /// Appends an instruction under the current guard.
    pub(super) fn emit(&mut self, op: Op) {
        self.module.code.insts.push(Inst { guard: self.guard, op });
        self.module.code.lines.push(self.at.line);
    }

    /// A new register of the type.
    pub(super) fn fresh(&mut self, ty: Type) -> Reg {
        let (counter, make): (_, fn(u32) -> Reg) = match ty {
            Type::Pred => (&mut self.frame.preds, Reg::pred),
            _ if ty.is_wide() => (&mut self.frame.wide, Reg::wide),
            _ => (&mut self.frame.narrow, Reg::narrow),
        };
        *counter += 1;
        make(*counter - 1)
    }

    fn open(&mut self, body: &[Statement<'a>]) -> Result<()> {
        let mut scope = Scope::default();
        for statement in body {
            if let Statement::Label(at, name) = statement {
                self.places.push(None);
                if scope.labels.insert(name, self.places.len() as u32 - 1).is_some() {
                    return Err(CompileError::invalid(
                        *at,
                        format!("label '{name}' is defined twice"),
                    ));
                }
            }
            if let Statement::Targets(name, list) = statement {
                scope.tables.insert(name, list.clone());
            }
            if let Statement::Prototype(name) = statement {
                scope.prototypes.insert(name);
            }
        }
        self.scopes.push(scope);
        Ok(())
    }

    fn statements(&mut self, body: &[Statement<'a>]) -> Result<()> {
        for statement in body {
            match statement {
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Label(_, name) => {
                    let here = self.module.code.insts.len() as u32;
                    let label =
                        self.scopes.last().and_then(|scope| scope.labels.get(name).copied());
                    if let Some(place) = label.and_then(|label| self.places.get_mut(label as usize))
                    {
                        *place = Some(here);
                    }
                }
                Statement::Block(block) => {
                    self.open(block)?;
                    self.statements(block)?;
                    self.scopes.pop();
                }
                Statement::Targets(..) | Statement::Prototype(_) => {}
                Statement::Instruction(instruction) => self.guarded(instruction)?,
            }
        }
        Ok(())
    }

    fn guarded(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.at = instruction.at;
        self.shown = instruction.full_name();
        self.guard = Guard::ALWAYS;
        if let Some((name, negated)) = instruction.guard {
            self.guard = Guard { pred: self.predicate(name)?, negated };
        }
        self.instruction(instruction)
    }

    fn variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        self.at = variable.at;
        let bytes = checked_bytes(variable)?;
        match variable.space {
            None => self.registers(variable),
            Some(Space::Local | Space::Param) => {
                let offset = u64::from(self.frame.local).next_multiple_of(variable.alignment());
                if offset + bytes > 512 << 10 {
                    return Err(CompileError::invalid(
                        variable.at,
                        "the frame exceeds 512 KiB of local memory",
                    ));
                }
                self.frame.local = (offset + bytes) as u32;
                let symbol = Symbol::Frame { offset: offset as u32, bytes: bytes as u32 };
                self.declare(variable.at, variable.name, symbol)
            }
            Some(Space::Shared) => {
                let index = self.module.declare_shared(variable, bytes)?;
                if variable.linkage != Linkage::Extern {
                    // It takes its place whether it is used or not.
                    self.shared.push(index);
                }
                self.declare(variable.at, variable.name, Symbol::Shared(index))
            }
            Some(_) => match variable.linkage {
                Linkage::Extern => {
                    Err(CompileError::invalid(variable.at, "not allowed inside a function"))
                }
                _ => Err(CompileError::unsupported(
                    variable.at,
                    "global variables inside a function",
                )),
            },
        }
    }

    fn registers(&mut self, variable: &Variable<'a>) -> Result<()> {
        if variable.vector > 1 || !variable.dims.is_empty() || variable.ty == Type::B128 {
            return Err(CompileError::unsupported(
                variable.at,
                "vector, array and 128-bit registers",
            ));
        }
        let Some(count) = variable.count else {
            let reg = self.fresh(variable.ty);
            return self.declare(variable.at, variable.name, Symbol::Register(reg, variable.ty));
        };
        let first = self.fresh(variable.ty).0;
        for _ in 1..count {
            self.fresh(variable.ty);
        }
        let total =
            u64::from(self.frame.narrow) + u64::from(self.frame.wide) + u64::from(self.frame.preds);
        if total > 1 << 20 {
            return Err(CompileError::invalid(variable.at, "too many registers"));
        }
        let family = Family { count, first, ty: variable.ty };
        if let Some(scope) = self.scopes.last_mut() {
            scope.families.insert(variable.name, family);
        }
        Ok(())
    }

    fn declare(&mut self, at: Position, name: &'a str, symbol: Symbol) -> Result<()> {
        match self.scopes.last_mut().map(|scope| scope.names.insert(name, symbol)) {
            Some(None) => Ok(()),
            _ => Err(CompileError::invalid(at, format!("'{name}' is declared twice"))),
        }
    }

    /// What a name means, innermost scope first.
    pub(super) fn lookup(&self, name: &str) -> Option<Symbol> {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        for scope in self.scopes.iter().rev() {
            if let Some(symbol) = scope.names.get(name) {
                return Some(*symbol);
            }
            // `%r10` may be number 10 of `%r` or number 0 of `%r1`.
            for split in digits..name.len() {
                let (prefix, number) = name.split_at(split);
                let (Some(family), Ok(number)) =
                    (scope.families.get(prefix), number.parse::<u64>())
                else {
                    continue;
                };
                let canonical =
                    number == 0 && name.len() - split == 1 || !name[split..].starts_with('0');
                if canonical && number < family.count {
                    return Some(Symbol::Register(Reg(family.first + number as u32), family.ty));
                }
            }
        }
        self.module.symbols.get(name).map(|symbol| match symbol {
            super::ModuleSymbol::Global(index) => Symbol::Global(*index),
            super::ModuleSymbol::Shared(index) => Symbol::Shared(*index),
            super::ModuleSymbol::Function(index) => Symbol::Function(*index),
        })
    }

    /// The number of a label.
    pub(super) fn label(&self, name: &str) -> Result<u32> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.labels.get(name));
        found.copied().ok_or_else(|| self.error(format!("unknown label '{name}'")))
    }

    /// The labels of a `.branchtargets`.
    pub(super) fn table(&self, name: &str) -> Result<Vec<(Position, &'a str)>> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.tables.get(name));
        found.cloned().ok_or_else(|| self.error(format!("unknown branch targets '{name}'")))
    }

    /// Whether the name is that of a `.callprototype`.
    pub(super) fn is_prototype(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.prototypes.contains(name))
    }

    /// Replaces label numbers by places.
    fn patch(&mut self) -> Result<()> {
        let places: Option<Vec<u32>> = self.places.iter().copied().collect();
        let Some(places) = places else {
            return Err(self.error("a label has no place"));
        };
        let code = &mut self.module.code;
        for inst in code.insts.iter_mut().skip(self.start) {
            match &mut inst.op {
                Op::Branch { target } => *target = places[*target as usize],
                Op::BranchTable { list, count, .. } => {
                    for target in code.targets.iter_mut().skip(*list as usize).take(*count as usize)
                    {
                        *target = places[*target as usize];
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is known of a function.
    pub(super) fn info(&self, index: u32) -> &FunctionInfo {
        &self.module.code.functions[index as usize]
    }
}
