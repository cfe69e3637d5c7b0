//! Conditional nodes when driver calls fail, one by one; and on drivers that lack them.

mod common;

use common::Setup;
use common::releases::{assert_clean, count_failed_releases};
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Driver, FillNode, Graph, GraphBody, Kernel,
    Stream, WordCondition,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::CUDA_ERROR_UNKNOWN;

/// `word += value`
fn add(
    kernel: &Kernel,
    word: &mut DeviceBuffer<u32>,
    value: u32,
    stream: &Stream,
) -> CudaResult<()> {
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { kernel.launch_builder(1, 1).arg_mut(word).value(value).launch(stream) }
}

/// Captures a loop with a choice in it.
fn capture(setup: &Setup, left: &mut DeviceBuffer<u32>) -> CudaResult<Graph> {
    let (stream, condition) = (Stream::new(&setup.context)?, WordCondition::new(left)?);
    let kernel = setup.module.kernel("add")?;
    stream.capture(CaptureMode::Global, |capture| {
        let once = capture.condition(1)?;
        capture.while_(&condition, |body| {
            body.if_else(&condition, |_| Ok(()), |_| Ok(()))?;
            add(&kernel, left, u32::MAX, body.stream())
        })?;
        capture.if_(&once, |body| add(&kernel, left, 7, body.stream()))
    })
}

/// Builds the same by hand, in part by a capture.
fn build(setup: &Setup, left: &mut DeviceBuffer<u32>) -> CudaResult<Graph> {
    let (stream, condition) = (Stream::new(&setup.context)?, WordCondition::new(left)?);
    let kernel = setup.module.kernel("add")?;
    let mut graph = Graph::new(&setup.context)?;
    let once = graph.condition(1)?;
    let looped = graph.add_while(&condition, &[], |body: &mut GraphBody<'_>| {
        let choice = body.add_if_else(&condition, &[], |_| Ok(()), |_| Ok(()))?;
        body.capture(&stream, &[choice], |_| add(&kernel, left, u32::MAX, &stream)).map(|_| ())
    })?;
    graph
        .add_if(&once, &[looped], |body| body.add_fill(FillNode::new(left, 7)?, &[]).map(|_| ()))?;
    Ok(graph)
}

type Make = fn(&Setup, &mut DeviceBuffer<u32>) -> CudaResult<Graph>;

#[track_caller]
fn run(setup: &Setup, graph: &Graph, left: &mut DeviceBuffer<u32>, what: &str) {
    let stream = setup.stream();
    left.fill(3, &stream).unwrap();
    graph.instantiate().unwrap_or_else(|error| panic!("{what}: {error}")).launch(&stream).unwrap();
    assert_eq!(left.to_vec(&stream).unwrap(), [7], "{what}");
}

fn sweep(name: &str, make: Make) {
    count_failed_releases();
    for nth in 1.. {
        let sim = Simulation::new(SimConfig::default());
        let setup = Setup::on(Driver::from(sim.driver()));
        let mut left = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let calls = sim.total_calls();
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let made = make(&setup, &mut left);
        let count = sim.total_calls() - calls;
        sim.clear_failures();
        let what = format!("{name}, call {nth} of {count}");
        match &made {
            Ok(graph) => run(&setup, graph, &mut left, &what),
            Err(error) => assert_eq!(error.code(), CUDA_ERROR_UNKNOWN.0, "{what}: {error}"),
        }
        setup.assert_usable(&setup.stream());
        let again = make(&setup, &mut left).unwrap_or_else(|error| panic!("{what}: {error}"));
        run(&setup, &again, &mut left, &what);
        let (driver, failed) = (setup.driver.clone(), made.is_err());
        drop((made, again, left, setup));
        assert_clean(&sim, &driver, &what);
        if count < nth {
            assert!(!failed, "{what}");
            return;
        }
    }
}

#[test]
fn sim_each_call_of_a_capture_with_conditional_nodes_fails() {
    sweep("capture", capture);
}

#[test]
fn sim_each_call_of_a_build_with_conditional_nodes_fails() {
    sweep("build", build);
}

#[test]
fn sim_conditional_nodes_need_a_driver_that_has_them() {
    let made = |version, make: Make| {
        let sim = Simulation::new(SimConfig::new().driver_version(version));
        let setup = Setup::on(Driver::from(sim.driver()));
        let mut left = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let made = make(&setup, &mut left).map(|graph| run(&setup, &graph, &mut left, "made"));
        setup.assert_usable(&setup.stream());
        made
    };
    let plain: Make = |setup, left| {
        let condition = WordCondition::new(left)?;
        setup.stream().capture(CaptureMode::Global, |capture| {
            capture.while_(&condition, |body| setup.add(left, u32::MAX, body.stream()))?;
            left.fill(7, capture.stream())
        })
    };
    for version in [12_020, 11_040] {
        for make in [plain, capture as Make, build] {
            assert_eq!(made(version, make), Err(CudaError::NotSupported), "{version}");
        }
    }
    // `else` came later.
    for version in [12_030, 12_040] {
        assert_eq!(made(version, plain), Ok(()), "{version}");
        assert_eq!(made(version, capture), Err(CudaError::NotSupported), "{version}");
        assert_eq!(made(version, build), Err(CudaError::NotSupported), "{version}");
    }
    for make in [plain, capture, build] {
        assert_eq!(made(12_080, make), Ok(()));
    }
}

/// The kernel by which words decide is loaded once for all graphs, and goes with the last.
#[test]
fn sim_the_kernel_of_words_is_loaded_once_and_unloaded() {
    let sim = Simulation::new(SimConfig::new());
    let setup = Setup::on(Driver::from(sim.driver()));
    let mut left = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let before = sim.live().modules;
    let graphs = [(); 3].map(|()| capture(&setup, &mut left).unwrap());
    assert_eq!(sim.live().modules, before + 1);
    drop(graphs);
    assert_eq!(sim.live().modules, before);
}
