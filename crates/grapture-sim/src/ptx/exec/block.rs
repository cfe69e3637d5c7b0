//! A block of threads.

use super::barrier::Barriers;
use super::memory::{GlobalMemory, Memory};
use super::registers::LANES;
use super::special::Place;
use super::warp::{Machine, Status, Stop, Warp};
use crate::memory::accesses::Accesses;
use crate::ptx::fault::{Fault, FaultKind};

/// Instructions that a warp runs before the next one has its turn.
const TURN: u64 = 4096;

/// The measures of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks by axis.
    pub grid: [u32; 3],
    /// Threads of a block by axis.
    pub block: [u32; 3],
    /// Blocks of a cluster by axis.
    pub cluster: [u32; 3],
    /// Static shared memory, up to where the dynamic starts.
    pub static_shared: usize,
    /// Dynamic shared memory.
    pub dynamic_shared: usize,
    /// The number of the launch.
    pub grid_id: u64,
    /// The multiprocessors of the device.
    pub multiprocessors: u32,
    /// The address of what the blocks of a cooperative launch share, or zero.
    pub workspace: u64,
}

impl Shape {
    fn threads(&self) -> u32 {
        self.block.iter().product()
    }
}

/// A block of threads; it can be used again for another block of the same launch.
#[derive(Debug)]
pub struct Block<'a> {
    machine: &'a Machine<'a>,
    shape: Shape,
    memory: Memory<'a>,
    barriers: Barriers,
    warps: Vec<Warp>,
    index: [u32; 3],
}

impl<'a> Block<'a> {
    /// A block that is yet to be started.
    pub fn new(
        machine: &'a Machine<'a>,
        shape: Shape,
        global: &'a dyn GlobalMemory,
        params: &'a [u8],
        notes: bool,
    ) -> Self {
        let shared = shape.static_shared + shape.dynamic_shared;
        let warps = shape.threads().div_ceil(LANES as u32);
        Self {
            machine,
            shape,
            memory: Memory::new(global, shared, params, notes),
            barriers: Barriers::new(shape.threads()),
            warps: (0..warps).map(|warp| Warp::new(machine, place(&shape, warp))).collect(),
            index: [0; 3],
        }
    }

    /// Starts it as the block of the given place.
    pub fn start(&mut self, index: [u32; 3]) {
        self.index = index;
        let threads = self.shape.threads();
        self.barriers.reset(threads);
        // The region was made with this length, so this cannot be refused.
        let _ = self.memory.shared.fill(0, self.memory.shared.len(), 0);
        for (warp, number) in self.warps.iter_mut().zip(0_u32..) {
            let left = threads - number * LANES as u32;
            let mask = if left >= 32 { u32::MAX } else { (1 << left) - 1 };
            warp.start(self.machine, &mut self.memory, index, mask);
        }
    }

    /// What it noted of accesses to global memory.
    pub fn take_notes(&mut self) -> Accesses {
        self.memory.take_notes()
    }

    /// The instructions that its threads have run.
    pub fn executed(&self) -> u64 {
        self.warps.iter().map(|warp| warp.executed).sum()
    }

    fn clock(&self) -> u64 {
        self.warps.iter().map(|warp| warp.clock).sum()
    }

    /// Gives every warp a turn; `true` when all threads have ended.
    ///
    /// # Errors
    /// What a thread did wrong, or a deadlock.
    pub fn turn(&mut self) -> Result<bool, Box<Fault>> {
        let before = self.clock();
        let mut done = true;
        let mut paused = false;
        for number in 0..self.warps.len() {
            // INVARIANT: `number` counts the warps, and their number never changes.
            let warp = &mut self.warps[number];
            match warp.run(self.machine, &mut self.memory, &mut self.barriers, TURN) {
                Ok(status) => {
                    done &= status == Status::Done;
                    paused |= status == Status::Paused;
                }
                Err(stop) => return Err(Box::new(self.fault(number, stop))),
            }
        }
        if done || paused || self.clock() != before {
            return Ok(done);
        }
        Err(Box::new(self.deadlock()))
    }

    fn deadlock(&self) -> Fault {
        let waiting = self
            .warps
            .iter()
            .enumerate()
            .find_map(|(number, warp)| Some((number, warp.waiting()?)));
        let (number, (pc, lane)) = waiting.unwrap_or((0, (0, 0)));
        self.fault(number, Stop { kind: FaultKind::BarrierDeadlock, lane, pc })
    }

    fn fault(&self, warp: usize, stop: Stop) -> Fault {
        let tid = self.warps.get(warp).map_or([0; 3], |warp| {
            warp.place.tid.map(|axis| axis.get(stop.lane as usize).copied().unwrap_or(0))
        });
        Fault {
            kind: stop.kind,
            kernel: self.machine.kernel.name.clone(),
            line: self.machine.code.lines.get(stop.pc as usize).copied().unwrap_or(0),
            block: self.index,
            thread: tid,
        }
    }

    /// The fault of being stopped from outside.
    pub fn stopped(&self) -> Fault {
        let (pc, lane) = self.warps.iter().find_map(Warp::waiting).unwrap_or((0, 0));
        self.fault(0, Stop { kind: FaultKind::Stopped, lane, pc })
    }
}

fn place(shape: &Shape, warp: u32) -> Place {
    let [x, y, _] = shape.block;
    let thread = |lane: usize| warp * LANES as u32 + lane as u32;
    Place {
        tid: [
            std::array::from_fn(|lane| thread(lane) % x),
            std::array::from_fn(|lane| thread(lane) / x % y),
            std::array::from_fn(|lane| thread(lane) / x / y),
        ],
        ntid: shape.block,
        ctaid: [0; 3],
        nctaid: shape.grid,
        cluster: shape.cluster,
        warp,
        grid: shape.grid_id,
        multiprocessors: shape.multiprocessors,
        workspace: shape.workspace,
        dynamic_shared: shape.dynamic_shared as u32,
        total_shared: (shape.static_shared + shape.dynamic_shared) as u32,
    }
}
