//! The operations. Each is a line or a few: its name, what it works on, and itself.

pub mod build;
pub mod cache;
pub mod capture;
pub mod captured;
pub mod device;
pub mod drops;
pub mod event;
pub mod graph;
pub mod memory;
pub mod module;
pub mod stream;
pub mod update;

use crate::engine::Row;

/// All of them.
pub fn all() -> Vec<&'static Row> {
    let tables: [&[Row]; 12] = [
        build::ROWS,
        cache::ROWS,
        capture::ROWS,
        captured::ROWS,
        device::ROWS,
        drops::ROWS,
        event::ROWS,
        graph::ROWS,
        memory::ROWS,
        module::ROWS,
        stream::ROWS,
        update::ROWS,
    ];
    tables.into_iter().flatten().collect()
}
