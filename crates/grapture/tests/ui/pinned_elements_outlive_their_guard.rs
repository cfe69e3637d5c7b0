//! The elements are the host's as long as the guard lives, and the guard as long as the memory.

use grapture::{CudaResult, PinnedBuffer};

fn keep_elements(pinned: &PinnedBuffer<u32>) -> CudaResult<u32> {
    let elements: &[u32] = {
        let read = pinned.read()?;
        &read[1..] //~ E0597
    };
    Ok(elements[0])
}

fn keep_guard(mut pinned: PinnedBuffer<u32>) -> CudaResult<()> {
    let mut write = pinned.write()?;
    drop(pinned); //~ E0505
    write.fill(1);
    Ok(())
}

fn main() {}
