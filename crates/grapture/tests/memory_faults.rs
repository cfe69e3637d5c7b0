//! Every failure of the driver in an operation on memory comes through, and leaves nothing behind.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Setup;
use common::gate::Gate;
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Driver, PinnedBuffer, Region2d, Stream,
    set_drop_error_hook,
};
use grapture_sim::{LiveObjects, SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

struct Fixture {
    sim: Simulation,
    setup: Setup,
    stream: Stream,
}

impl Fixture {
    fn new() -> Fixture {
        let sim = Simulation::new(SimConfig::default());
        let setup = Setup::on(Driver::from(sim.driver()));
        let stream = setup.stream();
        Fixture { sim, setup, stream }
    }

    /// Fails the next call of `function` in `call`: it comes through, nothing is left, and the
    /// stream is usable.
    #[track_caller]
    fn fails<T>(&self, function: Function, call: impl FnOnce(&Fixture) -> CudaResult<T>) {
        self.stream.synchronize().unwrap();
        let before = self.sim.live();
        self.sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
        let result = call(self).map(drop);
        self.sim.clear_failures();
        assert_eq!(result, Err(CudaError::from(CUDA_ERROR_UNKNOWN)), "{function:?}");
        self.stream.synchronize().unwrap();
        self.settle(&before, function);
        self.setup.assert_usable(&self.stream);
        self.settle(&before, function);
    }

    /// Waits until only what was alive before is: a graph's owners are released by and by.
    #[track_caller]
    fn settle(&self, before: &LiveObjects, function: Function) {
        let before = before.to_string();
        let limit = Instant::now() + Duration::from_secs(10);
        while self.sim.live().to_string() != before {
            let live = self.sim.live();
            assert!(Instant::now() < limit, "{function:?}: {live}; before: {before}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn sim_a_failed_allocation_leaves_nothing() {
    let fixture = Fixture::new();
    for function in [Function::cuCtxPushCurrent_v2, Function::cuMemAlloc_v2] {
        fixture.fails(function, |fixture| DeviceBuffer::<u32>::alloc(&fixture.setup.context, 4));
    }
    for function in [
        Function::cuMemAlloc_v2,
        Function::cuStreamCreateWithPriority,
        Function::cuMemsetD32Async,
        Function::cuStreamSynchronize,
    ] {
        fixture.fails(function, |fixture| DeviceBuffer::<u32>::zeroed(&fixture.setup.context, 4));
    }
    for function in [
        Function::cuMemAlloc_v2,
        Function::cuStreamCreateWithPriority,
        Function::cuMemcpyHtoDAsync_v2,
        Function::cuStreamSynchronize,
    ] {
        fixture.fails(function, |fixture| {
            DeviceBuffer::from_slice(&fixture.setup.context, &[1u32, 2])
        });
    }
    for function in [Function::cuCtxPushCurrent_v2, Function::cuMemHostAlloc] {
        fixture.fails(function, |fixture| PinnedBuffer::<u32>::zeroed(&fixture.setup.context, 4));
    }
}

#[test]
fn sim_a_failed_operation_comes_through() {
    let fixture = Fixture::new();
    let context = &fixture.setup.context;
    let stream = &fixture.stream;
    let mut buffer = DeviceBuffer::from_slice(context, &[1u32, 2]).unwrap();
    let other = DeviceBuffer::from_slice(context, &[3u32, 4]).unwrap();
    let mut small = DeviceBuffer::<u16>::zeroed(context, 2).unwrap();
    let mut bytes = DeviceBuffer::<u8>::zeroed(context, 2).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(context, 2).unwrap();
    let region = Region2d::new(1, 2);
    fixture.fails(Function::cuMemcpyHtoDAsync_v2, |_| buffer.copy_from_host(&[5, 6], stream));
    fixture.fails(Function::cuStreamSynchronize, |_| buffer.copy_from_host(&[1, 2], stream));
    fixture.fails(Function::cuMemcpyDtoHAsync_v2, |_| buffer.to_vec(stream));
    fixture.fails(Function::cuStreamSynchronize, |_| buffer.to_vec(stream));
    fixture.fails(Function::cuMemcpyHtoDAsync_v2, |_| buffer.copy_from_pinned(&pinned, stream));
    fixture.fails(Function::cuMemcpyDtoHAsync_v2, |_| buffer.copy_to_pinned(&mut pinned, stream));
    fixture.fails(Function::cuMemcpyDtoDAsync_v2, |_| buffer.copy_from(&other, stream));
    fixture.fails(Function::cuMemcpy2DAsync_v2, |_| {
        buffer.copy_2d_from(region, &other, region, stream)
    });
    fixture.fails(Function::cuMemsetD32Async, |_| buffer.fill(0, stream));
    fixture.fails(Function::cuMemsetD16Async, |_| small.fill(0, stream));
    fixture.fails(Function::cuMemsetD8Async, |_| bytes.fill(0, stream));
    fixture.fails(Function::cuMemsetD2D32Async, |_| buffer.fill_2d(0, region, stream));
    fixture.fails(Function::cuMemsetD2D16Async, |_| small.fill_2d(0, region, stream));
    fixture.fails(Function::cuMemsetD2D8Async, |_| bytes.fill_2d(0, region, stream));
    assert_eq!(buffer.to_vec(stream).unwrap(), [1, 2]);
    // The host gets the memory although the copies failed.
    assert_eq!(*pinned.read().unwrap(), [0, 0]);
    buffer.copy_to_pinned(&mut pinned, stream).unwrap();
    fixture.fails(Function::cuStreamSynchronize, |_| pinned.read().map(drop));
    assert_eq!(*pinned.read().unwrap(), [1, 2]);
}

/// The slice is borrowed until the copy is done, and a wait that fails need not have waited.
#[test]
fn sim_a_copy_whose_wait_fails_is_waited_for() {
    let fixture = Fixture::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&fixture.setup.context, 2).unwrap();
    let gate = Gate::new();
    gate.hold(&fixture.stream);
    let calls = fixture.sim.calls(Function::cuStreamSynchronize);
    fixture.sim.fail(Function::cuStreamSynchronize, 1, CUDA_ERROR_UNKNOWN);
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| {
            let copied = buffer.copy_from_host(&[1, 2], &fixture.stream);
            (copied, gate.is_open())
        });
        let waits = || fixture.sim.calls(Function::cuStreamSynchronize) >= calls + 2;
        fixture.setup.wait_until(|| waits() || copy.is_finished());
        gate.open();
        let (copied, after_the_gate) = copy.join().unwrap();
        assert_eq!(copied, Err(CudaError::from(CUDA_ERROR_UNKNOWN)));
        assert!(after_the_gate, "the copy returned before it was done");
    });
}

#[test]
fn sim_a_failed_copy_in_a_capture_leaves_no_staged_elements() {
    let fixture = Fixture::new();
    let stream = &fixture.stream;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&fixture.setup.context, 2).unwrap();
    for function in [Function::cuMemHostAlloc, Function::cuMemcpyHtoDAsync_v2] {
        fixture.fails(function, |_| {
            let mut failed = Ok(());
            // Whether the driver keeps the capture valid after the failure is not the point here.
            let _ = stream.capture(CaptureMode::Relaxed, |_| {
                failed = buffer.copy_from_host_staged(&[1, 2], stream);
                Ok(())
            });
            failed
        });
    }
}

#[test]
fn sim_a_failed_release_is_reported() {
    let fixture = Fixture::new();
    let context = &fixture.setup.context;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let hook = reported.clone();
    set_drop_error_hook(Some(Box::new(move |function, error| {
        hook.lock().unwrap().push((function, error.clone()));
    })));
    let unknown = CudaError::from(CUDA_ERROR_UNKNOWN);
    let expect = |function: Function, name, release: &mut dyn FnMut()| {
        fixture.sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
        release();
        fixture.sim.clear_failures();
        assert_eq!(*reported.lock().unwrap(), [(name, unknown.clone())], "{function:?}");
        reported.lock().unwrap().clear();
    };
    let mut buffer = Some(DeviceBuffer::<u32>::alloc(context, 1).unwrap());
    expect(Function::cuMemFree_v2, "cuMemFree", &mut || buffer = None);
    let mut pinned = Some(PinnedBuffer::<u32>::zeroed(context, 1).unwrap());
    expect(Function::cuMemFreeHost, "cuMemFreeHost", &mut || pinned = None);
    for function in [
        Function::cuMemFreeAsync,
        Function::cuEventCreate,
        Function::cuEventRecord,
        Function::cuStreamWaitEvent,
    ] {
        let other = fixture.setup.stream();
        let mut ordered = Some(DeviceBuffer::<u32>::alloc_async(&fixture.stream, 1).unwrap());
        ordered.as_mut().unwrap().fill(1, &other).unwrap();
        expect(function, "cuMemFreeAsync", &mut || ordered = None);
    }
    set_drop_error_hook(None);
}
