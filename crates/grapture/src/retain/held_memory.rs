//! [`HeldMemory`]: how much memory a graph or an executable holds.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::graph::{Graph, GraphExec};
use crate::kernel::KernelInner;
use crate::memory::{BufferInner, LaunchMemory, Parts, PoolUse};
use crate::retain::{Held, RetainedKind, Share};

/// How much memory a graph or an executable holds, in bytes: [`Graph::memory`],
/// [`GraphExec::memory`] and [`CachedExec::memory`](crate::CachedExec::memory). What several nodes
/// use counts once; what others hold too, such as a buffer of the program's, counts here as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HeldMemory {
    /// The allocations of device memory that its nodes use.
    pub device_bytes: usize,
    /// What its own nodes allocate, as much of it as there is at once. Each launch takes it, and the
    /// driver rounds it up and shares it with other graphs:
    /// [`Device::graph_memory`](crate::Device::graph_memory).
    pub graph_bytes: usize,
    /// What it uses of pools, which other graphs use too.
    pub pool_bytes: usize,
    /// Page-locked host memory.
    pub pinned_bytes: usize,
    /// What its host functions captured, and the values that it retains: their own size.
    pub host_bytes: usize,
    /// The number of its modules, whose size only the driver knows.
    pub modules: usize,
    /// What the driver needs of the device for the executable itself. None: it was not measured. A
    /// [`GraphCache`](crate::GraphCache) does.
    pub executable_bytes: Option<usize>,
}

impl HeldMemory {
    /// All that is on the device, as far as it is known, in bytes.
    pub fn on_device_bytes(&self) -> usize {
        let HeldMemory { device_bytes, graph_bytes, pool_bytes, executable_bytes, .. } = self;
        device_bytes + graph_bytes + pool_bytes + executable_bytes.unwrap_or(0)
    }
}

impl fmt::Display for HeldMemory {
    /// What there is of each: "4096 bytes of device memory, 8192 of a pool, 1 module".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.device_bytes, "of device memory"),
            (self.graph_bytes, "of the graph's own"),
            (self.pool_bytes, "of pools"),
            (self.executable_bytes.unwrap_or(0), "for the executable"),
            (self.pinned_bytes, "of pinned memory"),
            (self.host_bytes, "on the host"),
        ];
        let mut unit = " bytes";
        for (bytes, what) in parts.into_iter().filter(|(bytes, _)| *bytes > 0) {
            let separator = if unit.is_empty() { ", " } else { "" };
            write!(f, "{separator}{bytes}{unit} {what}")?;
            unit = "";
        }
        if !unit.is_empty() {
            f.write_str("no memory")?;
        }
        match self.modules {
            0 => Ok(()),
            1 => f.write_str(", 1 module"),
            count => write!(f, ", {count} modules"),
        }
    }
}

impl Graph {
    /// How much memory the graph holds, and anything made from it. Asks no driver.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 1024)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     let mut between = capture.alloc_temporary::<u32>(1024)?;
    ///     between.fill(1, &stream)?;
    ///     out.copy_from(&between, &stream)
    /// })?;
    /// assert_eq!(graph.memory().on_device_bytes(), 8192);
    /// println!("{}", graph.memory()); // 4096 bytes of device memory, 4096 of the graph's own
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn memory(&self) -> HeldMemory {
        self.share().memory()
    }
}

impl GraphExec {
    /// How much memory the executable holds, as it is now. Asks no driver. What it used before an
    /// update is held until the last launch that uses it is done, and does not count.
    pub fn memory(&self) -> HeldMemory {
        self.share().memory()
    }
}

/// What is gathered of the owners.
#[derive(Default)]
struct Count {
    held: HeldMemory,
    /// Where the graph's own memory is.
    spans: Vec<Range<u64>>,
    /// What of each pool.
    pools: HashMap<usize, Parts>,
    modules: HashSet<usize>,
}

impl Share {
    fn memory(&self) -> HeldMemory {
        let (mut count, mut seen) = (Count::default(), HashSet::new());
        self.for_each(&mut |held| {
            if seen.insert(Arc::as_ptr(&held.owner).cast::<()>()) {
                count.add(held);
            }
        });
        count.done()
    }
}

impl Count {
    fn add(&mut self, held: &Held) {
        let (owner, bytes): (&dyn Any, _) = (&*held.owner, held.owner.bytes());
        match held.owner.kind() {
            RetainedKind::DeviceMemory => self.held.device_bytes += bytes,
            RetainedKind::GraphMemory => {
                let built = owner.downcast_ref().map(BufferInner::address);
                let address = built.or(owner.downcast_ref().map(LaunchMemory::address));
                let start = address.unwrap_or_default();
                self.spans.push(start..start + bytes as u64);
            }
            RetainedKind::PoolMemory => {
                if let Some(used) = owner.downcast_ref::<PoolUse>() {
                    used.add_to(self.pools.entry(Arc::as_ptr(used.pool()).addr()).or_default());
                }
            }
            RetainedKind::PinnedMemory => self.held.pinned_bytes += bytes,
            RetainedKind::HostFunction | RetainedKind::Slots | RetainedKind::Value(_) => {
                self.held.host_bytes += bytes;
            }
            RetainedKind::Kernel(_) => {
                let kernel = owner.downcast_ref::<KernelInner>();
                self.modules.extend(kernel.map(|kernel| kernel.module().number()));
            }
            RetainedKind::Event => {}
        }
    }

    fn done(mut self) -> HeldMemory {
        self.held.graph_bytes = covered(&mut self.spans);
        self.held.pool_bytes = self.pools.values().map(Parts::bytes).sum();
        self.held.modules = self.modules.len();
        self.held
    }
}

/// How many bytes lie in some of the ranges: an address behind a release is used again.
fn covered(spans: &mut [Range<u64>]) -> usize {
    spans.sort_unstable_by_key(|span| span.start);
    let (mut end, mut bytes) = (0, 0);
    for span in spans {
        bytes += span.end.saturating_sub(span.start.max(end));
        end = end.max(span.end);
    }
    bytes as usize
}

#[cfg(test)]
mod tests {
    use super::{HeldMemory, covered};

    #[test]
    fn what_is_used_again_counts_once() {
        assert_eq!(covered(&mut []), 0);
        assert_eq!(covered(&mut [8..12, 0..4, 2..6, 10..11, 6..6]), 10);
    }

    #[test]
    fn what_there_is_is_told() {
        let mut held = HeldMemory::default();
        assert_eq!(held.to_string(), "no memory");
        held.modules = 1;
        held.pool_bytes = 8;
        assert_eq!(held.to_string(), "8 bytes of pools, 1 module");
        held.device_bytes = 4;
        held.executable_bytes = Some(2);
        held.modules = 2;
        let told = "4 bytes of device memory, 8 of pools, 2 for the executable, 2 modules";
        assert_eq!(held.to_string(), told);
        assert_eq!(held.on_device_bytes(), 14);
    }
}
