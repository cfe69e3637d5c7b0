//! [`Names`]: names for memory and events that do not change from one run of a program to the next.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;

use grapture_sys::{
    CU_MEMORYTYPE_HOST, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr, CUevent, CUmemorytype,
};

use crate::context::Context;
use crate::error::check;

/// Numbers below are no addresses: the first pages of no address space hold anything.
const LEAST_ADDRESS: u64 = 1 << 16;

/// Gives each allocation and each event a name when it is first seen: `d0` for memory of the device,
/// `h0` for memory of the host, `g0` for memory that a node allocates, `e0` for an event.
pub(crate) struct Names<'a> {
    context: &'a Context,
    /// From the first address on: the number of bytes, and the name.
    memory: BTreeMap<u64, (u64, String)>,
    events: HashMap<CUevent, usize>,
    device: usize,
    host: usize,
    graph: usize,
}

impl<'a> Names<'a> {
    pub(crate) fn new(context: &'a Context) -> Names<'a> {
        let (memory, events) = (BTreeMap::new(), HashMap::new());
        Names { context, memory, events, device: 0, host: 0, graph: 0 }
    }

    /// An address, which is one of the host or one of the device.
    pub(crate) fn address(&mut self, address: u64, is_host: bool) -> String {
        if let Some(known) = self.known(address) {
            return known;
        }
        // Memory that the driver knows nothing of, such as the host's own, begins where it is used.
        self.add(address, 1, is_host)
    }

    /// An address, if the driver knows what is there.
    pub(crate) fn known(&mut self, address: u64) -> Option<String> {
        if address < LEAST_ADDRESS {
            return None;
        }
        let below = self.memory.range(..=address).next_back();
        if let Some((start, (_, name))) = below.filter(|(start, (len, _))| address - *start < *len)
        {
            return Some(place(name, address - start));
        }
        let (start, bytes) = self.range(address)?;
        let is_host = self.is_host(start);
        let name = self.add(start, bytes, is_host);
        Some(place(&name, address - start))
    }

    /// Memory that a node allocates.
    pub(crate) fn allocation(&mut self, address: u64, bytes: usize) -> String {
        let name = format!("g{}", self.graph);
        self.graph += 1;
        self.memory.insert(address, (bytes as u64, name.clone()));
        name
    }

    pub(crate) fn event(&mut self, event: CUevent) -> String {
        let next = self.events.len();
        format!("e{}", self.events.entry(event).or_insert(next))
    }

    fn add(&mut self, start: u64, bytes: u64, is_host: bool) -> String {
        let (letter, count) = if is_host { ('h', &mut self.host) } else { ('d', &mut self.device) };
        let name = format!("{letter}{count}");
        *count += 1;
        self.memory.insert(start, (bytes, name.clone()));
        name
    }

    /// The allocation that the address lies in, as the driver knows it.
    fn range(&self, address: u64) -> Option<(u64, u64)> {
        let (mut start, mut bytes) = (0, 0);
        let asked = self.context.enter_relaxed(|functions| {
            // SAFETY: both out-pointers are live locals; the address is only looked up.
            check(unsafe {
                (functions.cuMemGetAddressRange_v2)(&mut start, &mut bytes, address as CUdeviceptr)
            })
        });
        let bytes = bytes as u64;
        (asked.is_ok() && address.checked_sub(start)? < bytes).then_some((start, bytes))
    }

    fn is_host(&self, address: u64) -> bool {
        let mut kind = CUmemorytype(0);
        let attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let asked = self.context.enter_relaxed(|functions| {
            let data = (&raw mut kind).cast::<c_void>();
            // SAFETY: NVIDIA: the attribute is a `CUmemorytype`, for which there is room; the
            // address is only looked up.
            check(unsafe { (functions.cuPointerGetAttribute)(data, attribute, address) })
        });
        asked.is_ok() && kind == CU_MEMORYTYPE_HOST
    }
}

fn place(name: &str, offset: u64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name} + {offset}") }
}
