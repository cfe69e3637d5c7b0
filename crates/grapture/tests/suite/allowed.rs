//! Every public call, made while a capture is open: the capture is valid after each.

use std::sync::Mutex;
use std::thread;

use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CaptureMode, Context, CopyNode, CudaResult, DeviceAttribute,
    DeviceBuffer, Event, EventOptions, Feature, FillNode, Graph, GraphBuffer, GraphExec,
    InstantiateFlags, InstantiateOptions, JitOptions, Kernel, Module, PinnedBuffer, Region2d,
    Stream, StreamGraphCapture, StreamOptions, ThreadCaptureMode,
};

both_tiers! {
    every_call_leaves_a_capture_of_the_thread_valid,
    every_call_leaves_a_capture_of_another_thread_valid,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

const NONSENSE: &str = ".version 6.4\n.target sm_50\n.address_size 64\n\
                        .visible .entry wrong() { nonsense; }\n";

/// What the calls are made with. `stream` captures, the rest has nothing to do with that.
struct World<'a> {
    setup: &'a Setup,
    stream: &'a Stream,
    other: Stream,
    kernel: Kernel,
    event: Event,
    timed: [Event; 2],
    graph: Mutex<Graph>,
    exec: Mutex<GraphExec>,
    ordered: DeviceBuffer<u32>,
}

/// A call: its name, what the library answers, and itself.
type Call = (&'static str, u32, fn(&World<'_>) -> CudaResult<()>);

impl<'a> World<'a> {
    fn new(setup: &'a Setup, stream: &'a Stream) -> World<'a> {
        let other = setup.stream();
        let timed = [(); 2].map(|()| {
            let event = Event::with_options(&setup.context, EventOptions::new().timing(true));
            let event = event.unwrap();
            event.record(&other).unwrap();
            event
        });
        let event = Event::new(&setup.context).unwrap();
        event.record(&other).unwrap();
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let graph = other.capture(CaptureMode::Relaxed, |_| setup.add(&mut word, 1, &other));
        let graph = graph.unwrap();
        let exec = graph.instantiate().unwrap();
        let ordered = DeviceBuffer::alloc_async(&other, 4).unwrap();
        other.synchronize().unwrap();
        World {
            setup,
            stream,
            kernel: setup.module.kernel("add").unwrap(),
            event,
            timed,
            graph: Mutex::new(graph),
            exec: Mutex::new(exec),
            ordered,
            other,
        }
    }

    fn context(&self) -> &Context {
        &self.setup.context
    }

    fn word(&self) -> DeviceBuffer<u32> {
        DeviceBuffer::from_slice(self.context(), &[1u32]).unwrap()
    }
}

fn ok<T>(result: CudaResult<T>) -> CudaResult<()> {
    result.map(|_| ())
}

/// What touches the capturing stream, and is refused or recorded.
const ON_THE_STREAM: &[Call] = &[
    ("Stream::synchronize", 900, |w| w.stream.synchronize()),
    ("Stream::is_idle", 900, |w| ok(w.stream.is_idle())),
    ("Stream::priority", 0, |w| ok(w.stream.priority())),
    ("Stream::capture_info", 0, |w| ok(w.stream.capture_info())),
    ("Stream::is_capturing", 0, |w| {
        assert!(w.stream.is_capturing());
        Ok(())
    }),
    ("Stream: Debug", 0, |w| {
        let _ = format!("{:?}", w.stream);
        Ok(())
    }),
    ("Stream::capture", 401, |w| ok(w.stream.capture(CaptureMode::Relaxed, |_| Ok(())))),
    ("Stream::capture_or_run", 401, |w| {
        ok(w.stream.capture_or_run(CaptureMode::Relaxed, |_| Ok(())))
    }),
    ("Stream::capture_into", 401, |w| {
        let mut graph = Graph::new(w.context())?;
        ok(w.stream.capture_into(&mut graph, &[], CaptureMode::Relaxed, |_| Ok(())))
    }),
    ("Stream::host_function", 0, |w| w.stream.host_function(|| {})),
    ("Event::record", 0, |w| Event::new(w.context())?.record(w.stream)),
    ("Event::wait of the outside", 905, |w| w.event.wait(w.stream)),
    ("Event::wait of nothing", 0, |w| Event::new(w.context())?.wait(w.stream)),
    ("Event::record_external", 0, |w| Event::new(w.context())?.record_external(w.stream)),
    ("Event::wait_external", 0, |w| w.event.wait_external(w.stream)),
    ("GraphExec::launch", 900, |w| w.exec.lock().unwrap().launch(w.stream)),
    ("Graph::profile", 900, |w| ok(w.graph.lock().unwrap().profile(w.stream, 1))),
    ("GraphExec::upload", 900, |w| w.exec.lock().unwrap().upload(w.stream)),
    ("Graph::instantiate_with an upload", 900, |w| {
        let options = InstantiateOptions::new().upload_on(w.stream);
        ok(w.graph.lock().unwrap().instantiate_with(&options))
    }),
    ("DeviceBuffer::alloc_async", 900, |w| ok(DeviceBuffer::<u32>::alloc_async(w.stream, 4))),
    ("DeviceBuffer::to_vec", 900, |w| ok(w.word().to_vec(w.stream))),
    ("DeviceBuffer::to_vec of nothing", 900, |w| {
        ok(DeviceBuffer::<u32>::alloc(w.context(), 0)?.to_vec(w.stream))
    }),
    ("DeviceBuffer::copy_from_host", 900, |w| w.word().copy_from_host(&[1], w.stream)),
    ("DeviceBuffer::copy_from_host_staged", 0, |w| w.word().copy_from_host_staged(&[1], w.stream)),
    ("DeviceBuffer::copy_from", 0, |w| w.word().copy_from(&w.word(), w.stream)),
    ("DeviceBuffer::copy_from ordered memory", 0, |w| {
        DeviceBuffer::<u32>::alloc(w.context(), 4)?.copy_from(&w.ordered, w.stream)
    }),
    ("DeviceBuffer::copy_to_pinned", 0, |w| {
        w.word().copy_to_pinned(&mut w.setup.pinned_word(), w.stream)
    }),
    ("DeviceBuffer::fill_2d", 0, |w| w.word().fill_2d(1, Region2d::new(1, 1), w.stream)),
    ("LaunchBuilder::launch", 0, |w| w.setup.add(&mut w.word(), 1, w.stream)),
    ("LaunchBuilder::launch of too much", 1, |w| {
        // SAFETY: it is refused.
        unsafe { w.kernel.launch_builder(1, 4096).launch(w.stream) }
    }),
];

/// What has to do with other streams, and with none.
const BESIDE: &[Call] = &[
    ("Context::synchronize", 900, |w| w.context().synchronize()),
    ("Context::new", 0, |w| ok(Context::new(w.context().device()))),
    ("Context::stream_priorities", 0, |w| ok(w.context().stream_priorities())),
    ("Context::memory_info", 0, |w| ok(w.context().memory_info())),
    ("Context::load_ptx", 0, |w| ok(w.context().load_ptx(KERNELS))),
    ("Module::from_ptx of nonsense", 218, |w| {
        ok(Module::from_ptx(w.context(), NONSENSE, JitOptions::new()))
    }),
    ("Module::kernel", 0, |w| ok(w.setup.module.kernel("mul_add"))),
    ("Module::kernel that is none", 500, |w| ok(w.setup.module.kernel("none"))),
    ("Module::kernel_names", 0, |w| ok(w.setup.module.kernel_names())),
    ("Module::global", 0, |w| ok(w.setup.module.global("counter"))),
    ("Kernel::max_active_blocks", 0, |w| ok(w.kernel.max_active_blocks(32, 0))),
    ("Kernel::suggested_block_size", 0, |w| ok(w.kernel.suggested_block_size(0))),
    ("Kernel::set_max_dynamic_shared_bytes", 0, |w| w.kernel.set_max_dynamic_shared_bytes(1024)),
    ("Device", 0, |w| {
        let device = w.context().device();
        ok(device.name())?;
        ok(device.uuid())?;
        ok(device.pci_bus_id())?;
        ok(device.total_memory_bytes())?;
        ok(device.compute_capability())?;
        ok(device.max_threads_per_block())?;
        ok(device.can_access_peer(device))
    }),
    ("Device::attribute", 0, |w| {
        DeviceAttribute::known().try_for_each(|known| {
            let _ = w.context().device().attribute(known);
            Ok(())
        })
    }),
    ("Driver", 0, |w| {
        let driver = &w.setup.driver;
        ok(driver.device_count())?;
        ok(driver.device(0))?;
        let _ = (driver.version(), driver.origin(), driver.supports(Feature::StreamCapture));
        driver.reclaim();
        Ok(())
    }),
    ("Stream::new", 0, |w| {
        let stream = Stream::new(w.context())?;
        stream.host_function(|| {})?;
        stream.synchronize()?;
        ok(stream.is_idle())
    }),
    ("Stream::with_options", 0, |w| {
        ok(Stream::with_options(w.context(), StreamOptions::new().blocking(true).priority(-1)))
    }),
    ("Stream::synchronize of another", 0, |w| w.other.synchronize()),
    ("Stream::is_idle of another", 0, |w| ok(w.other.is_idle())),
    ("Stream::priority of another", 0, |w| ok(w.other.priority())),
    ("Stream::capture_info of another", 0, |w| ok(w.other.capture_info())),
    ("Stream::capture of another", 0, |w| {
        let exec = w.other.capture(CaptureMode::Relaxed, |_| Ok(()))?.instantiate()?;
        exec.launch(&w.other)
    }),
    ("Event::new", 0, |w| ok(Event::new(w.context()))),
    ("Event::record on another", 0, |w| w.event.record(&w.other)),
    ("Event::wait on another", 0, |w| w.event.wait(&w.other)),
    ("Event::record_external on another", 401, |w| w.event.record_external(&w.other)),
    ("Event::wait_external on another", 401, |w| w.event.wait_external(&w.other)),
    ("Event::is_complete", 0, |w| ok(w.event.is_complete())),
    ("Event::synchronize", 0, |w| w.event.synchronize()),
    ("Event::elapsed_since", 0, |w| ok(w.timed[1].elapsed_since(&w.timed[0]))),
    ("GraphExec::launch on another", 0, |w| w.exec.lock().unwrap().launch(&w.other)),
    ("GraphExec::upload on another", 0, |w| w.exec.lock().unwrap().upload(&w.other)),
    ("GraphExec", 0, |w| {
        let exec = w.exec.lock().unwrap();
        let _ = exec.node_count();
        ok(exec.flags())
    }),
    ("Graph", 0, |w| {
        let graph = w.graph.lock().unwrap();
        ok(graph.node_count())?;
        ok(graph.nodes())?;
        ok(graph.roots())?;
        ok(graph.edges())?;
        ok(graph.topology())
    }),
    ("Graph::write_debug_dot", 0, |w| {
        let name = format!("grapture-{:?}.dot", std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let written = w.graph.lock().unwrap().write_debug_dot(&path, true);
        let _ = std::fs::remove_file(path);
        written
    }),
    ("Graph: building", 0, |w| {
        let mut word = w.word();
        let mut graph = Graph::new(w.context())?;
        // SAFETY: `add` takes the address of a word and a value.
        let first = unsafe {
            graph.add_kernel(w.kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32), &[])?
        };
        let second = graph.add_fill(FillNode::new(&mut word, 3)?, &[first])?;
        graph.add_copy(CopyNode::device(&mut w.word(), &word)?, &[second])?;
        graph.add_host(|| {}, &[second])?;
        graph.add_event_record(&w.event, &[second])?;
        graph.add_event_wait(&w.event, &[second])?;
        let empty = graph.add_empty(&[])?;
        graph.add_child(&w.graph.lock().unwrap(), &[empty])?;
        graph.add_dependency(second, empty)?;
        graph.remove_dependency(second, empty)?;
        graph.node(first)?.params()?;
        graph.node_mut(second)?.set_fill(FillNode::new(&mut word, 4)?)?;
        graph.remove_node(empty)?;
        graph.retain(());
        let _ = graph.retained();
        ok(graph.try_clone())
    }),
    ("Graph: memory", 0, |w| {
        let mut graph = Graph::new(w.context())?;
        let scratch: GraphBuffer<u32> = graph.add_alloc(4, &[])?;
        graph.add_free(&scratch, &[scratch.node()])?;
        graph.instantiate()?.launch(&w.other)
    }),
    ("GraphExec::update", 0, |w| {
        let graph = w.graph.lock().unwrap();
        ok(w.exec.lock().unwrap().update(&graph))?;
        let mut word = w.word();
        let other = w.other.capture(CaptureMode::Relaxed, |_| word.fill(1, &w.other))?;
        let mut exec = other.instantiate()?;
        ok(exec.update(&w.other.capture(CaptureMode::Relaxed, |_| word.fill(2, &w.other))?))?;
        // It is made anew.
        ok(exec.update(&w.other.capture(CaptureMode::Relaxed, |_| Ok(()))?))
    }),
    ("GraphExec::node", 0, |w| {
        let mut word = w.word();
        let graph = w.other.capture(CaptureMode::Relaxed, |_| word.fill(1, &w.other))?;
        let (mut exec, node) = (graph.instantiate()?, graph.nodes()?[0].id());
        exec.node_of(&graph, node)?.set_fill(FillNode::new(&mut word, 2)?)?;
        exec.node_of(&graph, node)?.set_enabled(false)?;
        ok(exec.node_of(&graph, node)?.is_enabled())
    }),
    ("Graph::profile", 0, |w| ok(w.graph.lock().unwrap().profile(&w.other, 1))),
    ("Stream::capture_into of another", 0, |w| {
        let mut graph = Graph::new(w.context())?;
        ok(w.other.capture_into(&mut graph, &[], CaptureMode::Relaxed, |_| Ok(())))
    }),
    ("Graph::instantiate", 0, |w| ok(w.graph.lock().unwrap().instantiate())),
    ("Graph::instantiate_with", 0, |w| {
        let options = InstantiateOptions::new().flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH);
        ok(w.graph.lock().unwrap().instantiate_with(&options.upload_on(&w.other)))
    }),
    ("DeviceBuffer::zeroed", 0, |w| ok(DeviceBuffer::<u32>::zeroed(w.context(), 4))),
    ("DeviceBuffer::alloc_async on another", 0, |w| {
        let mut ordered = DeviceBuffer::<u32>::alloc_async(&w.other, 4)?;
        ordered.fill(1, &w.other)
    }),
    ("DeviceBuffer::to_vec on another", 0, |w| ok(w.word().to_vec(&w.other))),
    ("DeviceBuffer::copy_from_host on another", 0, |w| w.word().copy_from_host(&[1], &w.other)),
    ("PinnedBuffer", 0, |w| {
        let mut pinned = PinnedBuffer::from_slice(w.context(), &[1u32])?;
        w.word().copy_to_pinned(&mut pinned, &w.other)?;
        ok(pinned.read())?;
        ok(pinned.write())?;
        let _ = (pinned.try_read(), pinned.as_ptr());
        Ok(())
    }),
    ("LaunchBuilder::launch on another", 0, |w| w.setup.add(&mut w.word(), 1, &w.other)),
    ("ThreadCaptureMode::set", 0, |w| {
        ok(ThreadCaptureMode::set(&w.setup.driver, CaptureMode::ThreadLocal))
    }),
    ("Stream::legacy", 0, |w| {
        let legacy = Stream::legacy(w.context());
        w.word().fill(1, &legacy)?;
        legacy.synchronize()
    }),
    ("Stream::per_thread", 0, |w| {
        let stream = Stream::per_thread(w.context());
        w.word().fill(1, &stream)?;
        stream.synchronize()
    }),
];

fn every_call_leaves_a_capture_of_the_thread_valid(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let world = World::new(setup, &stream);
        let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
        for call in ON_THE_STREAM.iter().chain(BESIDE) {
            make(call, &world, mode, &capture);
        }
        capture.end().unwrap();
        setup.assert_usable(&stream);
        setup.assert_usable(&world.other);
    }
}

fn every_call_leaves_a_capture_of_another_thread_valid(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let world = World::new(setup, &stream);
        let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
        for call in ON_THE_STREAM.iter().chain(BESIDE) {
            let status = thread::scope(|scope| {
                let made = || assert_eq!(code((call.2)(&world)), call.1, "{}, {mode:?}", call.0);
                scope.spawn(made).join().unwrap();
                capture.capture_status().unwrap()
            });
            assert_eq!(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "{}, {mode:?}", call.0);
        }
        capture.end().unwrap();
        setup.assert_usable(&stream);
        setup.assert_usable(&world.other);
    }
}

fn make(call: &Call, world: &World<'_>, mode: CaptureMode, capture: &StreamGraphCapture<'_>) {
    let (name, expected, make) = call;
    assert_eq!(code(make(world)), *expected, "{name}, {mode:?}");
    let status = capture.capture_status().unwrap();
    assert_eq!(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "{name}, {mode:?}");
}

fn code(result: CudaResult<()>) -> u32 {
    result.map_or_else(|error| error.code(), |()| 0)
}
