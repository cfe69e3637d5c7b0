//! The operations. Each is a line or a few: its name, what it works on, and itself.

pub mod build;
pub mod cache;
pub mod capture;
pub mod capture_add;
pub mod captured;
pub mod conditional;
pub mod device;
pub mod drops;
pub mod event;
pub mod graph;
pub mod memory;
pub mod module;
pub mod slots;
pub mod stream;
pub mod update;
