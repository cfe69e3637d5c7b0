//! The drop of each handle.

use grapture::{CU_STREAM_CAPTURE_MODE_GLOBAL, Context, DeviceBuffer, Stream, StreamGraphCapture};
use grapture_sys::Function;

use crate::common::KERNELS;
use crate::engine::{Row, row};
use crate::world::World;

/// Drops a value, and waits for what the library releases later.
fn dropped<T>(world: &World, value: T) {
    world.attempt_once(|| {
        drop(value);
        world.driver.reclaim();
        Ok(())
    });
}

/// Drops a value while a capture of the thread bars releases.
fn dropped_in_capture<T>(world: &World, value: T) {
    world.attempt_once(|| {
        let capture = StreamGraphCapture::begin(&world.side, CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        drop(value);
        capture.end_graph()
    });
}

/// By which a release is ordered after the work on another stream. Without an order it would be
/// early: the memory is leaked.
const ORDER: &[Function] = &[
    Function::cuCtxPushCurrent_v2,
    Function::cuEventCreate,
    Function::cuEventRecord,
    Function::cuStreamWaitEvent,
];

/// By which the end of the last launch is found, with two tries.
const MARKS: &[Function] = &[
    Function::cuCtxPushCurrent_v2,
    Function::cuEventCreate,
    Function::cuEventRecord,
    Function::cuEventQuery,
];

/// And the wait of the pinned memory's release.
const LAUNCHED: &[Function] = &[
    Function::cuCtxPushCurrent_v2,
    Function::cuEventCreate,
    Function::cuEventRecord,
    Function::cuEventQuery,
    Function::cuStreamSynchronize,
];

pub const ROWS: &[Row] = &[
    row("ContextInner::drop", |w| {
        let context = Context::new(w.context.device()).unwrap();
        dropped(w, context);
    }),
    row("StreamInner::drop", |w| {
        let stream = Stream::new(&w.context).unwrap();
        dropped(w, stream);
    }),
    row("RawEvent::drop", |w| dropped(w, w.event())),
    row("ModuleInner::drop", |w| {
        let module = w.context.load_ptx(KERNELS).unwrap();
        dropped(w, module);
    }),
    row("ModuleInner::drop, in a capture", |w| {
        let module = w.context.load_ptx(KERNELS).unwrap();
        dropped_in_capture(w, module);
    }),
    row("BufferInner::drop", |w| dropped(w, w.buffer())),
    row("BufferInner::drop, in a capture", |w| dropped_in_capture(w, w.buffer())),
    row("BufferInner::drop, in the order of a stream", |w| dropped(w, w.ordered())),
    row("BufferInner::drop, in the order of two streams", |w| {
        let mut words = w.ordered();
        words.fill(1, &w.side).unwrap();
        dropped(w, words);
    })
    .leaks(ORDER),
    row("BufferInner::drop, in the order of a stream that captures", |w| {
        let words: DeviceBuffer<u32> = w.ordered();
        w.attempt_once(|| {
            w.captured(|_| {
                drop(words);
                Ok(())
            })?;
            w.driver.reclaim();
            Ok(())
        });
    }),
    row("PinnedInner::drop", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        words.copy_to_pinned(&mut pinned, &w.stream).unwrap();
        dropped(w, pinned);
    })
    .tolerates(&[Function::cuStreamSynchronize]),
    row("PinnedInner::drop, in a capture", |w| dropped_in_capture(w, w.pinned())),
    row("StreamGraphCapture::drop", |w| {
        w.attempt(|| {
            let capture = StreamGraphCapture::begin(&w.stream, CU_STREAM_CAPTURE_MODE_GLOBAL)?;
            capture.retain(vec![1]);
            drop(capture);
            Ok(())
        });
    })
    .tolerates(&[Function::cuStreamGetCaptureInfo, Function::cuStreamEndCapture]),
    row("Graph::drop", |w| dropped(w, w.graph())),
    row("Graph::drop, in a capture", |w| dropped_in_capture(w, w.graph())),
    row("GraphExec::drop", |w| dropped(w, w.exec())),
    row("GraphExec::drop, launched", |w| {
        let exec = w.exec();
        exec.launch(&w.stream).unwrap();
        dropped(w, exec);
    })
    .tolerates(LAUNCHED),
    row("GraphExec::drop, launched on a thread's stream", |w| {
        let exec = w.small_graph().instantiate().unwrap();
        exec.launch(&Stream::per_thread(&w.context)).unwrap();
        dropped(w, exec);
    })
    .tolerates(&[Function::cuEventQuery]),
    row("GraphExec::drop, in a capture", |w| {
        let exec = w.exec();
        exec.launch(&w.stream).unwrap();
        dropped_in_capture(w, exec);
    })
    .tolerates(MARKS),
];
