//! What the blocks of a cooperative launch share: the words by which they meet.
//!
//! The library of cooperative groups finds them at the address that two of the environment registers
//! hold, zero at the start of each launch, and counts there who has come.

use std::sync::Arc;

use super::memory::{GlobalMemory, Region};
use crate::memory::bytes::SharedBytes;

/// Where it lies, for the kernels of one launch.
pub const ADDRESS: u64 = 0xffff_f400_0000_0000;
/// Its size in bytes.
const BYTES: usize = 64;

/// Global memory, and the workspace of a launch.
pub struct WithWorkspace<'a> {
    global: &'a dyn GlobalMemory,
    workspace: Region,
}

impl<'a> WithWorkspace<'a> {
    /// A workspace of zeros beside the memory.
    pub fn new(global: &'a dyn GlobalMemory) -> Self {
        Self { global, workspace: Region::whole(ADDRESS, Arc::new(SharedBytes::new(BYTES))) }
    }
}

impl GlobalMemory for WithWorkspace<'_> {
    fn find(&self, address: u64) -> Option<Region> {
        if address.wrapping_sub(ADDRESS) < BYTES as u64 {
            return Some(self.workspace.clone());
        }
        self.global.find(address)
    }
}
