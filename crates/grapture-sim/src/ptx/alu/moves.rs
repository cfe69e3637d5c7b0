//! Registers put together from smaller ones or taken apart.

use super::{Alu1, Alu2, lanes};

/// Joins two registers of `bytes` bytes into one of twice the size, the first in the lower half.
pub fn join(bytes: usize) -> Option<Alu2> {
    Some(match bytes {
        1 => lanes!(|a: u8, b: u8| -> u16 { u16::from(b) << 8 | u16::from(a) }),
        2 => lanes!(|a: u16, b: u16| -> u32 { u32::from(b) << 16 | u32::from(a) }),
        4 => lanes!(|a: u32, b: u32| -> u64 { u64::from(b) << 32 | u64::from(a) }),
        _ => return None,
    })
}

/// Takes the lower or upper half of a register, the half being of `bytes` bytes.
pub fn part(bytes: usize, upper: bool) -> Option<Alu1> {
    Some(match (bytes, upper) {
        (1, false) => lanes!(|a: u16| -> u8 { a as u8 }),
        (1, true) => lanes!(|a: u16| -> u8 { (a >> 8) as u8 }),
        (2, false) => lanes!(|a: u32| -> u16 { a as u16 }),
        (2, true) => lanes!(|a: u32| -> u16 { (a >> 16) as u16 }),
        (4, false) => lanes!(|a: u64| -> u32 { a as u32 }),
        (4, true) => lanes!(|a: u64| -> u32 { (a >> 32) as u32 }),
        _ => return None,
    })
}

/// Adds 64-bit numbers.
pub fn add64() -> Alu2 {
    lanes!(|a: u64, b: u64| -> u64 { a.wrapping_add(b) })
}

/// The bits that are set in one of two registers.
pub fn or32() -> Alu2 {
    lanes!(|a: u32, b: u32| -> u32 { a | b })
}

/// Subtracts 64-bit numbers.
pub fn sub64() -> Alu2 {
    lanes!(|a: u64, b: u64| -> u64 { a.wrapping_sub(b) })
}

/// The place of the lowest set bit.
pub fn lowest() -> Alu1 {
    lanes!(|a: u32| -> u32 { a.trailing_zeros() })
}

/// The bits that are set in both registers.
pub fn and32() -> Alu2 {
    lanes!(|a: u32, b: u32| -> u32 { a & b })
}
