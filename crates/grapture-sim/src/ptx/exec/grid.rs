//! A launch: all blocks of a grid, on some threads of the host.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::block::{Block, Shape};
use super::memory::GlobalMemory;
use super::registers::{Constants, LANES, Lanes};
use super::warp::Machine;
use super::workspace::{self, WithWorkspace};
use crate::memory::accesses::Accesses;
use crate::ptx::extra::Console;
use crate::ptx::fault::{Fault, FaultKind};
use crate::ptx::ir::Pooled;
use crate::ptx::module::{Kernel, Module};
use crate::ptx::vectors::has_vectors;

/// Turns of an unfinished block before another one is begun beside it.
const PATIENCE: u32 = 64;
/// Blocks that a host thread has begun and not finished, at most, unless the launch is cooperative.
const RESIDENT: usize = 16;

/// What a launch may be told beyond its measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Stops the launch soon after it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// All blocks run at the same time, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster by axis; each block is one where absent.
    pub cluster: Option<[u32; 3]>,
    /// What `%gridid` reads.
    pub grid_id: u64,
    /// What `%nsmid` reads.
    pub multiprocessors: u32,
    /// Where `printf` of the kernel writes; nowhere if absent.
    pub console: Option<&'a dyn Console>,
    /// Where accesses to global memory are noted, which makes them slow.
    pub accesses: Option<&'a Mutex<Accesses>>,
}

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The module.
    pub module: &'a Module,
    /// The kernel, by its place in [`Module::kernels`].
    pub kernel: usize,
    /// Blocks by axis.
    pub grid: [u32; 3],
    /// Threads of a block by axis.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: usize,
    /// The parameters, laid out as [`Kernel::params`] says.
    pub params: &'a [u8],
    /// The address of each of [`Module::globals`].
    pub global_addresses: &'a [u64],
    /// The rest.
    pub options: Options<'a>,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Instructions that threads executed, those switched off by a predicate left out.
    pub thread_instructions: u64,
}

/// What the host threads of a launch share.
struct Progress<'a> {
    next: AtomicU64,
    executed: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Fault>>,
    stop: Option<&'a AtomicBool>,
}

impl Progress<'_> {
    fn fail(&self, fault: Fault) {
        self.failed.store(true, Ordering::Relaxed);
        let mut first = self.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert(fault);
    }

    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Launch<'_> {
    /// Runs the kernel on `threads` threads of the host, and returns when it has ended.
    ///
    /// # Errors
    /// The first fault; the other blocks are abandoned.
    pub fn run(&self, memory: &dyn GlobalMemory, threads: usize) -> Result<RunStats, Fault> {
        let (kernel, shape) = self.check()?;
        let constants = self.constants(kernel);
        let code = &self.module.inner.code;
        let (console, vectors) = (self.options.console, has_vectors());
        let machine = Machine { code, kernel, constants, console, vectors };
        let total = self.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        let progress = Progress {
            next: AtomicU64::new(0),
            executed: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            fault: Mutex::new(None),
            stop: self.options.stop,
        };
        let memory = &WithWorkspace::new(memory);
        let work = || self.work(&machine, shape, memory, &progress, total);
        let threads = if self.options.cooperative { 1 } else { (threads as u64).clamp(1, total) };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let fault = progress.fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match fault {
            Some(fault) => Err(fault),
            None => Ok(RunStats { thread_instructions: progress.executed.into_inner() }),
        }
    }

    fn refuse(&self, why: &'static str) -> Fault {
        let kernel =
            self.module.kernels().get(self.kernel).map_or("", |kernel| &kernel.name).to_owned();
        Fault {
            kind: FaultKind::InvalidLaunch(why),
            kernel,
            line: 0,
            block: [0; 3],
            thread: [0; 3],
        }
    }

    fn check(&self) -> Result<(&Kernel, Shape), Fault> {
        let kernel =
            self.module.kernels().get(self.kernel).ok_or_else(|| self.refuse("no such kernel"))?;
        let product = |sizes: [u32; 3]| sizes.iter().map(|n| u128::from(*n)).product::<u128>();
        if product(self.grid) == 0 || product(self.block) == 0 {
            return Err(self.refuse("a dimension is zero"));
        }
        if product(self.block) > 1024 {
            return Err(self.refuse("more than 1024 threads in a block"));
        }
        if product(self.grid) > 1 << 62 {
            return Err(self.refuse("too many blocks"));
        }
        if self.params.len() < kernel.param_bytes {
            return Err(self.refuse("the parameters are too short"));
        }
        if self.global_addresses.len() < self.module.globals().len() {
            return Err(self.refuse("addresses of global variables are missing"));
        }
        let static_shared = if kernel.uses_dynamic_shared {
            kernel.static_shared_bytes.next_multiple_of(kernel.shared_align)
        } else {
            kernel.static_shared_bytes
        };
        if static_shared.saturating_add(self.dynamic_shared_bytes) > 1 << 30 {
            return Err(self.refuse("too much shared memory"));
        }
        let shape = Shape {
            grid: self.grid,
            block: self.block,
            cluster: self.options.cluster.unwrap_or([1; 3]),
            static_shared,
            dynamic_shared: self.dynamic_shared_bytes,
            grid_id: self.options.grid_id,
            multiprocessors: self.options.multiprocessors.max(1),
            workspace: if self.options.cooperative { workspace::ADDRESS } else { 0 },
        };
        Ok((kernel, shape))
    }

    /// The constants with the addresses of this launch.
    fn constants(&self, kernel: &Kernel) -> Constants {
        let value = |pooled: &Pooled| match *pooled {
            Pooled::Bits(bits) => bits,
            Pooled::Global(index, addend) => {
                let base = self.global_addresses.get(index as usize).copied().unwrap_or(0);
                base.wrapping_add(addend as u64)
            }
            Pooled::Shared(index, addend) => {
                // A variable that only other kernels use has no place here.
                let place = kernel.shared.iter().find(|(shared, _)| *shared == index);
                place.map_or(0, |(_, offset)| *offset).wrapping_add(addend as u64)
            }
        };
        let code = &self.module.inner.code;
        Constants {
            narrow: code.narrow.iter().map(|pooled| Lanes([value(pooled) as u32; LANES])).collect(),
            wide: code.wide.iter().map(|pooled| Lanes([value(pooled); LANES])).collect(),
        }
    }

    fn index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
    }

    /// What each host thread does: runs blocks until none is left.
    fn work<'w>(
        &'w self,
        machine: &'w Machine<'w>,
        shape: Shape,
        memory: &'w dyn GlobalMemory,
        progress: &'w Progress<'w>,
        total: u64,
    ) {
        let notes = self.options.accesses;
        let fresh = || Block::new(machine, shape, memory, self.params, notes.is_some());
        let (idle, running) = (Vec::new(), VecDeque::new());
        let mut worker = Worker { progress, total, idle, running, notes };
        let begin = |worker: &mut Worker<'w>| match worker.claim() {
            Some(number) => {
                let mut block = worker.idle.pop().unwrap_or_else(fresh);
                block.start(self.index(number));
                worker.running.push_back(block);
                true
            }
            None => false,
        };
        if self.options.cooperative {
            while begin(&mut worker) {}
        }
        let mut waited = 0;
        while !progress.failed.load(Ordering::Relaxed) {
            let crowded = worker.running.len() >= RESIDENT;
            if worker.running.is_empty() || (waited > PATIENCE && !crowded) {
                begin(&mut worker);
                waited = 0;
            }
            match worker.turn() {
                Some(true) => waited = 0,
                Some(false) => waited += 1,
                None => return,
            }
        }
    }
}

/// The blocks of one host thread.
struct Worker<'w> {
    progress: &'w Progress<'w>,
    total: u64,
    idle: Vec<Block<'w>>,
    running: VecDeque<Block<'w>>,
    notes: Option<&'w Mutex<Accesses>>,
}

impl Worker<'_> {
    /// The number of the next block that nobody has begun.
    fn claim(&self) -> Option<u64> {
        let number = self.progress.next.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then_some(number)
    }

    /// Gives the next block a turn; `true` when it has ended, `None` when there is none.
    fn turn(&mut self) -> Option<bool> {
        let mut block = self.running.pop_front()?;
        if self.progress.stopped() {
            self.progress.fail(block.stopped());
            return None;
        }
        let turn = block.turn();
        if let Some(notes) = self.notes {
            let mut notes = notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            notes.merge(block.take_notes());
        }
        match turn {
            Ok(true) => {
                self.progress.executed.fetch_add(block.executed(), Ordering::Relaxed);
                self.idle.push(block);
                Some(true)
            }
            Ok(false) => {
                self.running.push_back(block);
                Some(false)
            }
            Err(fault) => {
                self.progress.fail(*fault);
                None
            }
        }
    }
}
