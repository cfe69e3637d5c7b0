//! Events.

use grapture::{Event, EventOptions, Stream};

use crate::engine::{Row, row};

pub const ROWS: &[Row] = &[
    row("Event::new", |w| w.attempt(|| Event::new(&w.context))),
    row("Event::with_options", |w| {
        let options = EventOptions::new().timing(true).blocking_sync(true);
        w.attempt(|| Event::with_options(&w.context, options));
    }),
    row("Event::record", |w| {
        let event = w.event();
        w.attempt(|| event.record(&w.stream));
    }),
    row("Event::record, on a thread's stream", |w| {
        let event = w.event();
        w.attempt(|| event.record(&Stream::per_thread(&w.context)));
    }),
    row("Event::wait", |w| {
        let event = w.event();
        event.record(&w.stream).unwrap();
        w.attempt(|| event.wait(&w.side));
    }),
    row("Event::is_complete", |w| {
        let event = w.event();
        event.record(&w.stream).unwrap();
        w.attempt(|| event.is_complete());
    }),
    row("Event::synchronize", |w| {
        let event = w.event();
        event.record(&w.stream).unwrap();
        w.attempt(|| event.synchronize());
    }),
    row("Event::elapsed_since", |w| {
        let (start, end) = (w.event(), w.event());
        start.record(&w.stream).unwrap();
        end.record(&w.stream).unwrap();
        w.attempt(|| end.elapsed_since(&start));
    }),
];
