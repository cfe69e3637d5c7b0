//! Steps on memory: what is allocated, asked of, copied and freed.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::call;
use crate::walk::{Memory, Walk};

const MOST: usize = 6;

pub fn allocate(walk: &mut Walk) {
    if walk.memory.len() >= MOST {
        return;
    }
    let (there, kind, stream) = (walk.there(), walk.source.below(7), walk.stream());
    let (raw, pool) = (walk.streams[stream], walk.pool);
    let bytes = [64, 4096, 100, 1 << 20, 64, 0, 1 << 50][walk.source.below(7)];
    let (code, address) = walk.on(there, move |driver| {
        let (mut address, mut host, mut pitch) = (0, null_mut(), 0);
        let code = match kind {
            0 => call!(driver, cuMemAlloc_v2(&mut address, bytes)),
            1 | 2 => call!(driver, cuMemAllocAsync(&mut address, bytes, raw)),
            3 => call!(driver, cuMemAllocFromPoolAsync(&mut address, bytes, pool, raw)),
            4 => call!(driver, cuMemAllocManaged(&mut address, bytes, 1)),
            5 => call!(driver, cuMemAllocPitch_v2(&mut address, &mut pitch, bytes, 2, 4)),
            _ => call!(driver, cuMemHostAlloc(&mut host, bytes, 0)),
        };
        (code, if host.is_null() { address } else { host.expose_provenance() as u64 })
    });
    let number = walk.number();
    // A copy would read what lies at an address of nothing as the host's memory.
    if code == 0 && address != 0 {
        walk.memory.push(Memory { number, address, kind });
    }
    let text = format!("memory {number} of {bytes} kind {kind} on {stream} there {there}");
    walk.step(text, code.to_string());
}

fn some(walk: &mut Walk) -> Option<Memory> {
    let memory = walk.memory.clone();
    walk.source.of(&memory)
}

/// Frees memory in any of the ways, right or wrong, sometimes twice.
pub fn free(walk: &mut Walk) {
    let Some(memory) = some(walk) else { return };
    let (there, any, stream) = (walk.there(), walk.source.chance(4), walk.stream());
    let way = match (any, memory.kind) {
        (true, _) => walk.source.below(3),
        (_, 1..4) => walk.source.below(2),
        (_, 6) => 2,
        _ => 0,
    };
    let offset = if walk.source.chance(8) { 16 } else { 0 };
    // A second free in the order of a stream is taken until the first has run.
    let (raw, twice) = (walk.streams[stream], walk.source.chance(8) && way != 1);
    let codes = walk.on(there, move |driver| {
        let address = memory.address + offset;
        let free = || match way {
            0 => call!(driver, cuMemFree_v2(address)),
            1 => call!(driver, cuMemFreeAsync(address, raw)),
            _ => {
                let host = std::ptr::with_exposed_provenance_mut(address as usize);
                call!(driver, cuMemFreeHost(host))
            }
        };
        let first = free();
        (first, if twice && first == 0 { free() } else { 0 })
    });
    if codes.0 == 0 {
        walk.memory.retain(|known| known.number != memory.number);
    }
    let text = format!(
        "free {} + {offset} way {way} on {stream} there {there} twice {twice}",
        memory.number
    );
    walk.step(text, format!("{codes:?}"));
}

/// What is told of an address.
pub fn ask(walk: &mut Walk) {
    let Some(memory) = some(walk) else { return };
    let offset = [0, 16, 63][walk.source.below(3)];
    let address = memory.address + offset;
    let driver = walk.driver.clone();
    let number = |attribute: CUpointer_attribute| {
        let mut value = 0_u64;
        let code =
            call!(driver, cuPointerGetAttribute((&raw mut value).cast(), attribute, address));
        (code, value)
    };
    let (mut base, mut size) = (0, 0);
    let range = call!(driver, cuMemGetAddressRange_v2(&mut base, &mut size, address));
    let host = std::ptr::with_exposed_provenance_mut(address as usize);
    let (mut flags, mut device) = (0, 0);
    let answer = (
        [
            number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
            number(CU_POINTER_ATTRIBUTE_IS_MANAGED),
            number(CU_POINTER_ATTRIBUTE_RANGE_SIZE),
            number(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
            number(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
        ],
        (range, size, if range == 0 { address - base } else { 0 }),
        (call!(driver, cuMemHostGetFlags(&mut flags, host)), flags),
        call!(driver, cuMemHostGetDevicePointer_v2(&mut device, host, 0)),
    );
    walk.step(format!("ask {} + {offset}", memory.number), format!("{answer:?}"));
}

/// Copies between memory, or fills it, at once; also beyond its end.
pub fn access(walk: &mut Walk) {
    let (Some(to), Some(from)) = (some(walk), some(walk)) else { return };
    let (there, what) = (walk.there(), walk.source.below(7));
    let offset = [0, 0, 0, 1, 32][walk.source.below(5)];
    let bytes = [16, 64, 0, 128, 1 << 21][walk.source.below(5)];
    // What lies behind host memory is read, whatever it is.
    if [to.kind, from.kind].contains(&6) && bytes > 64 {
        return;
    }
    let own = walk.own.as_mut_ptr();
    let code = walk.on(there, move |driver| {
        let (to, from) = (to.address + offset, from.address);
        match what {
            0 => call!(driver, cuMemcpy(to, from, bytes)),
            1 => call!(driver, cuMemcpyDtoD_v2(to, from, bytes)),
            2 => call!(driver, cuMemcpyHtoD_v2(to, own.cast(), bytes.min(256))),
            3 => call!(driver, cuMemcpyDtoH_v2(own.cast(), from, bytes.min(256))),
            4 => call!(driver, cuMemsetD8_v2(to, 1, bytes)),
            5 => call!(driver, cuMemsetD32_v2(to, 1, bytes / 4)),
            _ => call!(driver, cuMemsetD2D8_v2(to, 64, 1, 32, bytes / 32)),
        }
    });
    let text = format!(
        "access {what} {} + {offset} from {}, {bytes} bytes there {there}",
        to.number, from.number
    );
    walk.step(text, code.to_string());
}

/// Adds an allocation or a free node to a graph.
pub fn node(walk: &mut Walk) {
    let Some(graph) = walk.graph() else { return };
    let (after, places) = crate::graphs::some_nodes(walk, graph);
    let (list, count) = (after.as_ptr(), after.len());
    let mut node = null_mut();
    let (text, code) = if walk.source.chance(2) {
        let number = walk.number();
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 4096, ..Default::default() };
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let code = call!(
            walk.driver,
            cuGraphAddMemAllocNode(&mut node, graph.raw, list, count, &mut params)
        );
        if code == 0 {
            walk.planned.push((number, params.dptr));
        }
        (format!("allocation {number}"), code)
    } else {
        let planned = walk.planned.clone();
        let (number, address) = match (walk.source.of(&planned), some(walk)) {
            (Some(planned), _) => planned,
            (None, Some(memory)) => (memory.number, memory.address),
            _ => return,
        };
        let code =
            call!(walk.driver, cuGraphAddMemFreeNode(&mut node, graph.raw, list, count, address));
        (format!("free of {number}"), code)
    };
    let answer = format!("{code}{}", crate::graphs::shape(walk, graph.raw));
    walk.step(format!("add to {} after {places}: {text}", graph.number), answer);
}
