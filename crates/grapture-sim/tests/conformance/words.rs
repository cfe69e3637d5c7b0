//! Waits for words and writes of words in stream order.

use grapture_sys::*;

use crate::rig::{GLOBAL, NULL_STREAM, Rig};
use crate::transcript::saw;

fn write(rig: &Rig, address: u64, flags: u32) -> u32 {
    cu!(rig, cuStreamWriteValue32_v2(rig.stream, address, 7, flags))
}

/// Waits for a word that is zero already.
fn wait(rig: &Rig, address: u64, value: u32, flags: u32) -> u32 {
    let code = cu!(rig, cuStreamWaitValue32_v2(rig.stream, address, value, flags));
    rig.sync(rig.stream);
    code
}

rules! { both;
    a_write_has_one_flag(rig) {
        for flags in [0, 1, 2, 4] {
            write(rig, rig.buffer, flags);
        }
        rig.sync(rig.stream);
        saw("word", rig.read_word(0));
    }
    a_word_is_aligned(rig) {
        for offset in [1, 2, 3, 4] {
            write(rig, rig.buffer + offset, 0);
        }
        for offset in [1, 2, 3] {
            wait(rig, rig.buffer + offset, 0, 0);
        }
        rig.sync(rig.stream);
    }
    a_word_lies_in_memory_of_the_driver(rig) {
        let end = rig.buffer + crate::rig::BUFFER_BYTES as u64;
        write(rig, 0, 0);
        write(rig, 0x1000, 0);
        write(rig, end - 4, 0);
        rig.sync(rig.stream);
    }
    a_word_may_be_pinned(rig) {
        let pinned = rig.pinned(64);
        write(rig, pinned.addr() as u64, 0);
        rig.sync(rig.stream);
        // SAFETY: the allocation has 64 bytes, and the only write to it has ended.
        saw("word", unsafe { pinned.cast::<u32>().read_volatile() });
        ok!(rig, cuMemFreeHost(pinned));
    }
    a_wait_compares_in_four_ways(rig) {
        for (value, flags) in [(0, 0), (0, 1), (1, 3)] {
            wait(rig, rig.buffer, value, flags);
        }
        ok!(rig, cuStreamWriteValue32_v2(rig.stream, rig.buffer, 6, 0));
        for (value, flags) in [(5, 0), (6, 0), (6, 1), (2, 2), (8, 3)] {
            wait(rig, rig.buffer, value, flags);
        }
    }
    a_wait_that_is_cyclic(rig) {
        ok!(rig, cuStreamWriteValue32_v2(rig.stream, rig.buffer, 3, 0));
        wait(rig, rig.buffer, u32::MAX, 0);
    }
    a_wait_has_no_unknown_flags(rig) {
        for flags in [4, 8, 16] {
            wait(rig, rig.buffer, 0, flags);
        }
    }
    a_wait_that_flushes_needs_a_device_that_can(rig) {
        wait(rig, rig.buffer, 0, 1 << 30);
    }
    words_on_the_legacy_stream(rig) {
        cu!(rig, cuStreamWriteValue32_v2(NULL_STREAM, rig.buffer, 7, 0));
        cu!(rig, cuStreamWaitValue32_v2(NULL_STREAM, rig.buffer, 7, 1));
        rig.sync(NULL_STREAM);
        saw("word", rig.read_word(0));
    }
    a_batch_is_not_empty_and_not_too_long(rig) {
        let mut op = CUstreamBatchMemOpParams::default();
        op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        op.writeValue.address = rig.buffer;
        let mut ops = vec![op; 257];
        for count in [0, 1, 256, 257] {
            cu!(rig, cuStreamBatchMemOp_v2(rig.stream, count, ops.as_mut_ptr(), 0));
        }
        rig.sync(rig.stream);
    }
    a_batch_has_no_flags(rig) {
        let mut op = CUstreamBatchMemOpParams::default();
        op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        op.writeValue.address = rig.buffer;
        cu!(rig, cuStreamBatchMemOp_v2(rig.stream, 1, &mut op, 1));
        rig.sync(rig.stream);
    }
    a_batch_with_an_unknown_operation(rig) {
        let mut op = CUstreamBatchMemOpParams::default();
        op.operation = CUstreamBatchMemOpType(99);
        cu!(rig, cuStreamBatchMemOp_v2(rig.stream, 1, &mut op, 0));
        rig.sync(rig.stream);
    }
    words_of_a_capture_are_nodes(rig) {
        rig.begin(rig.stream, GLOBAL);
        write(rig, rig.buffer, 0);
        cu!(rig, cuStreamWaitValue32_v2(rig.stream, rig.buffer, 0, 0));
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    words_of_a_capture_are_checked(rig) {
        for (address, flags) in [(rig.buffer + 1, 0), (rig.buffer, 4), (0, 0)] {
            rig.during(rig.stream, GLOBAL, || write(rig, address, flags));
        }
    }
}
