//! A slot is set to values of its own type.

use grapture::{BufferSlot, BufferSlotMut, DeviceBuffer, GraphExec, Slot};

fn set(exec: &mut GraphExec, value: &Slot<f32>, memory: &BufferSlot<f32>) {
    let _ = exec.set(value, 1u64); //~ E0277
    let _ = exec.set(memory, 1.0f32); //~ E0277
}

fn bind(exec: &mut GraphExec, memory: &BufferSlot<f32>, words: &DeviceBuffer<u32>) {
    let _ = exec.set(memory, words); //~ E0277
}

fn write(exec: &mut GraphExec, memory: &BufferSlotMut<f32>, shared: &DeviceBuffer<f32>) {
    let _ = exec.set(memory, shared); //~ E0277
}

fn main() {}
