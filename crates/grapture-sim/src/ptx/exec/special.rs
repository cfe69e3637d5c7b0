//! Special registers.

use std::time::{SystemTime, UNIX_EPOCH};

use super::registers::LANES;

/// The bytes of shared memory of each block that the system keeps.
const RESERVED_SHARED: u32 = 1024;

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the register of the same name; the number is the axis
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    Clock,
    ClockHigh,
    Clock64,
    GlobalTimer,
    GlobalTimerLow,
    GlobalTimerHigh,
    DynamicShared,
    TotalShared,
    AggregateShared,
    ClusterId(u8),
    ClusterCount(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterRank,
    ClusterSize,
    /// One of the registers that a driver may set.
    Environment(u8),
}

impl Special {
    /// The register of that name.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some((base, axis)) = name.split_once('.') {
            let axis = match axis {
                "x" => 0,
                "y" => 1,
                "z" => 2,
                _ => return None,
            };
            return Some(match base {
                "%tid" => Self::Tid(axis),
                "%ntid" => Self::Ntid(axis),
                "%ctaid" => Self::Ctaid(axis),
                "%nctaid" => Self::Nctaid(axis),
                "%clusterid" => Self::ClusterId(axis),
                "%nclusterid" => Self::ClusterCount(axis),
                "%cluster_ctaid" => Self::ClusterCtaid(axis),
                "%cluster_nctaid" => Self::ClusterNctaid(axis),
                _ => return None,
            });
        }
        Some(match name {
            "%laneid" => Self::LaneId,
            "%warpid" => Self::WarpId,
            "%nwarpid" => Self::NwarpId,
            "%smid" => Self::SmId,
            "%nsmid" => Self::NsmId,
            "%gridid" => Self::GridId,
            "%lanemask_eq" => Self::LaneMaskEq,
            "%lanemask_lt" => Self::LaneMaskLt,
            "%lanemask_le" => Self::LaneMaskLe,
            "%lanemask_gt" => Self::LaneMaskGt,
            "%lanemask_ge" => Self::LaneMaskGe,
            "%clock" | "%clock_lo" => Self::Clock,
            "%clock_hi" => Self::ClockHigh,
            "%clock64" => Self::Clock64,
            name if name.starts_with("%envreg") => {
                let number = name.strip_prefix("%envreg")?.parse().ok()?;
                (number < 32).then_some(Self::Environment(number))?
            }
            "%globaltimer" => Self::GlobalTimer,
            "%globaltimer_lo" => Self::GlobalTimerLow,
            "%globaltimer_hi" => Self::GlobalTimerHigh,
            "%dynamic_smem_size" => Self::DynamicShared,
            "%total_smem_size" => Self::TotalShared,
            "%aggr_smem_size" => Self::AggregateShared,
            "%cluster_ctarank" => Self::ClusterRank,
            "%cluster_nctarank" => Self::ClusterSize,
            _ => return None,
        })
    }

    /// Whether it has 64 bits.
    pub fn is_wide(self) -> bool {
        matches!(self, Self::Clock64 | Self::GlobalTimer | Self::GridId)
    }
}

/// What the special registers of a warp depend on.
#[derive(Clone, Debug)]
pub struct Place {
    /// The thread of each lane, by axis.
    pub tid: [[u32; LANES]; 3],
    /// The size of a block.
    pub ntid: [u32; 3],
    /// The block.
    pub ctaid: [u32; 3],
    /// The size of the grid.
    pub nctaid: [u32; 3],
    /// The size of a cluster, in blocks.
    pub cluster: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// The number of the launch.
    pub grid: u64,
    /// The multiprocessors of the device.
    pub multiprocessors: u32,
    /// Dynamic shared memory.
    pub dynamic_shared: u32,
    /// All shared memory.
    pub total_shared: u32,
    /// The address of what the blocks of a cooperative launch share; zero in any other.
    pub workspace: u64,
}

impl Place {
    /// `%tid` along an axis.
    pub fn thread(&self, axis: u8) -> &[u32; LANES] {
        // INVARIANT: `Special::parse` makes axes 0, 1 and 2 only.
        &self.tid[usize::from(axis)]
    }

    /// `%ctaid` along an axis.
    pub fn block(&self, axis: u8) -> u32 {
        // INVARIANT: as for `thread`.
        self.ctaid[usize::from(axis)]
    }

    /// A number for each axis, from the block, the size of the grid and that of a cluster there.
    fn by_axis(&self, f: fn(u32, u32, u32) -> u32) -> [u32; 3] {
        std::array::from_fn(|n| f(self.ctaid[n], self.nctaid[n], self.cluster[n].max(1)))
    }

    /// The values of a register in all lanes; `clock` counts the instructions of the warp.
    pub fn read(&self, what: Special, clock: u64) -> [u64; LANES] {
        let all = |value: u32| [u64::from(value); LANES];
        let axis =
            |values: &[u32; 3], axis: u8| all(values.get(usize::from(axis)).copied().unwrap_or(0));
        let each = |f: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let threads = self.ntid.iter().product::<u32>();
        let block = u64::from(self.ctaid[0]) + u64::from(self.ctaid[1]) * u64::from(self.nctaid[0]);
        match what {
            Special::Tid(axis) => self.thread(axis).map(u64::from),
            Special::Ntid(n) => axis(&self.ntid, n),
            Special::Ctaid(n) => axis(&self.ctaid, n),
            Special::Nctaid(n) => axis(&self.nctaid, n),
            Special::LaneId => each(|lane| lane),
            Special::WarpId => all(self.warp),
            Special::NwarpId => all(threads.div_ceil(LANES as u32)),
            Special::SmId => [block % u64::from(self.multiprocessors.max(1)); LANES],
            Special::NsmId => all(self.multiprocessors),
            Special::GridId => [self.grid; LANES],
            Special::LaneMaskEq => each(|lane| 1 << lane),
            Special::LaneMaskLt => each(|lane| (1 << lane) - 1),
            Special::LaneMaskLe => each(|lane| u32::MAX >> (31 - lane)),
            Special::LaneMaskGt => each(|lane| !(u32::MAX >> (31 - lane))),
            Special::LaneMaskGe => each(|lane| u32::MAX << lane),
            Special::Clock => all(clock as u32),
            Special::ClockHigh => all((clock >> 32) as u32),
            Special::Clock64 => [clock; LANES],
            Special::GlobalTimer => [nanoseconds(); LANES],
            Special::GlobalTimerLow => all(nanoseconds() as u32),
            Special::GlobalTimerHigh => all((nanoseconds() >> 32) as u32),
            Special::Environment(1) => all((self.workspace >> 32) as u32),
            Special::Environment(2) => all(self.workspace as u32),
            Special::Environment(_) => all(0),
            Special::DynamicShared => all(self.dynamic_shared),
            Special::TotalShared => all(self.total_shared),
            Special::AggregateShared => all(self.total_shared + RESERVED_SHARED),
            Special::ClusterId(n) => axis(&self.by_axis(|block, _, cluster| block / cluster), n),
            Special::ClusterCount(n) => axis(&self.by_axis(|_, grid, cluster| grid / cluster), n),
            Special::ClusterCtaid(n) => axis(&self.by_axis(|block, _, cluster| block % cluster), n),
            Special::ClusterNctaid(n) => axis(&self.cluster, n),
            Special::ClusterRank => {
                let [x, y, z] = self.by_axis(|block, _, cluster| block % cluster);
                all(x + self.cluster[0] * (y + self.cluster[1] * z))
            }
            Special::ClusterSize => all(self.cluster.iter().product()),
        }
    }
}

fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
