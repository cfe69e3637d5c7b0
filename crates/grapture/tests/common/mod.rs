//! What the tests share: one body for both tiers, and a context with a few kernels.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses a part")]

pub mod checked;
pub mod counted;
pub mod gate;
pub mod places;
pub mod releases;
pub mod words;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use grapture::{
    CaptureMode, Context, CudaResult, DeviceBuffer, Driver, Module, PinnedBuffer, Stream,
};
use grapture_sim::SimConfig;

/// The kernels of `fixtures/kernels.cu`.
pub const KERNELS: &str = include_str!("../../fixtures/kernels.ptx");

/// Makes two tests of each body `fn name(setup: &Setup)`: `sim_tier::name` on the simulated
/// driver, and `gpu_tier::name` on the process's default driver.
macro_rules! both_tiers {
    ($($name:ident),* $(,)?) => {
        mod sim_tier {
            $(
                #[test]
                fn $name() {
                    super::$name(&crate::common::Setup::simulated());
                }
            )*
        }

        mod gpu_tier {
            $(
                #[test]
                fn $name() {
                    super::$name(&crate::common::Setup::real());
                }
            )*
        }
    };
}
pub(crate) use both_tiers;

/// A driver with a context and the kernels.
pub struct Setup {
    pub driver: Driver,
    pub context: Context,
    pub module: Module,
}

impl Setup {
    /// On a simulated driver of its own.
    pub fn simulated() -> Setup {
        Setup::on(Driver::from(grapture_sim::driver(SimConfig::default())))
    }

    /// On the process's default driver, whose primary context is not made anew for each test: that
    /// is most of the time that a short one takes.
    pub fn real() -> Setup {
        static KEPT: OnceLock<Context> = OnceLock::new();
        let driver = Driver::process_default().expect("the gpu tier needs a driver");
        KEPT.get_or_init(|| Context::new(&driver.device(0).unwrap()).unwrap());
        Setup::on(driver)
    }

    /// On a given driver.
    pub fn on(driver: Driver) -> Setup {
        let context = Context::new(&driver.device(0).unwrap()).unwrap();
        // What the test before has left: a free waits until the device is idle, and has other calls
        // wait too, which a test that holds the device would not get over.
        context.driver().reclaim();
        let module = context.load_ptx(KERNELS).unwrap();
        // compute-sanitizer breaks every open capture when a module is unloaded.
        if std::env::var_os("GRAPTURE_TEST_KEEP_MODULES").is_some() {
            std::mem::forget(module.clone());
        }
        Setup { driver, context, module }
    }

    pub fn stream(&self) -> Stream {
        Stream::new(&self.context).unwrap()
    }

    pub fn pinned_word(&self) -> PinnedBuffer<u32> {
        PinnedBuffer::zeroed(&self.context, 1).unwrap()
    }

    /// `word += value`
    #[track_caller]
    pub fn add(&self, word: &mut DeviceBuffer<u32>, value: u32, stream: &Stream) -> CudaResult<()> {
        let kernel = self.module.kernel("add").unwrap();
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { kernel.launch_builder(1, 1).arg_mut(word).value(value).launch(stream) }
    }

    /// `word = word * factor + value`
    #[track_caller]
    pub fn mul_add(
        &self,
        word: &mut DeviceBuffer<u32>,
        factor: u32,
        value: u32,
        stream: &Stream,
    ) -> CudaResult<()> {
        let kernel = self.module.kernel("mul_add").unwrap();
        let launch = kernel.launch_builder(1, 1).arg_mut(word).value(factor).value(value);
        // SAFETY: `mul_add` takes the address of a word and two values.
        unsafe { launch.launch(stream) }
    }

    /// Holds the stream until the word is not 0.
    #[track_caller]
    pub fn wait_for(&self, gate: &DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
        let kernel = self.module.kernel("wait_for").unwrap();
        // SAFETY: `wait_for` takes the address of a word.
        unsafe { kernel.launch_builder(1, 1).arg(gate).launch(stream) }
    }

    /// Runs work on the stream, captured and not.
    #[track_caller]
    pub fn assert_usable(&self, stream: &Stream) {
        let mut word = DeviceBuffer::from_slice(&self.context, &[1u32]).unwrap();
        self.add(&mut word, 1, stream).unwrap();
        let graph = stream.capture(CaptureMode::ThreadLocal, |_| self.add(&mut word, 2, stream));
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(stream).unwrap();
        assert_eq!(word.to_vec(stream).unwrap(), [4]);
    }

    /// Waits for what another thread does, for 10 seconds at most.
    #[track_caller]
    pub fn wait_until(&self, done: impl Fn() -> bool) {
        assert!(comes_true(done), "waited for 10 seconds in vain");
    }
}

/// Whether something that another thread does is done within 10 seconds.
pub fn comes_true(done: impl Fn() -> bool) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    while !done() {
        if Instant::now() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
