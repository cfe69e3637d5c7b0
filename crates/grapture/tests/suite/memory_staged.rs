//! Copies between host memory and the device: what each name says, in a capture and outside.

use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{CaptureMode, CudaError, DeviceBuffer, Driver, PinnedBuffer, Stream};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    a_staged_copy_does_not_wait_for_the_stream,
    a_staged_copy_from_pinned_memory_leaves_that_free,
    a_blocking_copy_waits_for_the_stream,
    every_copy_does_what_its_name_says,
}

fn a_staged_copy_does_not_wait_for_the_stream(setup: &Setup) {
    let stream = setup.stream();
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 1_000).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    let mut host = vec![5u32; 1_000];
    target.copy_from_host_staged(&host, &stream).unwrap();
    host.fill(9);
    drop(host);
    assert!(!stream.is_idle().unwrap());
    gate.open();
    assert_eq!(target.to_vec(&stream).unwrap(), [5; 1_000]);
}

/// The driver would read page-locked memory when the copy runs.
fn a_staged_copy_from_pinned_memory_leaves_that_free(setup: &Setup) {
    let stream = setup.stream();
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[1u32, 2, 3, 4]).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    target.copy_from_host_staged(&pinned.read().unwrap(), &stream).unwrap();
    pinned.try_write().unwrap().fill(0);
    gate.open();
    assert_eq!(target.to_vec(&stream).unwrap(), [1, 2, 3, 4]);
}

fn a_blocking_copy_waits_for_the_stream(setup: &Setup) {
    let stream = setup.stream();
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| {
            target.copy_from_host(&[1, 2, 3, 4], &stream).unwrap();
            assert!(gate.is_open());
            assert_eq!(target.to_vec(&stream).unwrap(), [1, 2, 3, 4]);
        });
        gate.wait_until_reached();
        gate.open();
        copy.join().unwrap();
    });
}

/// Each copy of each kind of stream, captured and not.
fn every_copy_does_what_its_name_says(setup: &Setup) {
    let blocking =
        Stream::with_options(&setup.context, grapture::StreamOptions::new().blocking(true));
    let streams = [setup.stream(), blocking.unwrap(), Stream::per_thread(&setup.context)];
    for stream in &streams {
        let mut device = DeviceBuffer::<u32>::zeroed(&setup.context, 2).unwrap();
        let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 2).unwrap();
        let mut host = [0; 2];
        device.copy_from_host(&[1, 2], stream).unwrap();
        device.copy_to_host(&mut host, stream).unwrap();
        assert_eq!(host, [1, 2]);
        device.copy_from_host_staged(&[3, 4], stream).unwrap();
        device.copy_to_pinned(&mut pinned, stream).unwrap();
        assert_eq!(*pinned.read().unwrap(), [3, 4]);
        pinned.write().unwrap().copy_from_slice(&[5, 6]);
        device.copy_from_pinned(&pinned, stream).unwrap();
        assert_eq!(device.to_vec(stream).unwrap(), [5, 6]);

        let exec = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                for refused in [
                    device.copy_from_host(&[1, 2], stream),
                    device.copy_to_host(&mut host, stream),
                    device.to_vec(stream).map(drop),
                ] {
                    assert!(matches!(refused, Err(CudaError::Refused(_))), "{refused:?}");
                }
                assert!(capture.is_active());
                device.copy_from_host_staged(&[7, 8], stream)?;
                device.copy_to_pinned(&mut pinned, stream)?;
                // Nothing has run, so nothing is in the way of the host.
                assert_eq!(*pinned.try_read()?, [5, 6]);
                device.copy_from_pinned(&pinned, stream)
            })
            .unwrap()
            .instantiate()
            .unwrap();
        assert_eq!(exec.node_count(), 3);
        for _ in 0..2 {
            device.fill(0, stream).unwrap();
            exec.launch(stream).unwrap();
            assert_eq!(device.to_vec(stream).unwrap(), [7, 8]);
            assert_eq!(*pinned.read().unwrap(), [7, 8]);
            pinned.write().unwrap().fill(0);
        }
    }
    let legacy = Stream::legacy(&setup.context);
    let mut device = DeviceBuffer::<u32>::zeroed(&setup.context, 2).unwrap();
    device.copy_from_host_staged(&[1, 2], &legacy).unwrap();
    assert_eq!(device.to_vec(&legacy).unwrap(), [1, 2]);
}

#[test]
fn sim_a_staged_copy_leaves_nothing_behind() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    for stream in
        [setup.stream(), Stream::per_thread(&setup.context), Stream::legacy(&setup.context)]
    {
        let before = sim.live().to_string();
        for function in [None, Some(Function::cuMemHostAlloc), Some(Function::cuMemcpyHtoDAsync_v2)]
        {
            if let Some(function) = function {
                sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
            }
            let copied = target.copy_from_host_staged(&[1, 2, 3, 4], &stream);
            assert_eq!(copied.is_err(), function.is_some());
            stream.synchronize().unwrap();
            setup.driver.reclaim();
            let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while sim.live().to_string() != before {
                assert!(std::time::Instant::now() < limit, "{}", sim.live());
                setup.driver.reclaim();
            }
        }
    }
}
