//! The same work under every condition: old drivers, other contexts current, several threads.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::Token;
use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureOptions, Context, DeviceBuffer, Driver, Event, JoinPolicy, PinnedBuffer,
    Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::CUcontext;

both_tiers! {
    work_is_right_with_no_context_current,
    work_is_right_on_several_threads_at_once,
}

/// Every driver that changed something for captures, graphs or memory.
const VERSIONS: [i32; 12] = [
    10_000, 10_010, 10_020, 11_000, 11_010, 11_020, 11_030, 11_040, 12_000, 12_030, 12_080, 13_000,
];

/// The modes that a driver has.
fn modes(setup: &Setup) -> &'static [CaptureMode] {
    match setup.driver.version().number() {
        10_000 => &[CaptureMode::Relaxed],
        _ => &[CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed],
    }
}

/// Copies, fills, kernels, host functions, forks and drops, captured and not; in a capture of every
/// mode something of each kind is made and dropped.
#[track_caller]
fn work(setup: &Setup) {
    for mode in modes(setup) {
        let [stream, side, other] = [(); 3].map(|()| setup.stream());
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mut copy = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let mut beside = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let (runs, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, token) = (runs.clone(), Token(dropped.clone()));
        let unused = DeviceBuffer::<u32>::alloc(&setup.context, 1).unwrap();
        let joins = CaptureOptions::new(*mode).join_policy(JoinPolicy::JoinLeaves);
        let graph = stream.capture_with(joins, |capture| {
            word.copy_from_host_staged(&[5], &stream)?;
            drop(unused);
            drop(Event::new(&setup.context)?);
            drop(setup.pinned_word());
            drop(setup.context.load_ptx(KERNELS)?);
            stream.fork(&[&side], || setup.mul_add(&mut word, 10, 2, &side))?;
            let scratch = DeviceBuffer::from_slice(&setup.context, &[1000u32])?;
            copy.copy_from(&scratch, &stream)?;
            drop(scratch);
            stream.host_function(move || {
                let _ = &token;
                counted.fetch_add(1, Ordering::SeqCst);
            })?;
            word.copy_to_pinned(&mut pinned, &stream)?;
            setup.add(&mut beside, 1, &side)?;
            assert!(capture.is_active());
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&other).unwrap();
        }
        assert_eq!(*pinned.read().unwrap(), [52]);
        drop(exec);
        assert_eq!(word.to_vec(&other).unwrap(), [52]);
        assert_eq!(beside.to_vec(&other).unwrap(), [3]);
        assert_eq!(copy.to_vec(&stream).unwrap(), [1000]);
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn sim_work_is_right_on_every_driver() {
    for version in VERSIONS {
        let sim = Simulation::new(SimConfig::default().driver_version(version));
        let setup = Setup::on(Driver::from(sim.driver()));
        work(&setup);
        drop(setup);
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !sim.live().is_clean() {
            assert!(std::time::Instant::now() < limit, "{version}: {}", sim.live());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn current(driver: &Driver) -> CUcontext {
    let mut current = null_mut();
    // SAFETY: a live out-pointer.
    assert_eq!(unsafe { (driver.as_raw().functions().cuCtxGetCurrent)(&mut current) }.0, 0);
    current
}

fn make_current(driver: &Driver, context: CUcontext) {
    // SAFETY: a live context, or none.
    assert_eq!(unsafe { (driver.as_raw().functions().cuCtxSetCurrent)(context) }.0, 0);
}

fn work_is_right_with_no_context_current(setup: &Setup) {
    for context in [null_mut(), setup.context.as_raw()] {
        make_current(&setup.driver, context);
        work(setup);
        assert_eq!(current(&setup.driver), context);
    }
    make_current(&setup.driver, null_mut());
}

fn work_is_right_on_several_threads_at_once(setup: &Setup) {
    // A global capture bars the other threads from calls that they do not make through this
    // library, so it can be told if one is made unguarded.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(setup));
        }
    });
}

/// On two devices, with the context of the other one current.
#[test]
fn sim_work_is_right_whatever_is_current() {
    let driver = Driver::from(grapture_sim::driver(SimConfig::default().devices(2)));
    let setups = [0, 1].map(|ordinal| {
        let context = Context::new(&driver.device(ordinal).unwrap()).unwrap();
        let module = context.load_ptx(KERNELS).unwrap();
        Setup { driver: driver.clone(), context, module }
    });
    for (setup, other) in [(&setups[0], &setups[1]), (&setups[1], &setups[0])] {
        let foreign = other.context.as_raw();
        make_current(&driver, foreign);
        work(setup);
        let memory = setup.stream().capture(CaptureMode::Global, |capture| {
            let stream = capture.stream();
            let mut scratch = capture.alloc_temporary::<u32>(4)?;
            assert_eq!(scratch.context(), &setup.context);
            scratch.fill(1, stream)
        });
        memory.unwrap().instantiate().unwrap().launch(&setup.stream()).unwrap();
        setup.context.synchronize().unwrap();
        assert_eq!(current(&driver), foreign);
    }
    // Both at once, each thread with the other's context current.
    std::thread::scope(|scope| {
        for (setup, other) in [(&setups[0], &setups[1]), (&setups[1], &setups[0])] {
            scope.spawn(|| {
                make_current(&setup.driver, other.context.as_raw());
                work(setup);
            });
        }
    });
    make_current(&driver, null_mut());
}

/// A temporary is the capture's, on whichever device its streams are.
#[test]
fn sim_a_temporary_of_another_device_is_refused() {
    let driver = Driver::from(grapture_sim::driver(SimConfig::default().devices(2)));
    let contexts = [0, 1].map(|ordinal| Context::new(&driver.device(ordinal).unwrap()).unwrap());
    let [here, there] = [&contexts[0], &contexts[1]].map(|context| Stream::new(context).unwrap());
    let graph = here.capture(CaptureMode::Global, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(4)?;
        here.fork(&[&there], || {
            assert!(scratch.fill(1, &there).unwrap_err().to_string().contains("another context"));
            scratch.fill(2, &here)
        })
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 3);
}
