//! Devices, what they say of themselves, and what a driver supports.

use crate::common::{Setup, both_tiers};
use grapture::{Context, CudaError, Device, DeviceAttribute, Driver, DriverVersion, Feature};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers!(
    a_device_says_what_it_is,
    a_device_that_is_not_there_is_refused,
    an_attribute_that_the_driver_does_not_know_is_an_error,
    a_context_tells_its_memory,
    a_context_tells_the_priorities_of_streams,
    nothing_here_changes_the_current_context,
    a_context_is_current_while_its_guard_lives,
    a_supported_feature_has_its_functions,
);

fn a_device_says_what_it_is(setup: &Setup) {
    let device = setup.driver.device(0).unwrap();
    assert_eq!(device.ordinal(), 0);
    assert!(!device.name().unwrap().is_empty());
    assert_ne!(device.uuid().unwrap().0, [0; 16]);
    let text = device.uuid().unwrap().to_string();
    assert!(text.starts_with("GPU-") && text.len() == 40, "{text}");
    // domain:bus:device.function
    assert_eq!(device.pci_bus_id().unwrap().matches(':').count(), 2);
    assert!(device.compute_capability().unwrap() >= (5, 0));
    assert!(device.multiprocessor_count().unwrap() >= 1);
    assert_eq!(device.max_threads_per_block().unwrap(), 1_024);
    assert_eq!(device.attribute(DeviceAttribute::WARP_SIZE).unwrap(), 32);
    assert!(device.total_memory_bytes().unwrap() >= 1 << 28);
    assert!(!device.can_access_peer(&device).unwrap());
    assert_eq!(device, *setup.context.device());
    assert_eq!(device, setup.driver.device(0).unwrap());
}

fn a_device_that_is_not_there_is_refused(setup: &Setup) {
    let count = setup.driver.device_count().unwrap();
    for ordinal in [count, 1_000_000, usize::MAX] {
        let error = setup.driver.device(ordinal).unwrap_err();
        let text = format!("device: there is no device {ordinal}: the driver has {count}");
        assert_eq!((error.code(), error.to_string()), (101, text));
    }
}

fn an_attribute_that_the_driver_does_not_know_is_an_error(setup: &Setup) {
    let device = setup.driver.device(0).unwrap();
    for number in [0, 100_000, u32::MAX] {
        let unknown = device.attribute(DeviceAttribute::from_number(number));
        assert_eq!(unknown, Err(CudaError::InvalidValue), "{number}");
    }
}

fn a_context_tells_its_memory(setup: &Setup) {
    let memory = setup.context.memory_info().unwrap();
    assert!(memory.free_bytes <= memory.total_bytes);
    assert!(memory.total_bytes <= setup.context.device().total_memory_bytes().unwrap());
    assert!(memory.free_bytes > 0);
}

fn a_context_tells_the_priorities_of_streams(setup: &Setup) {
    let priorities = setup.context.stream_priorities().unwrap();
    assert_eq!(*priorities.end(), 0);
    assert!(*priorities.start() <= 0);
}

fn nothing_here_changes_the_current_context(setup: &Setup) {
    let current = || {
        let mut raw = std::ptr::null_mut();
        let functions = setup.driver.as_raw().functions();
        // SAFETY: the out-pointer is a live local.
        assert_eq!(unsafe { (functions.cuCtxGetCurrent)(&mut raw) }.0, 0);
        raw
    };
    let before = current();
    setup.context.memory_info().unwrap();
    setup.context.stream_priorities().unwrap();
    let _buffer = grapture::DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let _pinned = grapture::PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    assert_eq!(current(), before);
}

fn a_context_is_current_while_its_guard_lives(setup: &Setup) {
    let current = || {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live out-pointer.
        let code = unsafe { (setup.driver.as_raw().functions().cuCtxGetCurrent)(&mut raw) };
        assert_eq!(code.0, 0);
        raw
    };
    let own = setup.context.as_raw();
    assert!(current().is_null());
    let outer = setup.context.make_current().unwrap();
    let inner = setup.context.make_current().unwrap();
    // What creates something leaves it as it is.
    setup.assert_usable(&setup.stream());
    assert_eq!(current(), own);
    drop(inner);
    assert_eq!(current(), own);
    drop(outer);
    assert!(current().is_null());
    setup.assert_usable(&setup.stream());
    assert!(current().is_null());
}

fn a_supported_feature_has_its_functions(setup: &Setup) {
    for feature in Feature::ALL {
        if setup.driver.supports(*feature) {
            assert!(setup.driver.version() >= feature.since(), "{feature}");
        }
    }
    assert!(setup.driver.supports(Feature::StreamCapture));
}

fn driver(config: SimConfig) -> Driver {
    Driver::from(Simulation::new(config).driver())
}

#[test]
fn sim_a_feature_is_supported_from_its_version_on() {
    for version in [10_000, 10_010, 10_020, 11_020, 11_040, 12_000, 12_030, 13_000] {
        let driver = driver(SimConfig::default().driver_version(version));
        assert_eq!(driver.version().number(), version);
        for feature in Feature::ALL {
            let old_enough = feature.since() <= driver.version();
            // What the simulator does not model is missing from newer versions too.
            assert!(old_enough || !driver.supports(*feature), "{feature} on {version}");
        }
        assert!(driver.supports(Feature::StreamCapture));
        let modes = version >= 10_010;
        assert_eq!(driver.supports(Feature::CaptureModes), modes, "{version}");
    }
    assert_eq!(Feature::StreamOrderedMemory.since(), DriverVersion::new(11, 2));
}

#[test]
fn sim_devices_are_told_apart() {
    let driver = driver(SimConfig::default().devices(2));
    let [first, second] = [0, 1].map(|ordinal| driver.device(ordinal).unwrap());
    assert_ne!(first, second);
    assert_ne!(first.uuid().unwrap(), second.uuid().unwrap());
    assert_eq!(second.ordinal(), 1);
    let text = driver.device(2).unwrap_err().to_string();
    assert_eq!(text, "device: there is no device 2: the driver has 2");
    let other = self::driver(SimConfig::default()).device(0).unwrap();
    assert_ne!(first, other);
    let refused = first.can_access_peer(&other).unwrap_err().to_string();
    assert!(refused.starts_with("peer: it is a device of another driver"), "{refused}");
}

#[test]
fn sim_an_old_driver_tells_the_uuid_too() {
    let driver = driver(SimConfig::default().driver_version(10_000));
    assert_ne!(driver.device(0).unwrap().uuid().unwrap().0, [0; 16]);
}

#[test]
fn sim_failures_of_the_driver_come_through() {
    fn all(device: &Device, context: &Context) -> Vec<Option<CudaError>> {
        vec![
            device.name().err(),
            device.pci_bus_id().err(),
            device.uuid().err(),
            device.attribute(DeviceAttribute::WARP_SIZE).err(),
            device.total_memory_bytes().err(),
            device.can_access_peer(device).err(),
            context.memory_info().err(),
            context.stream_priorities().err(),
        ]
    }
    let sim = Simulation::new(SimConfig::default());
    let device = Driver::from(sim.driver()).device(0).unwrap();
    let context = Context::new(&device).unwrap();
    let functions = [
        Function::cuDeviceGetName,
        Function::cuDeviceGetPCIBusId,
        Function::cuDeviceGetUuid_v2,
        Function::cuDeviceGetAttribute,
        Function::cuDeviceTotalMem_v2,
        Function::cuDeviceCanAccessPeer,
        Function::cuMemGetInfo_v2,
        Function::cuCtxGetStreamPriorityRange,
    ];
    for (failing, function) in functions.into_iter().enumerate() {
        sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
        for (index, error) in all(&device, &context).into_iter().enumerate() {
            let expected = (index == failing).then(|| CudaError::from(CUDA_ERROR_UNKNOWN));
            assert_eq!(error, expected, "{function:?}");
        }
    }
}

/// A context that is current is asked for, and not made so again.
#[test]
fn sim_a_current_context_is_not_pushed() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let graph = grapture::Graph::new(&setup.context).unwrap();
    let pushes = || sim.calls(Function::cuCtxPushCurrent_v2);
    let before = pushes();
    graph.instantiate().unwrap();
    assert_eq!(pushes(), before + 1);
    let current = setup.context.make_current().unwrap();
    let before = pushes();
    graph.instantiate().unwrap();
    setup.stream();
    assert_eq!(pushes(), before);
    drop(current);
}
