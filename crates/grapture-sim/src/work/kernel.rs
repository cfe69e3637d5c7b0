//! Kernel launches.

use std::sync::{Arc, Mutex};

use grapture_sys::{
    CUDA_ERROR_ASSERT, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_MISALIGNED_ADDRESS,
};

use crate::device;
use crate::fault::Fault;
use crate::handle::Id;
use crate::memory::Memory;
use crate::memory::accesses::Accesses;
use crate::module::{Function, KernelCode};
use crate::ptx::{self, FaultKind, GlobalMemory, Region};
use crate::sim::{Sim, lock};
use crate::work::ConditionalWords;

/// A launch of fewer threads than this runs on the worker alone.
const SMALL: u64 = 4096;

/// The launch attributes that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchAttributes {
    /// All blocks are resident at once.
    pub(crate) cooperative: bool,
    /// Blocks of a cluster, where given.
    pub(crate) cluster: Option<[u32; 3]>,
    /// The priority, where given.
    pub(crate) priority: Option<i32>,
    /// Programmatic stream serialization: may start before the work before it is done.
    pub(crate) programmatic: bool,
    /// What only tunes where and how fast it runs.
    pub(crate) tuning: Tuning,
}

/// Attributes that are told back, and change nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// The words of the access policy window.
    pub(crate) window: [u32; 8],
    /// The preference for the placing of clusters.
    pub(crate) cluster_policy: u32,
    /// The synchronization domains that the default and the remote one stand for.
    pub(crate) domains: [u8; 2],
    /// The synchronization domain.
    pub(crate) domain: u32,
    /// The share of shared memory.
    pub(crate) carveout: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let (window, domains) = ([0; 8], [0, 1]);
        Tuning { window, cluster_policy: 0, domains, domain: 0, carveout: 0 }
    }
}

/// A kernel with everything that its launch needs.
#[derive(Clone, Debug)]
pub(crate) struct KernelWork {
    /// The function's handle, for questions about the launch.
    pub(crate) function: Id<Function>,
    /// The code, which outlives the module.
    pub(crate) code: Arc<KernelCode>,
    /// The addresses of the module's variables.
    pub(crate) globals: Arc<[u64]>,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    /// The parameters, laid out as the kernel declares them.
    pub(crate) params: Arc<[u8]>,
    /// The attributes.
    pub(crate) attributes: LaunchAttributes,
    /// The cluster that a node of an executable has kept, whatever the attributes name.
    pub(crate) kept_cluster: Option<[u32; 3]>,
    /// The conditional handles that it can set, in a launch of a graph that has some.
    pub(crate) conditionals: Option<ConditionalWords>,
}

/// All that has an address, as a kernel sees it.
struct Reach<'a> {
    memory: &'a Memory,
    conditionals: Option<&'a ConditionalWords>,
}

impl GlobalMemory for Reach<'_> {
    fn find(&self, address: u64) -> Option<Region> {
        let Some(found) = self.memory.find(address) else {
            return self.conditionals?.region(address);
        };
        Some(Region::whole(found.start, found.bytes.clone()))
    }
}

impl KernelWork {
    /// The kernel's name.
    pub(crate) fn name(&self) -> &str {
        self.code.module.kernels().get(self.code.index).map_or("", |kernel| &kernel.name)
    }

    /// The cluster that was given, or that the kernel was compiled for.
    pub(crate) fn named_cluster(&self) -> Option<[u32; 3]> {
        self.attributes.cluster.or(self.code.required_cluster)
    }

    /// The cluster that it is launched in.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        self.kept_cluster.or(self.named_cluster())
    }

    /// Keeps the cluster of the launch in whose place it comes in an executable: where this one names
    /// none, and where the executable was uploaded, unless another kernel comes.
    pub(crate) fn update_cluster(&mut self, old: &KernelWork, uploaded: bool) {
        let stays = uploaded && self.function == old.function;
        let new = self.named_cluster().filter(|_| !stays);
        // A block is a cluster of its own where none was given.
        self.kept_cluster = new.or(old.cluster()).or(stays.then_some([1; 3]));
    }

    /// Interprets it.
    pub(crate) fn run(&self, sim: &Arc<Sim>, accesses: Option<&mut Accesses>) -> Result<(), Fault> {
        let noted = Mutex::default();
        let launch = ptx::Launch {
            module: &self.code.module,
            kernel: self.code.index,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes as usize,
            params: &self.params,
            global_addresses: &self.globals,
            options: ptx::Options {
                stop: Some(sim.engine.stop_flag()),
                cooperative: self.attributes.cooperative,
                cluster: self.cluster(),
                grid_id: 0,
                multiprocessors: device::MULTIPROCESSORS as u32,
                console: Some(&sim.console),
                accesses: accesses.is_some().then_some(&noted),
            },
        };
        let threads = self.grid.iter().chain(&self.block).map(|n| u64::from(*n)).product::<u64>();
        let workers = if threads < SMALL { 1 } else { sim.config.worker_count() };
        let reach = Reach { memory: &sim.memory, conditionals: self.conditionals.as_ref() };
        let outcome = launch.run(&reach, workers);
        // What it printed is seen before anyone learns that it has ended.
        sim.console.flush();
        if let Some(accesses) = accesses {
            accesses.merge(std::mem::take(&mut *lock(&noted)));
        }
        match outcome {
            Ok(_) => Ok(()),
            Err(fault) => translate(sim, &fault),
        }
    }
}

/// What the driver says of a kernel's fault.
fn translate(sim: &Sim, fault: &ptx::Fault) -> Result<(), Fault> {
    let code = match fault.kind {
        FaultKind::Stopped => return Ok(()),
        FaultKind::IllegalAddress { address, len, .. } => {
            let why = sim.memory.snapshot().lost(address, len);
            return Err(Fault::new(CUDA_ERROR_ILLEGAL_ADDRESS, format!("{fault}: {why}")));
        }
        FaultKind::Misaligned { address, .. } => {
            let text = match sim.memory.snapshot().describe(address) {
                Some(place) => format!("{fault}: it lies in {place}"),
                None => fault.to_string(),
            };
            return Err(Fault::new(CUDA_ERROR_MISALIGNED_ADDRESS, text));
        }
        FaultKind::Uninitialised { address, .. } => {
            let place = sim.memory.snapshot().describe(address).unwrap_or_default();
            let text = format!("{fault}: nobody wrote there since it was allocated: {place}");
            return Err(Fault::new(CUDA_ERROR_LAUNCH_FAILED, text));
        }
        FaultKind::Assert => CUDA_ERROR_ASSERT,
        // On a device it would hang until a watchdog ends it.
        FaultKind::BarrierDeadlock => CUDA_ERROR_LAUNCH_TIMEOUT,
        FaultKind::InvalidBarrier | FaultKind::IllegalInstruction => CUDA_ERROR_ILLEGAL_INSTRUCTION,
        FaultKind::InvalidFunction { .. } => CUDA_ERROR_INVALID_PC,
        FaultKind::Trap | FaultKind::StackOverflow | FaultKind::InvalidLaunch(_) => {
            CUDA_ERROR_LAUNCH_FAILED
        }
    };
    Err(Fault::new(code, fault.to_string()))
}
