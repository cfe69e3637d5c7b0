//! Captures themselves.

use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, CaptureOptions, CudaResult, EdgeData,
    EscapePolicy, Event, GraphPool, SegmentCapture, Stream, StreamGraphCapture,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::rows::graph;
use crate::world::World;

/// A capture of the stream, while its handle is known to others, so that the driver is asked more.
fn exposed(world: &World) -> CudaResult<StreamGraphCapture<'_>> {
    let _ = world.stream.as_raw();
    StreamGraphCapture::begin(&world.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
}

pub const ROWS: &[Row] = &[
    row("StreamGraphCapture::begin", |w| {
        w.attempt(|| {
            StreamGraphCapture::begin(&w.stream, CU_STREAM_CAPTURE_MODE_RELAXED)?.end_graph()
        });
    }),
    row("StreamGraphCapture::begin, of a thread's stream", |w| {
        let stream = Stream::per_thread(&w.context);
        w.attempt(|| {
            StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL)?.end_graph()
        });
    }),
    row("StreamGraphCapture::end", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let capture =
                StreamGraphCapture::begin(&w.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            w.launch(&mut words, &w.stream)?;
            capture.end()
        });
    })
    .tolerates(graph::ASKED_AGAIN)
    .also(&["Graph::into_exec"]),
    row("StreamGraphCapture::end_graph", |w| {
        let mut words = w.ordered();
        w.attempt(|| {
            let capture = exposed(w)?;
            capture.retain(vec![1, 2, 3]);
            w.launch(&mut words, &w.stream)?;
            capture.end_graph()
        });
    })
    .also(&["StreamGraphCapture::retain"]),
    row("StreamGraphCapture::capture_status", |w| {
        w.attempt(|| {
            let capture = exposed(w)?;
            let status = capture.capture_status();
            capture.end_graph()?;
            status
        });
    }),
    row("StreamGraphCapture::is_active", |w| {
        w.attempt(|| {
            let capture = exposed(w)?;
            let _ = capture.is_active();
            capture.end_graph()
        });
    })
    .tolerates(&[Function::cuStreamIsCapturing, Function::cuStreamGetCaptureInfo]),
    row("Stream::capture", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.stream.capture(CaptureMode::Global, |_| w.launch(&mut words, &w.stream)));
    }),
    row("Stream::fork, captured", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |_| {
                w.stream.fork(&[&w.side], || w.launch(&mut words, &w.side))
            })
        });
    }),
    row("Stream::fork", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.stream.fork(&[&w.side], || w.launch(&mut words, &w.side)));
    })
    .also(&["Forked::drop"]),
    row("StreamGraphCapture::embed", |w| {
        let child = w.small_graph();
        w.attempt(|| w.stream.capture(CaptureMode::Relaxed, |capture| capture.embed(&child)));
    })
    .also(&["Graph::embed"]),
    row("StreamGraphCapture::embed_moved", |w| {
        let child = w.stream.capture(CaptureMode::ThreadLocal, |capture| {
            capture.alloc_temporary::<u32>(4)?.fill(1, &w.stream)
        });
        let child = child.unwrap();
        w.attempt_once(|| {
            w.stream.capture(CaptureMode::Relaxed, |capture| capture.embed_moved(child))
        });
    })
    .also(&["Graph::embed_moved"]),
    row("StreamGraphCapture::alloc_temporary", |w| {
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                let mut words = capture.alloc_temporary::<u32>(4)?;
                words.fill(1, &w.stream)?;
                words.free()
            })
        });
    })
    .also(&["Temporary::free", "Temporary::drop", "Launching::drop"]),
    row("StreamGraphCapture::alloc_scratch", |w| {
        w.attempt(|| {
            let pool = GraphPool::new(&w.context);
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                let mut words = capture.alloc_scratch::<u32>(&pool, 4)?;
                words.fill(1, &w.stream)
            })
        });
    })
    .also(&["Piece::drop"]),
    row("StreamGraphCapture::alloc_scratch, of memory that another stream has used", |w| {
        let pool = GraphPool::new(&w.context);
        pool.reserve(4).unwrap();
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                w.stream.fork(&[&w.side], || {
                    let mut words = capture.alloc_scratch::<u32>(&pool, 4)?;
                    words.fill(1, &w.side)?;
                    drop(words);
                    let mut words = capture.alloc_scratch::<u32>(&pool, 4)?;
                    words.fill(1, &w.stream)
                })
            })
        });
    }),
    row("GraphExec::launch, of two graphs with one pool", |w| {
        let pool = GraphPool::new(&w.context);
        let graphs = [&w.stream, &w.side].map(|stream| {
            let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
                capture.alloc_scratch::<u32>(&pool, 4)?.fill(1, stream)
            });
            (graph.unwrap().instantiate().unwrap(), stream)
        });
        w.attempt(|| graphs.iter().try_for_each(|(exec, stream)| exec.launch(stream)));
    })
    // The mark is tried again, and made when it is needed.
    .tolerates(&[
        Function::cuEventCreate,
        Function::cuEventRecord,
        Function::cuCtxPushCurrent_v2,
    ]),
    row("GraphOutput::take", |w| {
        w.attempt(|| {
            let mut output = None;
            let graph = w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                let mut words = capture.alloc_temporary::<u32>(4)?;
                words.fill(1, &w.stream)?;
                output = Some(words.into_output());
                Ok(())
            })?;
            graph.instantiate()?.launch(&w.stream)?;
            output.map(|output| output.take()).transpose()
        });
    })
    .tolerates(graph::ASKED_AGAIN)
    .also(&["Temporary::into_output", "GraphOutput::drop", "LaunchMemory::drop"]),
    row("Stream::capture_with", |w| {
        let mut words = w.buffer();
        let options = CaptureOptions::new(CaptureMode::ThreadLocal).escapes(EscapePolicy::Error);
        w.attempt(|| w.stream.capture_with(options, |_| w.launch(&mut words, &w.stream)));
    })
    .also(&["StreamGraphCapture::begin_with"]),
    row("Stream::capture_or_run", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let outcome = w
                .stream
                .capture_or_run(CaptureMode::ThreadLocal, |_| w.launch(&mut words, &w.stream))?;
            match outcome.error() {
                Some(error) => Err(error.clone()),
                None => Ok(outcome),
            }
        });
    }),
    row("Stream::capture_segments", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture_segments(CaptureMode::ThreadLocal, |capture| {
                w.launch(&mut words, &w.stream)?;
                capture.eager(|stream| stream.synchronize())?;
                w.launch(&mut words, &w.stream)
            })
        });
    })
    .tolerates(graph::ASKED_AGAIN)
    .also(&["Segments::capture", "SegmentCapture::eager", "SegmentCapture::eager_with"]),
    row("Segments::launch", |w| {
        let mut words = w.buffer();
        let record = |capture: &mut SegmentCapture<'_, '_>| {
            w.launch(&mut words, &w.stream)?;
            capture.eager(|stream| stream.is_idle().map(drop))?;
            w.launch(&mut words, &w.stream)
        };
        let segments = w.stream.capture_segments(CaptureMode::ThreadLocal, record);
        let mut segments = segments.unwrap();
        w.attempt(|| {
            segments.launch(&w.stream)?;
            segments.launch(&w.side)
        });
    })
    // The mark of the last launch gets a second try.
    .tolerates(&[Function::cuCtxPushCurrent_v2, Function::cuEventCreate, Function::cuEventRecord])
    .also(&["Segments::launch_with", "Noted::drop"]),
    row("Segments::upload", |w| {
        let mut words = w.buffer();
        let record = |_: &mut SegmentCapture<'_, '_>| w.launch(&mut words, &w.stream);
        let segments = w.stream.capture_segments(CaptureMode::ThreadLocal, record).unwrap();
        w.attempt(|| segments.upload(&w.stream));
    }),
    row("StreamGraphCapture::child", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                capture.child("part", |inner| w.launch(&mut words, inner.stream())).map(drop)
            })
        });
    }),
    row("StreamGraphCapture::child_moved", |w| {
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                capture.child_moved("part", |inner| {
                    let mut words = inner.alloc_temporary::<u32>(4)?;
                    words.fill(1, inner.stream())?;
                    words.free()
                })
            })
        });
    }),
    row("Stream::as_child", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture(CaptureMode::Global, |_| {
                w.stream.as_child("part", |stream| w.launch(&mut words, stream))
            })
        });
    }),
    row("Stream::set_capture_dependencies", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |capture| {
                w.launch(&mut words, &w.stream)?;
                let first = capture.dependencies()?;
                capture.set_dependencies(&[])?;
                capture.add_dependencies(&first)?;
                capture.set_dependencies_with(&[(first[0], EdgeData::FULL)])?;
                w.launch(&mut words, &w.stream)
            })
        });
    })
    .also(&[
        "Stream::add_capture_dependencies",
        "Stream::set_capture_dependencies_with",
        "StreamGraphCapture::add_dependencies",
        "StreamGraphCapture::dependencies",
        "StreamGraphCapture::set_dependencies",
        "StreamGraphCapture::set_dependencies_with",
    ]),
    row("Stream::capture, with a fork", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            w.stream.capture(CaptureMode::ThreadLocal, |_| {
                let event = Event::new(&w.context)?;
                event.record(&w.stream)?;
                event.wait(&w.side)?;
                w.launch(&mut words, &w.side)?;
                event.record(&w.side)?;
                event.wait(&w.stream)
            })
        });
    }),
];
