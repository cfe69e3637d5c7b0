//! Device memory for the kernels.

use std::sync::Arc;

use grapture_sim::memory::bytes::SharedBytes;
use grapture_sim::ptx::{GlobalMemory, Region};

/// Buffers with nothing between them.
#[derive(Default)]
pub struct Device(Vec<Region>);

impl GlobalMemory for Device {
    fn find(&self, address: u64) -> Option<Region> {
        self.0.iter().find(|r| (r.base..r.base + r.len).contains(&address)).cloned()
    }
}

impl Device {
    /// A buffer of these numbers; answers its address.
    pub fn upload(&mut self, values: &[f32]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let region = SharedBytes::new(bytes.len());
        region.write(0, &bytes).expect("the buffer was made for them");
        let base = 0x7000_0000_0000 + ((self.0.len() as u64) << 32);
        self.0.push(Region::whole(base, Arc::new(region)));
        base
    }

    /// The numbers of a buffer.
    pub fn download(&self, at: u64) -> Vec<f32> {
        let region = self.find(at).expect("the address of a buffer");
        let mut bytes = vec![0; region.len as usize];
        region.bytes.read(0, &mut bytes).expect("all of the buffer");
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.chunks_exact(4).map(number).collect()
    }
}
