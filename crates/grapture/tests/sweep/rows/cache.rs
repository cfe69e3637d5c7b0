//! The cache of executables.

use grapture::{CacheLimits, GraphCache};

use crate::engine::{Row, row};
use crate::rows::graph::ASKED_AGAIN;

pub const ROWS: &[Row] = &[
    row("GraphCache::get_or_capture", |w| {
        let mut words = w.buffer();
        let cache = GraphCache::<u32>::new(&w.context, CacheLimits::new());
        w.attempt(|| {
            cache.clear();
            cache.get_or_capture(1, &w.stream, |_| w.launch(&mut words, &w.stream)).map(drop)
        });
    })
    .also(&["GraphCache::get_or_build", "GraphCache::warm_up", "GraphCache::clear"])
    .tolerates(ASKED_AGAIN),
    row("GraphCache::get, a hit", |w| {
        let cache = GraphCache::<u32>::new(&w.context, CacheLimits::new());
        cache.get_or_build(1, &w.stream, || Ok(w.small_graph())).unwrap();
        w.attempt(|| cache.get(&1).unwrap().launch(&w.stream));
    })
    .also(&["CachedExec::launch", "GraphCache::get"]),
    row("GraphExec::is_done", |w| {
        let exec = w.exec();
        exec.launch(&w.stream).unwrap();
        w.attempt(|| exec.is_done().map(drop));
    }),
];
