//! What graphs own, on a driver in plain Rust: `cargo xtask sanitize miri` runs this under Miri,
//! which sees each use of memory that is gone, each leak and each race.

mod fake;
mod functions;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, Context, CudaError, CudaResult, DeviceBuffer,
    Driver, Event, Graph, GraphExec, Kernel, PinnedBuffer, Stream, StreamGraphCapture,
};
use grapture_sys::FunctionInfo;

/// A driver with a context. There is one at a time.
struct World {
    driver: Driver,
    context: Context,
    add: Kernel,
    _serial: MutexGuard<'static, ()>,
}

impl World {
    fn new() -> World {
        static SERIAL: Mutex<()> = Mutex::new(());
        let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        *fake::state() = fake::State::default();
        let driver = Driver::from(raw_driver());
        let context = Context::new(&driver.device(0).unwrap()).unwrap();
        let add = context.load_ptx("a module").unwrap().kernel("add").unwrap();
        World { driver, context, add, _serial: serial }
    }

    fn stream(&self) -> Stream {
        Stream::new(&self.context).unwrap()
    }

    fn word(&self) -> DeviceBuffer<u32> {
        DeviceBuffer::alloc(&self.context, 1).unwrap()
    }

    fn launch(&self, word: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { self.add.launch_builder(1, 1).arg_mut(word).value(1u32).launch(stream) }
    }

    /// Runs what is in flight and drops the rest: nothing is left, and nothing went wrong.
    #[track_caller]
    fn end(self) {
        let World { driver, context, add, _serial } = self;
        fake::run();
        driver.reclaim();
        drop((context, add));
        // A release that is waited for by asking again needs a moment.
        let clean = || {
            fake::run();
            driver.reclaim();
            let state = fake::state();
            state.retains == 0
                && state.memory.is_empty()
                && state.graphs.is_empty()
                && state.execs.is_empty()
                && state.events.is_empty()
                && state.streams.is_empty()
                && state.modules.is_empty()
                && state.captures.is_empty()
        };
        for _ in 0..1000 {
            if clean() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(clean(), "something is left");
        assert!(fake::state().violations.is_empty(), "{:?}", fake::state().violations);
    }
}

/// The table of the driver's functions, made once: Miri takes a while for it.
fn raw_driver() -> grapture_sys::Driver {
    static DRIVER: OnceLock<grapture_sys::Driver> = OnceLock::new();
    let make = || {
        let resolver = |info: &'static FunctionInfo| functions::address(info.symbol);
        // SAFETY: the functions have the signatures of their lines, and are never unloaded.
        unsafe { grapture_sys::Driver::from_resolver("a fake driver", resolver) }.unwrap()
    };
    DRIVER.get_or_init(make).clone()
}

/// Is counted when it is dropped.
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A graph with a node of each kind that uses something, and what it uses.
struct Parts {
    graph: Graph,
    exec: GraphExec,
    stream: Stream,
    word: DeviceBuffer<u32>,
    pinned: PinnedBuffer<u32>,
    event: Event,
    seen: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

fn parts(world: &World) -> Parts {
    let stream = world.stream();
    let (mut word, mut pinned) =
        (world.word(), PinnedBuffer::from_slice(&world.context, &[5]).unwrap());
    let event = Event::new(&world.context).unwrap();
    let (seen, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        word.fill(1, &stream)?;
        word.copy_from_host_staged(&[7], &stream)?;
        world.launch(&mut word, &stream)?;
        word.copy_to_pinned(&mut pinned, &stream)?;
        let (runs, token) = (seen.clone(), Token(dropped.clone()));
        stream.host_function(move || {
            let _ = &token;
            runs.fetch_add(1, Ordering::SeqCst);
        })?;
        event.record(&stream)?;
        capture.retain(Token(dropped.clone()));
        Ok(())
    });
    let graph = graph.unwrap();
    let exec = graph.instantiate().unwrap();
    Parts { graph, exec, stream, word, pinned, event, seen, dropped }
}

/// Every order in which the parts can go, or as many as there is time for.
#[test]
fn a_launch_in_flight_outlives_every_order_of_drops() {
    let orders = if cfg!(miri) { 12 } else { 720 };
    for order in 0..orders {
        let world = World::new();
        let Parts { graph, exec, stream, word, pinned, event, seen, dropped } = parts(&world);
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        let mut left: Vec<Box<dyn Send>> = vec![
            Box::new(graph),
            Box::new(exec),
            Box::new(stream),
            Box::new(word),
            Box::new(event),
            Box::new(pinned),
        ];
        let mut choice = order * if cfg!(miri) { 61 } else { 1 };
        // The pinned memory goes last or stays: its own drop waits for the launches.
        let pinned = left.pop();
        while !left.is_empty() {
            drop(left.swap_remove(choice % left.len()));
            choice /= left.len() + 1;
        }
        world.driver.reclaim();
        assert_eq!((seen.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (0, 0));
        drop(pinned);
        fake::run();
        world.end();
        assert_eq!((seen.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (2, 2));
    }
}

#[test]
fn results_are_read_when_they_are_there() {
    let world = World::new();
    let Parts { exec, stream, pinned, word, .. } = parts(&world);
    exec.launch(&stream).unwrap();
    assert_eq!(*pinned.read().unwrap(), [8]);
    assert_eq!(word.to_vec(&stream).unwrap(), [8]);
    drop((exec, stream, pinned, word));
    world.end();
}

#[test]
fn what_was_never_launched_goes_at_once() {
    let world = World::new();
    let Parts { graph, exec, dropped, .. } = parts(&world);
    drop(exec);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(graph);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    world.end();
}

#[test]
fn a_capture_that_gives_no_graph_keeps_nothing() {
    let world = World::new();
    let (stream, mut word) = (world.stream(), world.word());
    let dropped = Arc::new(AtomicUsize::new(0));
    let record = |capture: &StreamGraphCapture<'_>, word: &mut DeviceBuffer<u32>| {
        world.launch(word, &stream)?;
        capture.retain(Token(dropped.clone()));
        let token = Token(dropped.clone());
        stream.host_function(move || _ = &token)
    };
    let failed = stream.capture(CaptureMode::Relaxed, |capture| {
        record(capture, &mut word)?;
        Err(CudaError::NotFound)
    });
    assert_eq!(failed.unwrap_err(), CudaError::NotFound);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(CaptureMode::Relaxed, |capture| {
            record(capture, &mut word)?;
            resume_unwind(Box::new("asked for"))
        })
    }));
    assert!(panicked.is_err());
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    record(&capture, &mut word).unwrap();
    drop(capture);
    assert_eq!(dropped.load(Ordering::SeqCst), 6);
    drop((stream, word));
    world.end();
}

#[test]
fn values_that_panic_in_their_drop_take_nothing_with_them() {
    struct Panics(Token);
    impl Drop for Panics {
        fn drop(&mut self) {
            let _ = &self.0;
            resume_unwind(Box::new("asked for"));
        }
    }
    let world = World::new();
    let stream = world.stream();
    let dropped = Arc::new(AtomicUsize::new(0));
    let record = |capture: &StreamGraphCapture<'_>| {
        for _ in 0..3 {
            capture.retain(Panics(Token(dropped.clone())));
            let value = Panics(Token(dropped.clone()));
            stream.host_function(move || _ = &value)?;
        }
        Ok(())
    };
    let graph = stream.capture(CaptureMode::Relaxed, record).unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    drop((exec, graph));
    drop(StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).map(|capture| {
        record(&capture).unwrap();
    }));
    drop(stream);
    world.end();
    assert_eq!(dropped.load(Ordering::SeqCst), 12);
}

#[test]
fn threads_record_hand_over_and_drop() {
    let world = World::new();
    let stream = world.stream();
    let mut words = [world.word(), world.word()];
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    std::thread::scope(|scope| {
        let [own, other] = &mut words;
        let (world, stream) = (&world, &stream);
        scope.spawn(move || (0..5).for_each(|_| world.launch(other, stream).unwrap()));
        (0..5).for_each(|_| world.launch(own, stream).unwrap());
    });
    let exec = capture.end().unwrap();
    assert_eq!(exec.node_count(), 10);
    // From here on the memory is the executable's alone.
    drop(words);
    std::thread::scope(|scope| {
        let (world, stream) = (&world, &stream);
        scope.spawn(move || {
            exec.launch(stream).unwrap();
            drop(exec);
            // What is let go of now is let go of too early.
            world.driver.reclaim();
            fake::run();
            world.driver.reclaim();
        });
        scope.spawn(move || {
            let mut word = world.word();
            word.fill(1, stream).unwrap();
            assert_eq!(word.to_vec(stream).unwrap(), [1]);
        });
    });
    drop(stream);
    world.end();
}

#[test]
fn memory_in_the_order_of_streams_is_used_and_released_in_it() {
    let world = World::new();
    let (home, other) = (world.stream(), world.stream());
    let mut words = DeviceBuffer::<u32>::alloc_async(&home, 4).unwrap();
    words.fill(3, &other).unwrap();
    let exec = other.capture(CaptureMode::Relaxed, |_| words.fill(4, &other));
    let exec = exec.unwrap().instantiate().unwrap();
    exec.launch(&other).unwrap();
    drop((words, home));
    exec.launch(&other).unwrap();
    drop((exec, other));
    world.end();
}

#[test]
fn a_host_function_is_let_go_of_after_its_run() {
    let world = World::new();
    let stream = world.stream();
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (token, word) = (Token(dropped.clone()), world.word());
        // The handle is released on the library's thread.
        stream.host_function(move || _ = (&token, &word)).unwrap();
    }
    drop(stream);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    world.end();
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}
