//! The kernels that are timed.

use std::time::Instant;

use grapture_sim::ptx::{Launch, Module, Options};

use crate::device::Device;

/// The kernel that the peer runs too.
pub const SAXPY: &str = include_str!("../../../crates/grapture-sim/tests/ptx/saxpy.ptx");
/// The elements of a vector.
pub const ELEMENTS: usize = 1 << 20;

/// A kernel with all that a launch needs.
pub struct Case {
    /// How it is called in the report.
    pub name: &'static str,
    module: Module,
    kernel: usize,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
    device: Device,
}

impl Case {
    /// The threads of a launch.
    pub fn threads(&self) -> u64 {
        self.grid.iter().chain(&self.block).map(|n| u64::from(*n)).product()
    }

    /// Runs it on so many threads of the host; answers the seconds, and the instructions that its
    /// threads executed.
    pub fn run(&self, threads: usize) -> (f64, u64) {
        let launch = Launch {
            module: &self.module,
            kernel: self.kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: 0,
            params: &self.params,
            global_addresses: &[],
            options: Options::default(),
        };
        let start = Instant::now();
        let stats = launch.run(&self.device, threads).expect("the kernel runs");
        (start.elapsed().as_secs_f64(), stats.thread_instructions)
    }
}

#[derive(Default)]
struct Params(Vec<u8>);

impl Params {
    fn pointer(mut self, value: u64) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn word(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
}

fn case(
    name: &'static str,
    text: &str,
    kernel: &str,
    grid: [u32; 3],
    block: [u32; 3],
    device: Device,
    params: Params,
) -> Case {
    let module = Module::compile(text).expect("the text compiles");
    let kernel = module.kernel(kernel).expect("the kernel is there");
    Case { name, module, kernel, grid, block, params: params.0, device }
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 97) as f32 / 16.0).collect()
}

/// All kernels; saxpy is the first.
pub fn all() -> Vec<Case> {
    vec![
        saxpy("saxpy", (ELEMENTS / 256) as u32),
        saxpy("saxpy_grid_stride", 64),
        reduction("reduction", "reduce_static"),
        matmul("matmul"),
        matmul("matmul_tiled"),
        softmax(),
    ]
}

fn saxpy(kernel: &'static str, blocks: u32) -> Case {
    let mut device = Device::default();
    let (x, y) = (device.upload(&numbers(ELEMENTS)), device.upload(&numbers(ELEMENTS)));
    let params = Params::default().word(ELEMENTS as u32).word(1.5_f32.to_bits());
    let params = params.pointer(x).pointer(y);
    case(kernel, SAXPY, kernel, [blocks, 1, 1], [256, 1, 1], device, params)
}

fn reduction(name: &'static str, kernel: &str) -> Case {
    let text = include_str!("../../../crates/grapture-sim/tests/ptx/reduce.ptx");
    let mut device = Device::default();
    let (x, out) = (device.upload(&numbers(ELEMENTS)), device.upload(&numbers(256)));
    let params = Params::default().pointer(x).pointer(out).word(ELEMENTS as u32);
    case(name, text, kernel, [256, 1, 1], [256, 1, 1], device, params)
}

/// Two matrices of 256 × 256, one thread for each element of the product.
fn matmul(kernel: &'static str) -> Case {
    let n = 256;
    let mut device = Device::default();
    let (a, b) = (numbers(n * n), numbers(n * n));
    let (at, bt) = (device.upload(&a), device.upload(&b));
    let ct = device.upload(&vec![0.0; n * n]);
    let params = Params::default().pointer(at).pointer(bt).pointer(ct).word(n as u32);
    let side = n as u32 / 16;
    let text = include_str!("../kernels/matmul.ptx");
    let case = case(kernel, text, kernel, [side, side, 1], [16, 16, 1], device, params);
    case.run(1);
    let (row, column) = (17, 200);
    let expected =
        (0..n).fold(0.0, |sum: f32, k| a[row * n + k].mul_add(b[k * n + column], sum));
    assert_eq!(case.device.download(ct)[row * n + column], expected);
    case
}

/// 256 rows of 4096.
fn softmax() -> Case {
    let (rows, columns) = (256, 4096);
    let mut device = Device::default();
    let (x, y) = (device.upload(&numbers(rows * columns)), device.upload(&vec![0.0; rows * columns]));
    let params = Params::default().pointer(x).pointer(y).word(columns as u32);
    let text = include_str!("../kernels/softmax.ptx");
    let case = case("softmax", text, "softmax", [rows as u32, 1, 1], [256, 1, 1], device, params);
    case.run(1);
    let sum: f32 = case.device.download(y)[..columns].iter().sum();
    assert!((sum - 1.0).abs() < 1e-3, "a row adds up to {sum}");
    case
}
