//! [`Bound`]: how far an approximation may be from the exact value.

use crate::form::Form;
use crate::inputs::Row;
use crate::value::Value;

/// How far an approximation may be from the exact value.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The exact value of one or two operands.
    pub exact: fn(f64, f64) -> f64,
    /// The largest error, for this exact value and first operand.
    pub error: fn(f64, f64) -> f64,
    /// How far apart the result and the GPU's may be at most.
    pub apart: f64,
    /// Whether subnormal operands count as zeros.
    pub flush: bool,
}

impl Bound {
    /// Whether a result keeps the bound, and so does what the GPU gave. Infinities and NaNs must be
    /// those that the GPU gave.
    pub fn holds(&self, form: &Form, inputs: &Row, got: u64, known: u64) -> bool {
        let [value] = form.outputs[..] else { return false };
        let halves = if matches!(value, Value::F16x2 | Value::Bf16x2) { 2 } else { 1 };
        (0..halves).all(|half| {
            let read = |bits: u64| number(value, bits >> (16 * half));
            let operand = |at: usize| {
                let number = read(inputs[at]);
                if self.flush && number.abs() < smallest(value) { number * 0.0 } else { number }
            };
            let (a, b) = (operand(0), operand(1));
            let (exact, got, known) = ((self.exact)(a, b), read(got), read(known));
            if !known.is_finite() || !got.is_finite() {
                return got.to_bits() == known.to_bits();
            }
            // What becomes subnormal may have been flushed.
            let most = (self.error)(exact, a) + smallest(value);
            let near = |value: f64| (value - exact).abs() <= most;
            near(got) && near(known) && (got - known).abs() <= self.apart
        })
    }
}

/// The least number of a type that is not subnormal.
fn smallest(value: Value) -> f64 {
    2_f64.powi(match value {
        Value::F16 | Value::F16x2 => -14,
        Value::F64 => -1022,
        _ => -126,
    })
}

/// What the bits of a type stand for.
fn number(value: Value, bits: u64) -> f64 {
    match value {
        Value::F64 => f64::from_bits(bits),
        Value::Bf16 | Value::Bf16x2 => f64::from(f32::from_bits((bits as u32) << 16)),
        Value::F16 | Value::F16x2 => half(bits as u16),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 != 0 { -magnitude } else { magnitude }
}
