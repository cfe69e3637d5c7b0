//! Devices that reach each other's memory, which only the simulated driver is sure to have.

mod common;

use common::gate::Gate;
use common::places::{Place, assert_clean, places};
use grapture::{
    CaptureMode, Context, CudaError, CudaResult, DeviceBuffer, Graph, PeerAttribute, Stream,
};
use grapture_sys::CUDA_ERROR_UNKNOWN;

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// `y += 2 * x`, on the device of the place.
#[track_caller]
fn axpy(
    place: &Place,
    y: &mut DeviceBuffer<f32>,
    x: &DeviceBuffer<f32>,
    stream: &Stream,
) -> CudaResult<()> {
    let kernel = place.module.kernel("axpy")?;
    let launch = kernel.launch_builder(1, 4).arg_mut(y).arg(x).value(2f32).value(4u32);
    // SAFETY: `axpy` takes two arrays of so many elements, a factor and that number.
    unsafe { launch.launch(stream) }
}

fn floats(place: &Place, value: f32) -> DeviceBuffer<f32> {
    DeviceBuffer::from_slice(&place.context, &[value; 4]).unwrap()
}

#[test]
fn sim_a_kernel_reaches_the_memory_of_a_peer() {
    let (sim, places) = places(2);
    let stream = &places[0].stream;
    let (mut y, x) = (floats(&places[0], 1.0), floats(&places[1], 10.0));
    let text = "kernel.arg: it belongs to another context than the stream: make both from the same \
                `Context`, or call `Context::enable_peer_access` if the device can reach the \
                other's memory";
    assert_eq!(refusal(axpy(&places[0], &mut y, &x, stream)), text);
    places[0].context.enable_peer_access(&places[1].context).unwrap();
    // Eager: what the kernel has still to read is not released.
    let gate = Gate::new();
    gate.hold(stream);
    axpy(&places[0], &mut y, &x, stream).unwrap();
    let held = sim.live().device_allocations;
    drop(x);
    places[0].context.driver().reclaim();
    assert_eq!(sim.live().device_allocations, held);
    gate.open();
    assert_eq!(y.to_vec(stream).unwrap(), [21.0; 4]);
    // Captured, and built.
    let x = floats(&places[1], 100.0);
    let captured =
        stream.capture(CaptureMode::ThreadLocal, |_| axpy(&places[0], &mut y, &x, stream));
    let captured = captured.unwrap();
    let mut built = Graph::new(&places[0].context).unwrap();
    let kernel = places[0].module.kernel("axpy").unwrap();
    let launch = kernel.launch_builder(1, 4).arg_mut(&mut y).arg(&x).value(2f32).value(4u32);
    // SAFETY: as in `axpy`.
    unsafe { built.add_kernel(launch, &[]) }.unwrap();
    drop(x);
    for graph in [captured, built] {
        graph.instantiate().unwrap().launch(stream).unwrap();
    }
    assert_eq!(y.to_vec(stream).unwrap(), [421.0; 4]);
    drop((y, kernel));
    assert_clean(&sim, places);
}

/// The access goes one way, is the driver's context's and not the handle's, and can be asked for
/// twice.
#[test]
fn sim_access_is_of_one_context_to_another() {
    let (sim, places) = places(3);
    let [a, b, c] = [0, 1, 2].map(|index: usize| places[index].context.clone());
    a.enable_peer_access(&b).unwrap();
    a.enable_peer_access(&b).unwrap();
    let again = Context::new(b.device()).unwrap();
    assert!(a.has_peer_access(&b) && a.has_peer_access(&again));
    assert!(!b.has_peer_access(&a) && !a.has_peer_access(&c));
    let (mut y, x) = (floats(&places[1], 1.0), floats(&places[0], 1.0));
    assert!(refusal(axpy(&places[1], &mut y, &x, &places[1].stream)).starts_with("kernel.arg"));
    // SAFETY: nothing runs.
    unsafe { a.disable_peer_access(&b) }.unwrap();
    // SAFETY: as above.
    unsafe { a.disable_peer_access(&b) }.unwrap();
    assert!(!a.has_peer_access(&b));
    // By another hand.
    let functions = sim.driver();
    let raw = a.make_current().unwrap();
    // SAFETY: a live context, and another one is current.
    let code = unsafe { (functions.functions().cuCtxEnablePeerAccess)(b.as_raw(), 0) };
    assert_eq!(code.0, 0);
    drop(raw);
    assert!(!a.has_peer_access(&b));
    a.enable_peer_access(&b).unwrap();
    assert!(a.has_peer_access(&b));
    drop((a, b, c, again, x, y));
    assert_clean(&sim, places);
}

#[test]
fn sim_what_is_no_peer_is_refused_by_name() {
    let (sim, places) = places(2);
    let (here, there) = (&places[0].context, &places[1].context);
    assert_eq!(
        refusal(here.enable_peer_access(here)),
        "peer: it is a context of device 0 as well, and only other devices are peers"
    );
    let (other_sim, others) = common::places::places(1);
    assert!(refusal(here.enable_peer_access(&others[0].context)).starts_with("peer: it is of"));
    assert!(!here.has_peer_access(&others[0].context));
    let foreign = others[0].context.device();
    let asked = here.device().peer_attribute(PeerAttribute::AccessSupported, foreign);
    assert!(refusal(asked).starts_with("peer: it is a device of another driver"));
    assert_clean(&other_sim, others);
    let own = here.device().peer_attribute(PeerAttribute::AccessSupported, here.device());
    assert_eq!(refusal(own), "peer: it is the same device, and only other devices are peers");
    for (attribute, value) in [
        (PeerAttribute::PerformanceRank, 0),
        (PeerAttribute::AccessSupported, 1),
        (PeerAttribute::NativeAtomicSupported, 1),
        (PeerAttribute::ArrayAccessSupported, 0),
    ] {
        assert_eq!(here.device().peer_attribute(attribute, there.device()), Ok(value));
    }
    // Memory in the order of a stream is not reached.
    here.enable_peer_access(there).unwrap();
    let ordered = DeviceBuffer::<f32>::alloc_async(&places[1].stream, 4).unwrap();
    let mut y = floats(&places[0], 1.0);
    let launched = axpy(&places[0], &mut y, &ordered, &places[0].stream);
    assert!(refusal(launched).starts_with("memory: memory that was allocated in the order"));
    drop((ordered, y));
    assert_clean(&sim, places);
}

/// Whichever call fails, a capture goes on and the access is as it was told.
#[test]
fn sim_giving_access_may_fail() {
    for nth in 1.. {
        let (sim, places) = places(2);
        let (here, there) = (&places[0].context, &places[1].context);
        let mut all = false;
        let graph = places[0].stream.capture(CaptureMode::Global, |capture| {
            let calls = sim.total_calls();
            sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
            let enabled = here.enable_peer_access(there);
            all = sim.total_calls() - calls < nth;
            sim.clear_failures();
            assert!(enabled.is_err() || here.has_peer_access(there), "call {nth}");
            assert!(capture.is_active());
            here.enable_peer_access(there)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 0);
        assert!(here.has_peer_access(there));
        assert_clean(&sim, places);
        if all {
            break;
        }
    }
}
