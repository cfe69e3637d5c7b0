//! From the tree to the compact form.

mod atomic;
mod compare;
mod conditional;
mod control;
mod data;
mod extra;
mod function;
mod globals;
mod hoist;
mod instruction;
mod liveness;
mod memory;
mod operand;
mod pool;
mod qualifiers;
mod tensor;
mod unsupported;
mod warp;

use std::collections::{HashMap, HashSet};

use super::ast::{Ast, Function, Linkage, Variable};
use super::error::{CompileError, Result};
use super::exec::registers::Frame;
use super::ir::{Code, FunctionInfo, Slice};
use super::module::{Global, Kernel, ModuleInner, Param};
use super::types::Space;
use function::FunctionLowering;
use pool::Pool;

/// What a name at module scope means.
#[derive(Clone, Copy, Debug)]
enum ModuleSymbol {
    Global(u32),
    Shared(u32),
    Function(u32),
}

/// A variable in shared memory.
#[derive(Clone, Copy, Debug)]
struct SharedVariable {
    bytes: u64,
    align: u64,
    dynamic: bool,
}

/// A module while it is compiled.
#[derive(Debug, Default)]
struct ModuleLowering<'a> {
    code: Code,
    pool: Pool,
    symbols: HashMap<&'a str, ModuleSymbol>,
    shared: Vec<SharedVariable>,
    globals: Vec<Global>,
    /// The number of `.target`.
    processor: u32,
}

/// Compiles a module.
///
/// # Errors
/// What is wrong or not supported, with its place.
pub(super) fn lower(ast: &Ast<'_>) -> Result<ModuleInner> {
    let digits =
        ast.target.trim_start_matches("sm_").trim_end_matches(|c: char| !c.is_ascii_digit());
    let mut module =
        ModuleLowering { processor: digits.parse().unwrap_or(0), ..ModuleLowering::default() };
    let functions = module.declare_functions(ast)?;
    for variable in &ast.variables {
        module.declare_variable(variable)?;
    }
    module.initialise(&ast.variables)?;
    let mut kernels = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        if function.body.is_some() {
            let kernel = FunctionLowering::new(&mut module, index as u32, function)?.lower()?;
            kernels.extend(kernel);
        }
    }
    for kernel in &mut kernels {
        module.lay_out_shared(kernel);
        kernel.unbounded_stack = module.stack_is_unbounded(kernel.function);
    }
    let ModuleLowering { mut code, pool, globals, .. } = module;
    (code.narrow, code.wide) = pool.into_parts();
    Ok(ModuleInner { code, kernels, globals, version: ast.version, target: ast.target.to_owned() })
}

impl<'a> ModuleLowering<'a> {
    /// Gives every function its number; a definition takes the place of its declaration.
    fn declare_functions<'f>(&mut self, ast: &'f Ast<'a>) -> Result<Vec<&'f Function<'a>>> {
        let mut functions: Vec<&Function<'a>> = Vec::new();
        for function in &ast.functions {
            if let Some(ModuleSymbol::Function(index)) = self.symbols.get(function.name) {
                let known = &mut functions[*index as usize];
                if known.body.is_some() && function.body.is_some() {
                    return Err(CompileError::invalid(
                        function.at,
                        format!("'{}' is defined twice", function.name),
                    ));
                }
                if function.body.is_some() {
                    *known = function;
                }
                continue;
            }
            self.symbols.insert(function.name, ModuleSymbol::Function(functions.len() as u32));
            functions.push(function);
        }
        for function in &functions {
            let info = function_info(function)?;
            self.code.functions.push(info);
        }
        Ok(functions)
    }

    fn declare_variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        let bytes = checked_bytes(variable)?;
        let symbol = match variable.space {
            Some(Space::Shared) => ModuleSymbol::Shared(self.declare_shared(variable, bytes)?),
            // Nothing is linked: what is `.extern` is here too, as a driver has it.
            Some(space @ (Space::Global | Space::Const)) => {
                self.globals.push(Global {
                    name: variable.name.to_owned(),
                    space,
                    size: bytes as usize,
                    align: variable.alignment() as usize,
                    initial: Vec::new(),
                    relocations: Vec::new(),
                });
                ModuleSymbol::Global(self.globals.len() as u32 - 1)
            }
            _ => {
                return Err(CompileError::invalid(
                    variable.at,
                    "this space is not allowed at module scope",
                ));
            }
        };
        if self.symbols.insert(variable.name, symbol).is_some() {
            return Err(CompileError::invalid(
                variable.at,
                format!("'{}' is declared twice", variable.name),
            ));
        }
        Ok(())
    }

    fn declare_shared(&mut self, variable: &Variable<'_>, bytes: u64) -> Result<u32> {
        if variable.init.is_some() {
            return Err(CompileError::invalid(
                variable.at,
                "a shared variable cannot be initialised",
            ));
        }
        let dynamic = variable.linkage == Linkage::Extern;
        self.shared.push(SharedVariable { bytes, align: variable.alignment(), dynamic });
        Ok(self.shared.len() as u32 - 1)
    }

    /// The functions that a function may run, itself included.
    fn reachable(&self, start: u32) -> HashSet<u32> {
        let mut seen = HashSet::from([start]);
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            for callee in &self.code.functions[index as usize].calls {
                if seen.insert(*callee) {
                    open.push(*callee);
                }
            }
        }
        seen
    }

    /// Whether a function can be active twice at once, or one is called by its address.
    fn stack_is_unbounded(&self, start: u32) -> bool {
        self.reachable(start).into_iter().any(|index| {
            let info = &self.code.functions[index as usize];
            info.indirect
                || info.calls.iter().any(|callee| self.reachable(*callee).contains(&index))
        })
    }

    /// Places the shared variables that a kernel may touch: static ones first, dynamic ones behind.
    fn lay_out_shared(&self, kernel: &mut Kernel) {
        let mut used: Vec<u32> = Vec::new();
        for index in self.reachable(kernel.function) {
            used.extend(&self.code.functions[index as usize].shared);
        }
        used.sort_unstable();
        used.dedup();
        let mut end = 0_u64;
        let mut align = 16_u64;
        for index in used.iter().filter(|index| !self.shared[**index as usize].dynamic) {
            let variable = self.shared[*index as usize];
            end = end.next_multiple_of(variable.align);
            kernel.shared.push((*index, end));
            end += variable.bytes;
        }
        kernel.static_shared_bytes = end as usize;
        let dynamic: Vec<u32> =
            used.into_iter().filter(|index| self.shared[*index as usize].dynamic).collect();
        for index in &dynamic {
            align = align.max(self.shared[*index as usize].align);
        }
        for index in &dynamic {
            kernel.shared.push((*index, end.next_multiple_of(align)));
        }
        kernel.uses_dynamic_shared = !dynamic.is_empty();
        kernel.shared_align = align as usize;
    }
}

/// The size of a variable, which must be sane.
fn checked_bytes(variable: &Variable<'_>) -> Result<u64> {
    match variable.bytes() {
        Some(bytes) if bytes <= 1 << 40 => Ok(bytes),
        _ => Err(CompileError::invalid(variable.at, format!("'{}' is too large", variable.name))),
    }
}

/// Places parameters one behind the other.
fn place(variables: &[Variable<'_>], from: u64) -> Result<(Vec<Param>, u64)> {
    let mut end = from;
    let mut params = Vec::new();
    for variable in variables {
        if variable.space != Some(Space::Param) {
            return Err(CompileError::unsupported(
                variable.at,
                "only .param parameters are supported",
            ));
        }
        let bytes = checked_bytes(variable)?;
        let align = variable.alignment();
        let offset = end.next_multiple_of(align);
        end = offset + bytes;
        if end > 1 << 20 {
            return Err(CompileError::invalid(variable.at, "the parameters are too large"));
        }
        params.push(Param { offset: offset as usize, size: bytes as usize, align: align as usize });
    }
    Ok((params, end))
}

fn slices(params: &[Param]) -> Vec<Slice> {
    params
        .iter()
        .map(|param| Slice { offset: param.offset as u32, bytes: param.size as u32 })
        .collect()
}

/// A function before its body is compiled; parameters and results start its frame.
fn function_info(function: &Function<'_>) -> Result<FunctionInfo> {
    let (params, end) = place(&function.params, 0)?;
    let (returns, end) = place(&function.returns, end)?;
    Ok(FunctionInfo {
        name: function.name.to_owned(),
        entry: 0,
        defined: function.body.is_some(),
        frame: Frame { local: if function.entry { 0 } else { end as u32 }, ..Frame::default() },
        params: slices(&params),
        returns: slices(&returns),
        indirect: false,
        calls: Vec::new(),
        shared: Vec::new(),
        launch_ops: Vec::new(),
        block_ops: Vec::new(),
        unset: Vec::new(),
    })
}
