//! How many blocks of a kernel a multiprocessor holds.

use crate::device;
use crate::module::KernelCode;

/// Threads of a warp.
const WARP: usize = 32;
/// Registers are given to warps in units of this many.
const REGISTER_UNIT: usize = 256;
/// Shared memory is given to blocks in units of this many bytes.
const SHARED_UNIT: usize = 128;

/// The blocks of this many threads that fit on a multiprocessor.
pub(crate) fn blocks(code: &KernelCode, threads: usize, dynamic_shared: usize) -> usize {
    if threads == 0 || threads > code.max_threads {
        return 0;
    }
    let warps = threads.div_ceil(WARP);
    let by_threads = device::MAX_SM_THREADS / (warps * WARP);
    let registers = (code.registers * WARP).next_multiple_of(REGISTER_UNIT) * warps;
    let by_registers = device::SM_REGISTERS.checked_div(registers).unwrap_or(usize::MAX);
    let shared = shared_of_block(code, dynamic_shared);
    if shared > device::BLOCK_SHARED_OPTIN + device::BLOCK_SHARED_RESERVED {
        return 0;
    }
    let by_shared = device::SM_SHARED / shared;
    by_threads.min(by_registers).min(by_shared).min(device::MAX_SM_BLOCKS)
}

fn shared_of_block(code: &KernelCode, dynamic: usize) -> usize {
    let asked = code.shared_bytes.saturating_add(dynamic);
    asked.saturating_add(device::BLOCK_SHARED_RESERVED).next_multiple_of(SHARED_UNIT)
}

/// The block size that keeps most threads on a multiprocessor, the largest of them, and how many
/// such blocks fill the device.
pub(crate) fn best_block(
    code: &KernelCode,
    limit: usize,
    most_shared: usize,
    dynamic_shared: impl Fn(usize) -> usize,
) -> (usize, usize) {
    let limit = if limit == 0 { code.max_threads } else { limit.min(code.max_threads) };
    let mut best = (0, 0, 0);
    // From the largest down in whole warps, and the limit itself.
    let mut size = limit;
    while size > 0 {
        let shared = dynamic_shared(size);
        let fitting = if shared > most_shared { 0 } else { blocks(code, size, shared) };
        if fitting * size > best.0 {
            best = (fitting * size, size, fitting);
        }
        size = if size % WARP == 0 { size - WARP } else { size / WARP * WARP };
    }
    (best.2 * device::MULTIPROCESSORS, best.1)
}

/// The dynamic shared memory that a block can have while this many fit, by what the multiprocessor
/// has.
pub(crate) fn free_shared(code: &KernelCode, count: usize) -> usize {
    let each = device::SM_SHARED / count.max(1) / SHARED_UNIT * SHARED_UNIT;
    each.saturating_sub(code.shared_bytes)
}
