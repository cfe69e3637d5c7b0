//! What the tests of kernels share: device memory, arguments, a launch.

#![allow(dead_code)] // each test file uses a part of it

use std::sync::Arc;

use grapture_sim::memory::bytes::SharedBytes;
use grapture_sim::ptx::{Fault, GlobalMemory, Launch, Module, Options, Region, RunStats};

/// Device memory: buffers with 1 MiB of nothing between them.
#[derive(Default)]
pub struct Device {
    pub regions: Vec<Region>,
}

impl GlobalMemory for Device {
    fn find(&self, address: u64) -> Option<Region> {
        self.regions.iter().find(|r| address >= r.base && address < r.base + r.len).cloned()
    }
}

/// Values that go to a device and come back.
pub trait Plain: Copy + Default {
    fn put(self, into: &mut Vec<u8>);
    fn get(from: &[u8]) -> Self;
}

macro_rules! plain {
    ($($ty:ty),+) => {$(
        impl Plain for $ty {
            fn put(self, into: &mut Vec<u8>) { into.extend(self.to_le_bytes()); }
            fn get(from: &[u8]) -> Self { Self::from_le_bytes(from.try_into().unwrap()) }
        }
    )+};
}

plain!(u8, u16, u32, i32, u64, i64, f32, f64);

impl Device {
    pub fn alloc(&mut self, bytes: usize) -> u64 {
        let base = self
            .regions
            .last()
            .map_or(0x7000_0000_0000, |last| (last.base + last.len + (1 << 20)) & !0xff);
        self.regions.push(Region::whole(base, Arc::new(SharedBytes::new(bytes))));
        base
    }

    pub fn upload<T: Plain>(&mut self, values: &[T]) -> u64 {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.put(&mut bytes));
        let at = self.alloc(bytes.len());
        self.regions.last().unwrap().bytes.write(0, &bytes).unwrap();
        at
    }

    pub fn zeros<T: Plain>(&mut self, count: usize) -> u64 {
        self.alloc(count * size_of::<T>())
    }

    pub fn download<T: Plain>(&self, at: u64) -> Vec<T> {
        let region = self.find(at).unwrap();
        let mut bytes = vec![0; region.len as usize];
        region.bytes.read(0, &mut bytes).unwrap();
        bytes.chunks_exact(size_of::<T>()).map(T::get).collect()
    }

    /// Gives the module's variables memory, as a driver does when it loads one.
    pub fn load(&mut self, module: &Module) -> Vec<u64> {
        let addresses: Vec<u64> =
            module.globals().iter().map(|global| self.alloc(global.size)).collect();
        for (global, at) in module.globals().iter().zip(&addresses) {
            let mut bytes = global.initial.clone();
            for relocation in &global.relocations {
                let target = addresses[relocation.global].wrapping_add_signed(relocation.addend);
                bytes[relocation.offset..relocation.offset + 8]
                    .copy_from_slice(&target.to_le_bytes());
            }
            self.find(*at).unwrap().bytes.write(0, &bytes).unwrap();
        }
        addresses
    }
}

#[derive(Default)]
pub struct Args(pub Vec<u8>);

impl Args {
    pub fn with<T: Plain>(mut self, value: T) -> Self {
        self.0.resize(self.0.len().next_multiple_of(size_of::<T>()), 0);
        value.put(&mut self.0);
        self
    }
}

pub fn args() -> Args {
    Args::default()
}

pub struct Run<'a> {
    pub device: &'a mut Device,
    pub module: &'a Module,
    pub globals: Vec<u64>,
    pub shared: usize,
    pub threads: usize,
}

impl<'a> Run<'a> {
    pub fn new(device: &'a mut Device, module: &'a Module) -> Self {
        let globals = device.load(module);
        Self { device, module, globals, shared: 0, threads: 1 }
    }

    pub fn go(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: &Args,
    ) -> Result<RunStats, Fault> {
        let launch = Launch {
            module: self.module,
            kernel: self.module.kernel(kernel).unwrap(),
            grid,
            block,
            dynamic_shared_bytes: self.shared,
            params: &params.0,
            global_addresses: &self.globals,
            options: Options::default(),
        };
        launch.run(self.device, self.threads)
    }
}

pub fn module(text: &str) -> Module {
    Module::compile(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A repeatable stream of bits.
pub fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
