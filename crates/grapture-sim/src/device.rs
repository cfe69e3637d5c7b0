//! Devices.

use crate::context::Context;
use crate::handle::{Id, Registry};
use crate::memory::Pool;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its ordinal, which is also its handle.
    pub(crate) ordinal: usize,
    /// Its memory in bytes.
    pub(crate) memory_bytes: usize,
    /// Its primary context, while that is active.
    pub(crate) primary: Option<Id<Context>>,
    /// How often the primary context is retained.
    pub(crate) retains: usize,
    /// The flags of the primary context.
    pub(crate) primary_flags: u32,
    /// Its own pool.
    pub(crate) default_pool: Id<Pool>,
    /// The pool of `cuMemAllocAsync`.
    pub(crate) current_pool: Id<Pool>,
}

impl Device {
    /// A device with its pool.
    pub(crate) fn new(ordinal: usize, memory_bytes: usize, pools: &mut Registry<Pool>) -> Device {
        let pool = pools.insert(Pool::default_of(ordinal));
        Device {
            ordinal,
            memory_bytes,
            primary: None,
            retains: 0,
            primary_flags: 0,
            default_pool: pool,
            current_pool: pool,
        }
    }
}
