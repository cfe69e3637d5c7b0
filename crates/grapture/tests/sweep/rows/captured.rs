//! What a capture records. The capture is ended whether the operation worked or not.

use grapture::{Event, Graph, Region2d, Stream};
use grapture_sys::Function;

use crate::engine::{Row, row};

const REGION: Region2d = Region2d::new(1, 2);

pub const ROWS: &[Row] = &[
    row("LaunchBuilder::launch, captured", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.captured(|stream| w.launch(&mut words, stream)));
    }),
    row("LaunchBuilder::launch, captured, with memory of another stream", |w| {
        let mut words = w.ordered();
        w.attempt(|| w.captured(|stream| w.launch(&mut words, stream)));
    }),
    row("Memory::copy_from_host_staged, captured", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.captured(|stream| words.copy_from_host_staged(&[5, 6, 7, 8], stream)));
    }),
    row("Memory::copy_from_pinned, captured", |w| {
        let (mut words, pinned) = (w.buffer(), w.pinned());
        w.attempt(|| w.captured(|stream| words.copy_from_pinned(&pinned, stream)));
    }),
    row("Memory::copy_to_pinned, captured", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| w.captured(|stream| words.copy_to_pinned(&mut pinned, stream)));
    }),
    row("Memory::copy_from, captured", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        w.attempt(|| w.captured(|stream| words.copy_from(&other, stream)));
    }),
    row("Memory::copy_2d_from, captured", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        w.attempt(|| w.captured(|stream| words.copy_2d_from(REGION, &other, REGION, stream)));
    }),
    row("Memory::fill, captured", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.captured(|stream| words.fill(1, stream)));
    }),
    row("Memory::fill_2d, captured", |w| {
        let mut words = w.buffer();
        w.attempt(|| w.captured(|stream| words.fill_2d(1, REGION, stream)));
    }),
    row("Stream::host_function, captured", |w| {
        w.attempt(|| w.captured(|stream| stream.host_function(|| {})));
    }),
    row("Event::record, captured", |w| {
        let event = w.event();
        w.attempt(|| w.captured(|stream| event.record(stream)));
    }),
    row("Event::record_external", |w| {
        let event = w.event();
        w.attempt(|| w.captured(|stream| event.record_external(stream)));
    }),
    row("Event::wait_external", |w| {
        let event = w.event();
        w.attempt(|| w.captured(|stream| event.wait_external(stream)));
    }),
    row("Event::wait, that has a stream join the capture", |w| {
        let (event, mut words) = (w.event(), w.buffer());
        w.attempt(|| {
            w.captured(|stream| {
                event.record(stream)?;
                event.wait(&w.side)?;
                // Joined back whatever happens: what is not joined is another error.
                let worked = w.launch(&mut words, &w.side);
                let back = Event::new(&w.context).or_else(|_| Event::new(&w.context))?;
                back.record(&w.side).or_else(|_| back.record(&w.side))?;
                back.wait(stream).or_else(|_| back.wait(stream))?;
                worked
            })
        });
    })
    .tolerates(&[
        Function::cuCtxPushCurrent_v2,
        Function::cuEventCreate,
        Function::cuEventRecord,
        Function::cuStreamWaitEvent,
    ]),
    row("Stream::capture_info, in a capture", |w| {
        w.attempt(|| w.captured(|stream| stream.capture_info().map(drop)));
    }),
    row("DeviceBuffer::alloc, while a capture is open", |w| {
        w.attempt(|| -> grapture::CudaResult<Graph> {
            w.captured(|_| grapture::DeviceBuffer::<u32>::alloc(&w.context, 4).map(drop))
        });
    }),
    row("Stream::new, while a capture is open", |w| {
        w.attempt(|| w.captured(|_| Stream::new(&w.context).map(drop)));
    }),
];
