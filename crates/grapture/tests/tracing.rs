//! What is told of captures and launches by `tracing`. One test, since who listens is a matter of the
//! whole process.

mod common;

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::counted::{Token, counter, get};
use common::gate::Gate;
use common::{Setup, comes_true};
use grapture::{
    CaptureMode, CaptureOptions, DeviceBuffer, EscapePolicy, Graph, Stream, StreamGraphCapture,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

fn at(line: u32) -> String {
    format!("{}:{line}", file!())
}

/// Keeps the events and the names of spans.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}"),
            "error" | "nodes" | "count" => write!(self.0, " {}={value:?}", field.name()),
            _ => Ok(()),
        }
        .unwrap();
    }
}

impl Log {
    fn push(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("grapture")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(format!("span {}", span.metadata().name()));
        span.record(&mut text);
        self.push(text.0);
        Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.push(text.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Makes another call of the library for each event, and panics then.
struct Meddles(Stream);

impl Subscriber for Meddles {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("grapture")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        if !self.0.is_capturing() {
            drop(StreamGraphCapture::begin(&self.0, CaptureMode::Relaxed.as_raw()).unwrap());
        }
        // Says nothing on the terminal.
        std::panic::resume_unwind(Box::new("heard"));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What a launch uses is kept until it is done, and no stream is left in a capture, whatever who
/// listens does.
fn who_listens_is_kept_out(setup: &Setup, stream: &Stream) {
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let dropped = counter();
    let gate = Gate::new();
    gate.hold(stream);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        capture.retain(Token(dropped.clone()));
        setup.add(&mut word, 1, stream)
    });
    let exec = graph.unwrap().instantiate().unwrap();
    exec.launch(stream).unwrap();
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(get(&dropped), 0);
    gate.open();
    assert!(comes_true(|| get(&dropped) == 1));
    let mut graph = Graph::new(&setup.context).unwrap();
    stream
        .capture_into(&mut graph, &[], CaptureMode::Global, |capture| {
            capture.retain(Token(dropped.clone()));
            setup.add(&mut word, 1, stream)
        })
        .unwrap();
    assert_eq!(get(&dropped), 1);
    graph.instantiate().unwrap().launch(stream).unwrap();
    assert_eq!(word.to_vec(stream).unwrap(), [2]);
    setup.assert_usable(stream);
}

#[test]
fn sim_tracing_tells_of_captures_and_launches() {
    assert!(Level::TRACE <= tracing::level_filters::STATIC_MAX_LEVEL);
    let setup = Setup::simulated();
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let graph = stream.capture(CaptureMode::Global, |_| word.fill(1, &stream)).unwrap();
        assert_eq!(log.take(), ["span capture", "DEBUG a capture began", "DEBUG a capture ended"]);
        let exec = graph.instantiate().unwrap();
        assert_eq!(log.take(), ["span instantiate nodes=1"]);
        exec.launch(&other).unwrap();
        assert_eq!(log.take(), ["TRACE a graph was launched nodes=1"]);
        let mut exec = exec;
        let other_value = stream.capture(CaptureMode::Global, |_| word.fill(2, &stream)).unwrap();
        log.take();
        exec.update(&other_value).unwrap();
        assert_eq!(log.take(), ["span update nodes=1", "DEBUG an executable graph was updated"]);
        // A warning for work that escapes; not for an error, which says it.
        let line = line!() + 1;
        stream.capture(CaptureMode::Global, |_| word.fill(1, &other)).unwrap();
        let escaped = format!(
            "operation of this thread ran outside of it at once and is missing from the graph: \
             fill of 4 bytes ({})",
            at(line)
        );
        let told = log.take();
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[2], format!("WARN nothing was captured, and 1 {escaped} count=1"));
        let warned = stream.capture(CaptureMode::Global, |_| {
            word.fill(1, &stream)?;
            exec.launch(&other)
        });
        warned.unwrap();
        let told = log.take();
        assert!(told[3].starts_with("WARN beside the capture, 1 operation"), "{told:?}");
        for policy in [EscapePolicy::Ignore, EscapePolicy::Error] {
            let options = CaptureOptions::new(CaptureMode::Global).escapes(policy);
            let _ = stream.capture_with(options, |_| word.fill(1, &other));
            assert!(!log.take().iter().any(|line| line.starts_with("WARN")));
        }
        let error = stream.capture(CaptureMode::Global, |_| {
            word.fill(1, &stream)?;
            // SAFETY: a live stream.
            unsafe { (setup.driver.as_raw().functions().cuStreamQuery)(stream.as_raw()) };
            Ok(())
        });
        let told = log.take();
        assert_eq!(told[2], format!("DEBUG a capture failed error={}", error.unwrap_err()));
    });
    let (done, wait) = mpsc::channel::<()>();
    let meddled = std::thread::spawn(move || {
        let listens = Meddles(stream.clone());
        let body = || who_listens_is_kept_out(&setup, &stream);
        tracing::subscriber::with_default(listens, body);
        drop(done);
    });
    assert_ne!(wait.recv_timeout(Duration::from_secs(20)), Err(mpsc::RecvTimeoutError::Timeout));
    meddled.join().unwrap();
}
