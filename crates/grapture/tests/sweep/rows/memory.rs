//! Memory: what allocates, copies and fills outside of captures.

use grapture::{DeviceBuffer, GraphPool, PinnedBuffer, Region2d, Stream};
use grapture_sys::Function;

use crate::engine::{Row, row};

const REGION: Region2d = Region2d::new(1, 2);

pub const ROWS: &[Row] = &[
    row("DeviceBuffer::alloc", |w| w.attempt(|| DeviceBuffer::<u32>::alloc(&w.context, 4))),
    row("DeviceBuffer::zeroed", |w| w.attempt(|| DeviceBuffer::<u32>::zeroed(&w.context, 4))),
    row("DeviceBuffer::from_slice", |w| {
        w.attempt(|| DeviceBuffer::from_slice(&w.context, &[1u32, 2]));
    }),
    row("DeviceBuffer::alloc_async", |w| {
        w.attempt(|| DeviceBuffer::<u32>::alloc_async(&w.stream, 4));
    }),
    row("GraphPool::reserve", |w| {
        w.attempt(|| GraphPool::new(&w.context).reserve(4));
    }),
    row("Memory::copy_to_host", |w| {
        let (words, mut host) = (w.buffer(), [0; 4]);
        w.attempt(|| words.copy_to_host(&mut host, &w.stream));
    }),
    row("Memory::to_vec", |w| {
        let words = w.buffer();
        w.attempt(|| words.to_vec(&w.stream));
    }),
    row("Memory::to_vec, on the legacy stream", |w| {
        let words = w.buffer();
        w.attempt(|| words.to_vec(&Stream::legacy(&w.context)));
    })
    // The context is entered for the wait, which is made again.
    .tolerates(&[Function::cuCtxPushCurrent_v2]),
    row("Memory::to_vec, of memory of another stream", |w| {
        let words = w.ordered();
        w.attempt(|| words.to_vec(&w.side));
    }),
    row("Memory::copy_from_host_staged", |w| {
        let mut words = w.buffer();
        w.attempt(|| words.copy_from_host_staged(&[5, 6, 7, 8], &w.stream));
    }),
    row("Memory::copy_from_host", |w| {
        let mut words = w.buffer();
        w.attempt(|| words.copy_from_host(&[5, 6, 7, 8], &w.stream));
    }),
    row("Memory::copy_from_pinned", |w| {
        let (mut words, pinned) = (w.buffer(), w.pinned());
        w.attempt(|| words.copy_from_pinned(&pinned, &w.stream));
    }),
    row("Memory::copy_to_pinned", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| words.copy_to_pinned(&mut pinned, &w.stream));
    }),
    row("Memory::copy_from", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        w.attempt(|| words.copy_from(&other, &w.stream));
    }),
    row("Memory::copy_2d_from", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        w.attempt(|| words.copy_2d_from(REGION, &other, REGION, &w.stream));
    }),
    row("Memory::fill", |w| {
        let mut words = w.buffer();
        w.attempt(|| words.fill(1, &w.stream));
    }),
    row("Memory::fill, of shorts", |w| {
        let mut shorts = w.shorts();
        w.attempt(|| shorts.fill(1, &w.stream));
    }),
    row("Memory::fill, of bytes", |w| {
        let mut bytes = w.bytes();
        w.attempt(|| bytes.fill(1, &w.stream));
    }),
    row("Memory::fill, of memory of another stream", |w| {
        let mut words = w.ordered();
        w.attempt(|| words.fill(1, &w.side));
    }),
    row("Memory::fill_2d", |w| {
        let mut words = w.buffer();
        w.attempt(|| words.fill_2d(1, REGION, &w.stream));
    }),
    row("Memory::fill_2d, of shorts", |w| {
        let mut shorts = w.shorts();
        w.attempt(|| shorts.fill_2d(1, REGION, &w.stream));
    }),
    row("Memory::fill_2d, of bytes", |w| {
        let mut bytes = w.bytes();
        w.attempt(|| bytes.fill_2d(1, REGION, &w.stream));
    }),
    row("PinnedBuffer::alloc", |w| w.attempt(|| PinnedBuffer::<u32>::alloc(&w.context, 4))),
    row("PinnedBuffer::zeroed", |w| w.attempt(|| PinnedBuffer::<u32>::zeroed(&w.context, 4))),
    row("PinnedBuffer::from_slice", |w| {
        w.attempt(|| PinnedBuffer::from_slice(&w.context, &[1u32, 2]));
    }),
    row("PinnedBuffer::read", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| {
            words.copy_to_pinned(&mut pinned, &w.stream)?;
            pinned.read().map(drop)
        });
    }),
    row("PinnedBuffer::read, of what a thread's stream writes", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| {
            words.copy_to_pinned(&mut pinned, &Stream::per_thread(&w.context))?;
            pinned.read().map(drop)
        });
    })
    // Without an event behind the copy the whole context is waited for.
    .tolerates(&[
        Function::cuCtxPushCurrent_v2,
        Function::cuEventCreate,
        Function::cuEventRecord,
    ]),
    row("PinnedBuffer::try_read", |w| {
        let (words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| {
            words.copy_to_pinned(&mut pinned, &w.stream)?;
            w.stream.synchronize()?;
            pinned.try_read().map(drop)
        });
    }),
    row("PinnedBuffer::write", |w| {
        let (mut words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| {
            words.copy_from_pinned(&pinned, &w.stream)?;
            pinned.write().map(drop)
        });
    }),
    row("PinnedBuffer::try_write", |w| {
        let (mut words, mut pinned) = (w.buffer(), w.pinned());
        w.attempt(|| {
            words.copy_from_pinned(&pinned, &w.stream)?;
            w.stream.synchronize()?;
            pinned.try_write().map(drop)
        });
    }),
];
