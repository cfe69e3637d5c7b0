//! What the tests of the C functions share: a simulated driver with a context, out-handles, gates.

#![allow(dead_code, reason = "each test binary uses its part")]

use core::ffi::c_void;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

/// No wait of a test is longer.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Calls a function of the driver and gives the number that it answers.
#[macro_export]
macro_rules! call {
    ($driver:expr, $function:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$function;
        // SAFETY: the arguments are handles of this driver, values, or pointers to live locals of
        // the types that the function takes; where a test passes something else on purpose, the
        // simulated driver only compares it.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the arguments are plain")]
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

/// Calls a function that writes its first argument, and gives that.
#[macro_export]
macro_rules! make {
    ($driver:expr, $function:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: handles, numbers and plain structs may be all zeros.
        let mut out = unsafe { std::mem::zeroed() };
        assert_eq!($crate::call!($driver, $function(&mut out, $($arg),*)), 0, stringify!($function));
        out
    }};
}

/// A driver with the primary context of device 0 current on this thread.
pub struct Setup {
    pub sim: Simulation,
    pub driver: Driver,
    pub context: CUcontext,
}

impl Deref for Setup {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl Setup {
    pub fn new() -> Setup {
        Setup::with(SimConfig::default())
    }

    pub fn with(config: SimConfig) -> Setup {
        let sim = Simulation::new(config);
        let driver = sim.driver();
        let context: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        Setup { sim, driver, context }
    }

    /// A non-blocking stream.
    pub fn stream(&self) -> CUstream {
        make!(self, cuStreamCreate(1))
    }

    pub fn event(&self) -> CUevent {
        make!(self, cuEventCreate(0))
    }

    pub fn alloc(&self, bytes: usize) -> CUdeviceptr {
        make!(self, cuMemAlloc_v2(bytes))
    }

    pub fn module(&self, ptx: &str) -> CUmodule {
        let text = std::ffi::CString::new(ptx).unwrap();
        make!(self, cuModuleLoadData(text.as_ptr().cast()))
    }

    pub fn function(&self, module: CUmodule, name: &str) -> CUfunction {
        let name = std::ffi::CString::new(name).unwrap();
        make!(self, cuModuleGetFunction(module, name.as_ptr()))
    }

    pub fn read<T: Copy + Default>(&self, address: CUdeviceptr, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let bytes = count * size_of::<T>();
        assert_eq!(call!(self, cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, bytes)), 0);
        values
    }

    /// Launches one block of one thread.
    pub fn launch(
        &self,
        function: CUfunction,
        stream: CUstream,
        params: &mut [*mut c_void],
    ) -> u32 {
        let params = params.as_mut_ptr();
        let none = std::ptr::null_mut();
        call!(self, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, none))
    }

    /// Puts a gate on a stream: what comes behind it waits until the gate opens.
    pub fn gate(&self, stream: CUstream) -> Gate {
        let gate = Gate::default();
        let data = Arc::into_raw(gate.inner.clone()).cast_mut().cast();
        assert_eq!(call!(self, cuLaunchHostFunc(stream, Some(wait_at_gate), data)), 0);
        gate
    }

    /// Runs a closure in stream order.
    pub fn host(&self, stream: CUstream, f: impl FnOnce() + Send + 'static) {
        let boxed: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(f));
        let data = Box::into_raw(boxed).cast();
        assert_eq!(call!(self, cuLaunchHostFunc(stream, Some(run_boxed), data)), 0);
    }

    /// Gives the context back and checks that nothing is left.
    pub fn finish(self) {
        assert_eq!(call!(self, cuDevicePrimaryCtxRelease_v2(0)), 0);
        let leaks = self.sim.leaks();
        assert!(leaks.is_empty(), "left: {leaks}");
    }
}

unsafe extern "C" fn run_boxed(data: *mut c_void) {
    // SAFETY: `Setup::host` made the pointer of such a box, and a host function runs once.
    let f = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    f();
}

#[derive(Default)]
struct GateInner {
    open: Mutex<(bool, bool)>,
    changed: Condvar,
}

/// A host function that waits until it is let go. Dropping the gate opens it, so that a test that
/// fails ends.
#[derive(Default)]
pub struct Gate {
    inner: Arc<GateInner>,
}

impl Gate {
    /// Lets what waits go on.
    pub fn open(&self) {
        self.inner.open.lock().unwrap().0 = true;
        self.inner.changed.notify_all();
    }

    /// Waits until the host function runs.
    pub fn wait_reached(&self) {
        let reached = self.inner.open.lock().unwrap();
        let (_guard, timeout) =
            self.inner.changed.wait_timeout_while(reached, LIMIT, |state| !state.1).unwrap();
        assert!(!timeout.timed_out(), "the gate was never reached");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

unsafe extern "C" fn wait_at_gate(data: *mut c_void) {
    // SAFETY: `Setup::gate` made the pointer of such an `Arc`, and a host function runs once.
    let gate = unsafe { Arc::from_raw(data.cast::<GateInner>()) };
    let mut state = gate.open.lock().unwrap();
    state.1 = true;
    gate.changed.notify_all();
    let (state, timeout) = gate.changed.wait_timeout_while(state, LIMIT, |s| !s.0).unwrap();
    if timeout.timed_out() {
        eprintln!("a gate was never opened");
        std::process::abort();
    }
    drop(state);
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kernels much as those of the probe that the real driver answered.
pub const PTX: &str = "\
.version 6.4
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry k(.param .u64 p, .param .u32 n){
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; cvta.to.global.u64 %rd2,%rd1;
 red.global.add.u32 [%rd2],%r1; ret;}
.visible .entry spin(.param .u64 p){
 .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
 ld.param.u64 %rd1,[p]; cvta.to.global.u64 %rd2,%rd1;
L: ld.volatile.global.u32 %r1,[%rd2]; setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;}
.visible .entry sm(.param .u64 p){
 .shared .align 4 .b8 buf[1024]; .reg .b64 %rd<4>; .reg .b32 %r<4>;
 mov.u32 %r1,1; st.shared.u32 [buf],%r1; ret;}
.visible .entry noarg(){ ret;}
.visible .entry dyn(.param .u64 p, .param .align 8 .b8 q[24], .param .f32 f){ ret;}
";
