//! Memory pools.

use std::collections::HashMap;

use grapture_sys::{CUDA_ERROR_OUT_OF_MEMORY, CUmemPoolHandle_st, CUresult};

use crate::handle::{Kind, Object};

/// A pool takes memory from the device in pieces of this many bytes.
const PIECE: u64 = 32 << 20;

/// A memory pool. What is freed goes back to the device at once; what the pool would keep is only
/// counted.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The device's ordinal.
    pub(crate) device: usize,
    /// Whether it is a device's own pool, which cannot be destroyed.
    pub(crate) default: bool,
    /// The most bytes that it may take; zero for all.
    most: u64,
    /// How much it keeps of what is free.
    pub(crate) threshold: u64,
    /// The other attributes that were set, by their number.
    pub(crate) attributes: HashMap<u32, u64>,
    /// The most bytes that were in use.
    pub(crate) used_high: u64,
    /// The most bytes that it had taken.
    pub(crate) reserved_high: u64,
    /// What it has taken and not been told to give back.
    kept: u64,
}

impl Pool {
    /// A pool on a device.
    pub(crate) fn new(device: usize, most: u64) -> Pool {
        Pool {
            device,
            default: false,
            most,
            threshold: 0,
            attributes: HashMap::new(),
            used_high: 0,
            reserved_high: 0,
            kept: 0,
        }
    }

    /// The device's own pool.
    pub(crate) fn default_of(device: usize) -> Pool {
        Pool { default: true, ..Pool::new(device, 0) }
    }

    /// The bytes that it has taken from the device while so many are in use.
    pub(crate) fn reserved(&self, used: u64) -> u64 {
        used.next_multiple_of(PIECE).max(self.kept.min(self.threshold))
    }

    /// Whether there is room for more.
    pub(crate) fn check_room(&self, used: u64, bytes: usize) -> Result<(), CUresult> {
        let wanted = used.saturating_add(bytes as u64);
        let room = self.most == 0 || wanted <= self.most.next_multiple_of(PIECE);
        if room { Ok(()) } else { Err(CUDA_ERROR_OUT_OF_MEMORY) }
    }

    /// Notes how many bytes are in use after an allocation.
    pub(crate) fn note_use(&mut self, used: u64) {
        self.used_high = self.used_high.max(used);
        self.kept = self.kept.max(used.next_multiple_of(PIECE));
        self.reserved_high = self.reserved_high.max(self.reserved(used));
    }

    /// Gives back what is free beyond so many bytes.
    pub(crate) fn trim(&mut self, keep: u64) {
        self.kept = self.kept.min(keep);
    }
}

impl Object for Pool {
    const KIND: Kind = Kind::Pool;
    type Raw = CUmemPoolHandle_st;
}
