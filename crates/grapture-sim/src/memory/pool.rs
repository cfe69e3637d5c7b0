//! Memory pools.

use std::collections::HashMap;

use grapture_sys::CUmemPoolHandle_st;

use crate::handle::{Kind, Object};

/// A memory pool. Memory goes back to the device when it is freed: a pool keeps nothing.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The device's ordinal.
    pub(crate) device: usize,
    /// Whether it is a device's own pool, which cannot be destroyed.
    pub(crate) default: bool,
    /// The attributes that were set, by their number.
    pub(crate) attributes: HashMap<u32, u64>,
    /// The most bytes that were in use.
    pub(crate) used_high: u64,
}

impl Pool {
    /// A pool on a device.
    pub(crate) fn new(device: usize) -> Pool {
        Pool { device, default: false, attributes: HashMap::new(), used_high: 0 }
    }

    /// The device's own pool.
    pub(crate) fn default_of(device: usize) -> Pool {
        Pool { default: true, ..Pool::new(device) }
    }
}

impl Object for Pool {
    const KIND: Kind = Kind::Pool;
    type Raw = CUmemPoolHandle_st;
}
