//! The forms, by what their instructions are about.

pub mod approximate;
pub mod atomics;
pub mod bits;
pub mod carry;
pub mod comparison;
pub mod constant;
pub mod contract;
pub mod convert_float;
pub mod convert_integer;
pub mod float;
pub mod half;
pub mod integer;
pub mod memory;
pub mod moves;
pub mod volume;
pub mod warp;

/// Every type that an instruction may name.
pub const TYPES: [&str; 19] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64", "f16",
    "f16x2", "bf16", "bf16x2", "f32", "f64", "pred",
];
/// The integers with a sign or without, in the sizes that compute.
pub const INTEGERS: [&str; 6] = ["u16", "u32", "u64", "s16", "s32", "s64"];
/// The roundings of numbers.
pub const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];
