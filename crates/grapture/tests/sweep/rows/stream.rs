//! Streams, and the work on them that is not about memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grapture::{CaptureMode, Stream, StreamOptions, ThreadCaptureMode};
use grapture_sys::Function;

use crate::engine::{Row, row};

pub const ROWS: &[Row] = &[
    row("Stream::new", |w| w.attempt(|| Stream::new(&w.context))),
    row("Stream::with_options", |w| {
        let options = StreamOptions::new().blocking(true).priority(-1);
        w.attempt(|| Stream::with_options(&w.context, options));
    }),
    row("Stream::priority", |w| w.attempt(|| w.stream.priority())),
    row("Stream::synchronize", |w| w.attempt(|| w.stream.synchronize())),
    row("Stream::synchronize, the legacy one", |w| {
        w.attempt(|| Stream::legacy(&w.context).synchronize());
    })
    .also(&["Stream::legacy"]),
    row("Stream::is_idle", |w| w.attempt(|| w.stream.is_idle())),
    row("Stream::capture_info", |w| w.attempt(|| w.stream.capture_info())),
    row("Stream::host_function", |w| {
        let runs = Arc::new(AtomicUsize::new(0));
        w.attempt(|| {
            let runs = runs.clone();
            w.stream.host_function(move || {
                runs.fetch_add(1, Ordering::SeqCst);
            })
        });
        w.driver.reclaim();
        let _ = w.stream.synchronize();
    }),
    row("Stream::host_function, of a thread's stream", |w| {
        let stream = Stream::per_thread(&w.context);
        w.attempt(|| stream.host_function(|| {}));
        let _ = stream.synchronize();
    })
    .also(&["Stream::per_thread"]),
    row("LaunchBuilder::launch", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.launch(&mut words, &w.stream));
    })
    .also(&["Kernel::launch_builder"]),
    row("LaunchBuilder::launch, with attributes", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { launch.programmatic_serialization(true).cluster(1).launch(&w.stream) }
        });
    })
    .also(&["LaunchBuilder::cluster", "LaunchBuilder::programmatic_serialization"]),
    row("LaunchBuilder::launch, cooperative", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { launch.cooperative(true).launch(&w.stream) }
        });
    })
    .also(&["LaunchBuilder::cooperative"]),
    row("LaunchBuilder::launch, on the legacy stream", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.launch(&mut words, &Stream::legacy(&w.context)));
    }),
    row("LaunchBuilder::launch, with memory of another stream", |w| {
        let mut words = w.ordered();
        w.attempt(|| w.launch(&mut words, &w.side));
    }),
    row("ThreadCaptureMode::set", |w| {
        w.attempt(|| ThreadCaptureMode::set(&w.driver, CaptureMode::Relaxed).map(drop));
    })
    .tolerates(&[Function::cuThreadExchangeStreamCaptureMode]),
];
