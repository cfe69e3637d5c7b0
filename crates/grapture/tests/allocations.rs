//! What the hot paths allocate, counted: with a driver that does nothing, all of it is the library's.

#[path = "common/idle.rs"]
mod idle;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use grapture::{
    BufferSlotMut, CU_STREAM_CAPTURE_MODE_RELAXED, Context, CudaResult, DeviceBuffer, Graph,
    GraphExec, Kernel, Slot, Stream, StreamGraphCapture,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count of what each thread asks of it.
struct Counting;

// SAFETY: all is the system's; the count touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of a call, and how often it allocates.
fn counted<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = ALLOCATIONS.get();
    let result = call();
    (result, ALLOCATIONS.get() - before)
}

struct Program {
    stream: Stream,
    kernel: Kernel,
    word: DeviceBuffer<u32>,
}

impl Program {
    fn new() -> CudaResult<Program> {
        let context = Context::new(&idle::driver().device(0)?)?;
        let stream = Stream::new(&context)?;
        let kernel = context.load_ptx(idle::KERNELS)?.kernel("add")?;
        let word = DeviceBuffer::zeroed(&context, 1)?;
        Ok(Program { stream, kernel, word })
    }

    fn begin(&self) -> CudaResult<StreamGraphCapture<'_>> {
        StreamGraphCapture::begin(&self.stream, CU_STREAM_CAPTURE_MODE_RELAXED)
    }

    fn launch(&self) -> CudaResult<()> {
        let launch = self.kernel.launch_builder(1, 32).arg(&self.word).value(1u32);
        // SAFETY: nothing runs.
        unsafe { launch.launch(&self.stream) }
    }

    /// A capture of so many launches, with what each part of it allocates: the begin, each launch,
    /// the end.
    fn capture(&self, launches: usize) -> CudaResult<(GraphExec, Vec<usize>)> {
        let mut counts = Vec::with_capacity(launches + 2);
        let (capture, begin) = counted(|| self.begin());
        let capture = capture?;
        counts.push(begin);
        for _ in 0..launches {
            let (launched, count) = counted(|| self.launch());
            launched?;
            counts.push(count);
        }
        let (exec, end) = counted(|| capture.end());
        counts.push(end);
        Ok((exec?, counts))
    }
}

#[test]
fn sim_a_captured_launch_allocates_nothing_and_an_end_once() -> CudaResult<()> {
    let program = Program::new()?;
    drop(program.capture(4)?);
    // The list of owners at the begin, which the graph takes; and what the graph owns at the end.
    let (exec, counts) = program.capture(4)?;
    assert_eq!(counts, [1, 0, 0, 0, 0, 2]);
    let (exec_of_one, counts) = program.capture(1)?;
    assert_eq!(counts, [1, 0, 1]);
    for exec in [exec, exec_of_one] {
        exec.launch(&program.stream)?;
        let (launched, count) = counted(|| exec.launch(&program.stream));
        launched?;
        assert_eq!(count, 0);
    }
    Ok(())
}

#[test]
fn sim_the_log_of_a_stream_grows_once() -> CudaResult<()> {
    let program = Program::new()?;
    let (_exec, first) = program.capture(100)?;
    let grown = first.iter().skip(1).take(100).filter(|count| **count > 0).count();
    assert!(grown <= 6, "it doubles: {first:?}");
    let (_exec, second) = program.capture(100)?;
    assert!(second.iter().skip(1).take(100).all(|count| *count == 0), "{second:?}");
    Ok(())
}

#[test]
fn sim_a_launch_that_runs_allocates_nothing() -> CudaResult<()> {
    let program = Program::new()?;
    program.launch()?;
    let (launched, count) = counted(|| program.launch());
    launched?;
    assert_eq!(count, 0);
    Ok(())
}

#[test]
fn sim_a_set_of_a_slot_allocates_nothing() -> CudaResult<()> {
    let Program { kernel, mut word, .. } = Program::new()?;
    let mut other = DeviceBuffer::<u32>::zeroed(word.context(), 1)?;
    let (value, mut memory) = (Slot::new(1u32), BufferSlotMut::new(&mut word));
    let mut graph = Graph::new(word.context())?;
    for _ in 0..3 {
        let launch = kernel.launch_builder(1, 32).arg_mut(&mut memory).slot(&value);
        // SAFETY: nothing runs.
        unsafe { graph.add_kernel(launch, &[]) }?;
    }
    let mut exec = graph.into_exec()?;
    // The first has a list made of what slots are set to.
    exec.set(&memory, &mut other)?;
    let (set, count) = counted(|| {
        exec.set(&value, 2)?;
        exec.set(&memory, &mut word)?;
        exec.set(&memory, &mut other)
    });
    set?;
    assert_eq!(count, 0);
    Ok(())
}
