//! Loading code into a context: memory for its variables, handles for its kernels.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUresult};

use super::{Function, Global, KernelCode, Module, Settings};
use crate::context::Context;
use crate::handle::Id;
use crate::memory::AllocationKind;
use crate::ptx;
use crate::sim::{Answer, Sim, State};

impl Module {
    /// Loads code into a context.
    pub(crate) fn load(
        sim: &Sim,
        state: &mut State,
        context: Id<Context>,
        code: &ptx::Module,
        kernels: &[(Arc<KernelCode>, Settings)],
        of_library: bool,
    ) -> Result<Id<Module>, CUresult> {
        let addresses = place_globals(sim, state, context, code)?;
        let mut globals = HashMap::new();
        for (global, address) in code.globals().iter().zip(&addresses) {
            let known = Global { address: *address, size: global.size };
            globals.insert(global.name.clone(), known);
        }
        let addresses: Arc<[u64]> = addresses.into();
        let module = state.modules.insert(Module {
            context,
            functions: Vec::new(),
            globals,
            addresses: addresses.clone(),
            of_library,
        });
        let add = |(code, settings): &(Arc<KernelCode>, Settings)| {
            let (code, settings) = (code.clone(), settings.clone());
            state.functions.insert(Function {
                module,
                context,
                code,
                globals: addresses.clone(),
                settings,
            })
        };
        let functions = kernels.iter().map(add).collect();
        if let Some(module) = state.modules.get_mut(module) {
            module.functions = functions;
        }
        Ok(module)
    }

    /// Frees the memory of its variables.
    pub(crate) fn free_globals(&self, sim: &Sim) {
        for address in self.addresses.iter() {
            sim.memory.free(*address);
        }
    }
}

/// Allocates and initialises the variables.
fn place_globals(
    sim: &Sim,
    state: &State,
    context: Id<Context>,
    code: &ptx::Module,
) -> Result<Vec<u64>, CUresult> {
    let device = state.context(context)?.core.device;
    let mut addresses: Vec<u64> = Vec::new();
    for global in code.globals() {
        let bytes = global.size.max(1);
        match sim.memory.allocate(AllocationKind::Global, device, Some(context), None, bytes) {
            Ok(address) => addresses.push(address),
            Err(code) => {
                addresses.iter().for_each(|address| drop(sim.memory.free(*address)));
                return Err(code);
            }
        }
    }
    for (global, address) in code.globals().iter().zip(&addresses) {
        initialise(sim, global, *address, &addresses)?;
    }
    Ok(addresses)
}

fn initialise(sim: &Sim, global: &ptx::Global, address: u64, addresses: &[u64]) -> Answer {
    let mut bytes = global.initial.clone();
    for relocation in &global.relocations {
        let end = relocation.offset + size_of::<u64>();
        let known = addresses.get(relocation.global).copied();
        let (Some(place), Some(target)) = (bytes.get_mut(relocation.offset..end), known) else {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        };
        let target = target.wrapping_add_signed(relocation.addend);
        place.copy_from_slice(&target.to_ne_bytes());
    }
    if bytes.is_empty() {
        return Ok(());
    }
    // The memory was allocated for it just now.
    sim.memory.write(address, &bytes).map_err(|_| CUDA_ERROR_NOT_SUPPORTED)
}
