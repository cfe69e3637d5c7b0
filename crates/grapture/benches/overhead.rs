//! What the library adds to a driver call, in nanoseconds: the calls of the hot paths go to
//! functions that do nothing, all others to the simulated driver.
//!
//! `cargo bench -p grapture --bench overhead`, with words of a line's name for that line alone.

#[path = "../tests/common/idle.rs"]
mod idle;

use std::hint::black_box;
use std::time::{Duration, Instant};

use grapture::{
    BufferSlotMut, CU_STREAM_CAPTURE_MODE_RELAXED, CacheLimits, Context, DeviceBuffer, Driver,
    FillNode, Graph, GraphCache, Kernel, Slot, Stream, StreamGraphCapture,
};
use idle::KERNELS;

fn main() {
    measure(&idle::driver());
}

/// Changes of executables, and the cache of them.
fn changes(context: &Context, kernel: &Kernel, word: &mut DeviceBuffer<u32>, stream: &Stream) {
    let mut graph = Graph::new(context).unwrap();
    let launch = kernel.launch_builder(1, 32).arg_mut(word).value(1u32);
    // SAFETY: `add` takes the address of a word and a value.
    let add = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    let fill = graph.add_fill(FillNode::new(word, 1).unwrap(), &[add]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    report("ExecNode::set_kernel", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(word).value(1u32);
        // SAFETY: as above.
        unsafe { exec.node(add).unwrap().set_kernel(launch) }.unwrap();
    });
    report("ExecNode::set_fill", || {
        let fill_node = FillNode::new(word, 1).unwrap();
        exec.node(fill).unwrap().set_fill(fill_node).unwrap();
    });
    sets(context, kernel, word);
    let cache = GraphCache::new(context, CacheLimits::new().entries(64));
    for batch in 0..64_u32 {
        cache.get_or_capture((batch, 4096_u32), stream, |_| Ok(())).unwrap();
    }
    let mut batch = 0;
    report("GraphCache::get, a hit", || {
        batch = (batch + 1) % 64;
        black_box(cache.get(&(black_box(batch), 4096)));
    });
}

/// Slots of one node and of 1,000.
fn sets(context: &Context, kernel: &Kernel, word: &mut DeviceBuffer<u32>) {
    let mut other = DeviceBuffer::<u32>::zeroed(context, 1).unwrap();
    for nodes in [1, 1_000] {
        let (value, mut memory) = (Slot::new(1u32), BufferSlotMut::new(word));
        let mut graph = Graph::new(context).unwrap();
        for _ in 0..nodes {
            let launch = kernel.launch_builder(1, 32).arg_mut(&mut memory).slot(&value);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        }
        let mut exec = graph.into_exec().unwrap();
        let mut next = 0u32;
        report(&format!("GraphExec::set, a value in {nodes}"), || {
            next = next.wrapping_add(1);
            exec.set(&value, black_box(next)).unwrap();
        });
        report(&format!("GraphExec::set, memory in {nodes}"), || {
            next = next.wrapping_add(1);
            let memory_now = if next.is_multiple_of(2) { &mut *word } else { &mut other };
            exec.set(&memory, memory_now).unwrap();
        });
    }
}

fn measure(driver: &Driver) {
    let context = Context::new(&driver.device(0).unwrap()).unwrap();
    let stream = Stream::new(&context).unwrap();
    let kernel = context.load_ptx(KERNELS).unwrap().kernel("add").unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let raw = driver.as_raw().functions();
    let empty = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let exec = empty.end().unwrap();

    report("bare call of a function that does nothing", || {
        let (exec, stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: it does nothing. Nobody is given the raw handle of the stream: whoever has one
        // may set launch attributes, and the library would look for them.
        black_box(unsafe { (raw.cuGraphLaunch)(black_box(exec), black_box(stream)) });
    });
    report("GraphExec::launch", || exec.launch(black_box(&stream)).unwrap());
    report("fill", || word.fill(1, black_box(&stream)).unwrap());
    report("kernel launch", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
    });
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    report("captured fill", || word.fill(1, black_box(&stream)).unwrap());
    report("captured kernel launch", || {
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
    });
    drop(capture);
    changes(&context, &kernel, &mut word, &stream);
    let begin = || StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    report("capture begun and dropped", || drop(begin()));
    report("capture begun and ended, and all dropped", || drop(begin().end().unwrap()));
    report("capture of a kernel launch, ended and dropped", || {
        let capture = begin();
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(black_box(&stream)) }.unwrap();
        drop(capture.end().unwrap());
    });
    for part in ["first captured kernel launch", "end and instantiation"] {
        report_part(part, || {
            let capture = begin();
            let start = Instant::now();
            let launch = kernel.launch_builder(1, 32).arg_mut(&mut word).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { launch.launch(black_box(&stream)) }.unwrap();
            let launched = start.elapsed();
            let exec = capture.end().unwrap();
            let ended = start.elapsed();
            drop(exec);
            if part.starts_with("first") { launched } else { ended - launched }
        });
    }
}

/// How often something is done in a round.
const CALLS: u32 = 1_000;

/// Whether the name has the words of the command line in it.
fn is_asked_for(name: &str) -> bool {
    std::env::args().skip(1).all(|word| word.starts_with('-') || name.contains(&word))
}

/// Prints the least mean over many rounds of the time that `part` gives, less what it takes to
/// read the clock.
fn report_part(name: &str, mut part: impl FnMut() -> Duration) {
    if !is_asked_for(name) {
        return;
    }
    let least = |part: &mut dyn FnMut() -> Duration| {
        let mean = |_| (0..CALLS).map(|_| part()).sum::<Duration>().as_nanos() as f64 / 1e3;
        (0..300).map(mean).fold(f64::INFINITY, f64::min)
    };
    let clock = least(&mut || {
        let start = Instant::now();
        start.elapsed()
    });
    println!("{name:<50} {:>7.1} ns", least(&mut part) - clock);
}

/// Prints the least time of one call over many rounds.
fn report(name: &str, mut call: impl FnMut()) {
    if !is_asked_for(name) {
        return;
    }
    let round = |call: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        call(CALLS);
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let mut calls = |count| (0..count).for_each(|_| call());
    let least = (0..1_000).map(|_| round(&mut calls)).fold(f64::INFINITY, f64::min);
    println!("{name:<50} {least:>7.1} ns");
}
