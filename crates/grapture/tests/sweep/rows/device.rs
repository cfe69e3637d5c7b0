//! The driver, its devices and contexts.

use std::ffi::c_void;

use grapture::{Context, Device, DeviceBuffer, Driver, MemoryPool, PeerAttribute, Region2d};
use grapture_sys::{Function, FunctionInfo, Functions};

use crate::engine::{Row, row};

macro_rules! addresses {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// The address of a function of a table.
        fn address(functions: &Functions, symbol: &str) -> *const c_void {
            match symbol {
                $(stringify!($symbol) => functions.$symbol as *const c_void,)*
                _ => std::ptr::null(),
            }
        }
    };
}
grapture::sys::driver_functions!(addresses);

fn device(world: &crate::world::World) -> Device {
    world.context.device().clone()
}

fn pool(world: &crate::world::World) -> MemoryPool {
    device(world).default_memory_pool().unwrap()
}

pub const ROWS: &[Row] = &[
    row("Driver::from_resolver", |w| {
        w.attempt(|| {
            let real = w.sim.load().map_err(|failure| failure.code())?;
            let resolver =
                move |info: &'static FunctionInfo| match Function::from_symbol(info.symbol) {
                    Some(function) if real.has(function) => address(real.functions(), info.symbol),
                    _ => std::ptr::null(),
                };
            // SAFETY: the addresses are those of the simulated driver's table, which the resolver
            // keeps.
            unsafe { Driver::from_resolver("the simulated driver again", resolver) }
        });
    }),
    row("Driver::device_count", |w| w.attempt(|| w.driver.device_count())),
    row("Driver::device", |w| w.attempt(|| w.driver.device(0))),
    row("Device::name", |w| w.attempt(|| device(w).name())),
    row("Device::pci_bus_id", |w| w.attempt(|| device(w).pci_bus_id())),
    row("Device::uuid", |w| w.attempt(|| device(w).uuid())),
    row("Device::compute_capability", |w| w.attempt(|| device(w).compute_capability())),
    row("Device::multiprocessor_count", |w| w.attempt(|| device(w).multiprocessor_count())),
    row("Device::max_threads_per_block", |w| w.attempt(|| device(w).max_threads_per_block())),
    row("Device::attribute", |w| {
        let attribute = grapture::DeviceAttribute::known().next().unwrap();
        w.attempt(|| device(w).attribute(attribute));
    }),
    row("Device::total_memory_bytes", |w| w.attempt(|| device(w).total_memory_bytes())),
    row("Device::peer_attribute", |w| {
        let (rank, peer) = (PeerAttribute::PerformanceRank, w.peer());
        w.attempt(|| device(w).peer_attribute(rank, peer.device()));
    }),
    row("Context::enable_peer_access", |w| {
        let peer = w.peer();
        w.attempt(|| w.context.enable_peer_access(&peer));
    }),
    row("Context::disable_peer_access", |w| {
        let peer = w.peer();
        w.context.enable_peer_access(&peer).unwrap();
        // SAFETY: nothing reaches the peer's memory.
        w.attempt(|| unsafe { w.context.disable_peer_access(&peer) });
    }),
    row("Memory::copy_from, of another device", |w| {
        let (mut here, there) =
            (w.buffer(), DeviceBuffer::from_slice(&w.peer(), &[1u32; 4]).unwrap());
        w.attempt(|| here.copy_from(&there, &w.stream));
    }),
    row("Memory::copy_2d_from, of another device", |w| {
        let (mut here, there) =
            (w.buffer(), DeviceBuffer::from_slice(&w.peer(), &[1u32; 4]).unwrap());
        let square = Region2d::new(2, 2);
        w.attempt(|| here.copy_2d_from(square, &there, square, &w.stream));
    }),
    row("LaunchBuilder::launch, with memory of a peer", |w| {
        let peer = w.peer();
        w.context.enable_peer_access(&peer).unwrap();
        let mut there = DeviceBuffer::from_slice(&peer, &[1u32; 4]).unwrap();
        w.attempt(|| w.launch(&mut there, &w.stream));
    }),
    row("Device::can_access_peer", |w| w.attempt(|| device(w).can_access_peer(&device(w)))),
    row("Device::graph_memory", |w| w.attempt(|| device(w).graph_memory())),
    row("Device::reset_graph_memory_high", |w| w.attempt(|| device(w).reset_graph_memory_high())),
    row("Device::trim_graph_memory", |w| w.attempt(|| device(w).trim_graph_memory())),
    row("Device::default_memory_pool", |w| w.attempt(|| device(w).default_memory_pool())),
    row("MemoryPool::usage", |w| {
        let pool = pool(w);
        w.attempt(|| pool.usage());
    }),
    row("MemoryPool::reset_high", |w| {
        let pool = pool(w);
        w.attempt(|| pool.reset_high());
    }),
    row("MemoryPool::release_threshold", |w| {
        let pool = pool(w);
        w.attempt(|| pool.release_threshold());
    }),
    row("MemoryPool::set_release_threshold", |w| {
        let pool = pool(w);
        w.attempt(|| pool.set_release_threshold(0));
    }),
    row("MemoryPool::trim_to", |w| {
        let pool = pool(w);
        w.attempt(|| pool.trim_to(0));
    }),
    row("Context::new", |w| w.attempt(|| Context::new(&device(w)))),
    row("Context::make_current", |w| w.attempt(|| w.context.make_current().map(drop))),
    row("Context::synchronize", |w| w.attempt(|| w.context.synchronize())),
    row("Context::memory_info", |w| w.attempt(|| w.context.memory_info())),
    row("Context::stream_priorities", |w| w.attempt(|| w.context.stream_priorities())),
];
