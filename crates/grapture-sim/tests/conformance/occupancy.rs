//! How many blocks of a kernel run at once.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{PTX, Rig};
use crate::transcript::saw;

/// Runs a case with a kernel of the rig's module.
fn with(rig: &Rig, name: &str, case: impl FnOnce(CUfunction)) {
    let module = rig.module(PTX);
    case(rig.function(module, name));
    ok!(rig, cuModuleUnload(module));
}

fn blocks(rig: &Rig, kernel: CUfunction, threads: i32, shared: usize) {
    let mut blocks = -1;
    saw("asked", (threads, shared));
    cu!(rig, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, kernel, threads, shared));
    saw("blocks", blocks);
}

unsafe extern "C" fn four_bytes_a_thread(threads: i32) -> usize {
    4 * threads as usize
}

rules! { both;
    blocks_by_their_threads(rig) {
        with(rig, "noarg", |kernel| {
            for threads in [-1, 0, 1, 32, 33, 64, 100, 256, 1000, 1024, 1025, 2048] {
                blocks(rig, kernel, threads, 0);
            }
        });
    }
    blocks_by_their_shared_memory(rig) {
        with(rig, "noarg", |kernel| {
            for shared in [1, 1024, 10_000, 49_152, 49_153, 100_000, 232_448, 232_449, 1 << 30] {
                blocks(rig, kernel, 128, shared);
            }
        });
    }
    blocks_of_a_kernel_with_shared_memory(rig) {
        with(rig, "sm", |kernel| {
            for shared in [0, 1000, 48_128, 48_129] {
                blocks(rig, kernel, 128, shared);
            }
        });
    }
    blocks_after_more_shared_memory_was_asked_for(rig) {
        with(rig, "noarg", |kernel| {
            let what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            ok!(rig, cuFuncSetAttribute(kernel, what, 232_448));
            for shared in [49_153, 100_000, 116_000, 232_448, 232_449] {
                blocks(rig, kernel, 128, shared);
            }
        });
    }
    blocks_with_flags(rig) {
        with(rig, "noarg", |kernel| {
            for flags in [0, 1, 2] {
                let mut blocks = -1;
                cu!(
                    rig,
                    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&mut blocks, kernel, 128, 0, flags)
                );
                saw("blocks", blocks);
            }
        });
    }
    blocks_of_nothing(rig) {
        with(rig, "noarg", |kernel| {
            cu!(rig, cuOccupancyMaxActiveBlocksPerMultiprocessor(null_mut(), kernel, 128, 0));
        });
        cu!(rig, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut 0, null_mut(), 128, 0));
    }
    the_best_size_of_a_block(rig) {
        with(rig, "noarg", |kernel| {
            for (shared, limit) in [(0, 0), (0, 128), (0, 100), (0, 4096), (40_000, 0), (60_000, 0)] {
                let (mut grid, mut block) = (-1, -1);
                saw("asked", (shared, limit));
                cu!(
                    rig,
                    cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, kernel, None, shared, limit)
                );
                saw("grid and block", (grid, block));
            }
        });
    }
    the_best_size_of_a_block_by_a_function(rig) {
        with(rig, "noarg", |kernel| {
            let (mut grid, mut block) = (-1, -1);
            let size = Some(four_bytes_a_thread as _);
            cu!(rig, cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, kernel, size, 0, 0));
            saw("grid and block", (grid, block));
        });
    }
    the_best_size_of_a_block_with_flags(rig) {
        with(rig, "noarg", |kernel| {
            for flags in [0, 1, 2] {
                let (mut grid, mut block) = (-1, -1);
                cu!(
                    rig,
                    cuOccupancyMaxPotentialBlockSizeWithFlags(
                        &mut grid, &mut block, kernel, None, 0, 0, flags
                    )
                );
                saw("grid and block", (grid, block));
            }
        });
    }
    the_best_size_of_nothing(rig) {
        with(rig, "noarg", |kernel| {
            cu!(rig, cuOccupancyMaxPotentialBlockSize(null_mut(), &mut 0, kernel, None, 0, 0));
            cu!(rig, cuOccupancyMaxPotentialBlockSize(&mut 0, null_mut(), kernel, None, 0, 0));
            cu!(rig, cuOccupancyMaxPotentialBlockSize(&mut 0, &mut 0, null_mut(), None, 0, 0));
            cu!(rig, cuOccupancyMaxPotentialBlockSize(&mut 0, &mut 0, kernel, None, 0, -1));
        });
    }
    the_shared_memory_that_is_left(rig) {
        with(rig, "noarg", |kernel| {
            for (blocks, threads) in [(1, 128), (2, 128), (4, 256), (8, 256), (16, 128), (32, 64), (33, 64), (1, 2048)] {
                let mut bytes = 77;
                saw("asked", (blocks, threads));
                cu!(rig, cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, kernel, blocks, threads));
                saw("bytes", bytes);
            }
        });
    }
}
