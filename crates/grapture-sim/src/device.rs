//! Devices: what they are and what they can do.

use std::sync::{Arc, OnceLock};

use grapture_sys::{CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, CUdevice_attribute};

use crate::context::Context;
use crate::device_config::DeviceConfig;
use crate::fault::Fault;
use crate::handle::{Id, Registry};
use crate::memory::Pool;
use crate::origin::Origin;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its ordinal, which is also its handle.
    pub(crate) ordinal: usize,
    /// What it answers of itself.
    pub(crate) config: DeviceConfig,
    /// Its primary context, while that is active.
    pub(crate) primary: Option<Id<Context>>,
    /// The calls that retained the primary context and were not released.
    pub(crate) retained_by: Vec<Option<Origin>>,
    /// The flags of the primary context.
    pub(crate) primary_flags: u32,
    /// What broke its contexts.
    pub(crate) fault: Arc<OnceLock<Fault>>,
    /// Its own pool.
    pub(crate) default_pool: Id<Pool>,
    /// The pool of `cuMemAllocAsync`.
    pub(crate) current_pool: Id<Pool>,
}

/// Streaming multiprocessors.
pub(crate) const MULTIPROCESSORS: usize = 132;
/// The most threads of a block.
pub(crate) const MAX_BLOCK_THREADS: usize = 1024;
/// The most threads of a block in each direction.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// The most blocks in each direction.
pub(crate) const MAX_GRID: [u32; 3] = [2_147_483_647, 65_535, 65_535];
/// The most threads on a multiprocessor.
pub(crate) const MAX_SM_THREADS: usize = 2048;
/// The most blocks on a multiprocessor.
pub(crate) const MAX_SM_BLOCKS: usize = 32;
/// Registers of a multiprocessor.
pub(crate) const SM_REGISTERS: usize = 65_536;
/// Shared memory of a multiprocessor.
pub(crate) const SM_SHARED: usize = 233_472;
/// Shared memory of a block without asking for more.
pub(crate) const BLOCK_SHARED: usize = 49_152;
/// Shared memory of a block at most.
pub(crate) const BLOCK_SHARED_OPTIN: usize = 232_448;
/// Shared memory of a block that the driver keeps for itself.
pub(crate) const BLOCK_SHARED_RESERVED: usize = 1024;

/// The attributes by number, from 1 on, as an H200 answers them.
const ATTRIBUTES: &[i32] = &[
    1024, 1024, 1024, 64, 2147483647, 65535, 65535, 49152, 65536, 32, 2147483647, 65536, 1980000,
    512, 1, 132, 0, 0, 1, 0, 131072, 131072, 65536, 16384, 16384, 16384, 32768, 32768, 2048, 512,
    1, 1, 0, 6, 0, 3201000, 6016, 62914560, 2048, 3, 1, 32768, 2048, 1, 32768, 32768, 8192, 8192,
    32768, 0, 32, 32768, 32768, 2046, 32768, 131072, 65536, 16384, 16384, 16384, 32768, 2048,
    32768, 32768, 2048, 32768, 32768, 2046, 268435456, 131072, 65000, 2097120, 32768, 32768, 9, 0,
    32768, 1, 1, 1, 233472, 65536, 1, 0, 0, 0, 2, 0, 1, 1, 1, 0, 0, 0, 1, 1, 232448, 0, 1, 0, 0, 1,
    1, 0, 0, 32, 1, 39321600, 134217728, 1, 1024, 1, 1, 1, 1, 1, 1, 100, 9, 1, 1, 1, 1, 1, 1, 4, 1,
    1, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 590680286, 415174878, 1, 1, 0, 1, 1, 0, 0,
];

/// From which number on attributes need which driver, where programs ask for them.
const NEW_ATTRIBUTES: &[(u32, i32)] = &[(102, 10_020), (106, 11_000), (115, 11_020), (120, 11_080)];

impl Device {
    /// Takes the primary context out, whose flags end with it.
    pub(crate) fn end_primary(&mut self) -> Option<Id<Context>> {
        self.primary_flags = 0;
        self.primary.take()
    }

    /// A device with its pool.
    pub(crate) fn new(ordinal: usize, config: &DeviceConfig, pools: &mut Registry<Pool>) -> Device {
        let pool = pools.insert(Pool::default_of(ordinal));
        Device {
            ordinal,
            config: config.clone(),
            primary: None,
            retained_by: Vec::new(),
            primary_flags: 0,
            fault: Arc::default(),
            default_pool: pool,
            current_pool: pool,
        }
    }

    /// An attribute; nothing if the driver knows none of the number.
    pub(crate) fn attribute(&self, attribute: CUdevice_attribute, driver: i32) -> Option<i32> {
        let newest = NEW_ATTRIBUTES.iter().rev().find(|(first, _)| *first <= attribute.0);
        if newest.is_some_and(|(_, since)| *since > driver) {
            return None;
        }
        let index = usize::try_from(attribute.0).ok()?.checked_sub(1)?;
        let by_default = match attribute {
            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID => self.pci_device(),
            _ => *ATTRIBUTES.get(index)?,
        };
        Some(self.config.set_attribute(attribute).unwrap_or(by_default))
    }

    fn pci_device(&self) -> i32 {
        6 + self.ordinal as i32
    }

    /// Its place on the bus.
    pub(crate) fn pci_bus_id(&self) -> String {
        format!("0000:00:{:02X}.0", self.pci_device())
    }

    /// Its unique number.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"grapture-sim-000";
        // INVARIANT: the array has 16 bytes.
        uuid[15] = b'0'.wrapping_add(self.ordinal as u8);
        uuid
    }
}
