//! The approximations, within the errors that NVIDIA documents.

use std::f64::consts::PI;

use crate::form::Forms;
use crate::ulps::Bound;

/// A function by name, its exact value and its largest error in each type.
struct Function {
    name: &'static str,
    exact: fn(f64, f64) -> f64,
    error: fn(f64, f64) -> f64,
}

/// The relative error of half a unit of so many bits.
fn relative(exact: f64, power: f64) -> f64 {
    exact.abs() * 2_f64.powf(power)
}

/// The error of an angle's functions. For large angles there is none, but that they are reduced as the GPU
/// reduces them, so that the result is near the GPU's.
fn of_angle(_: f64, angle: f64) -> f64 {
    if angle.abs() <= 2.0 * PI {
        2_f64.powf(-20.5)
    } else if angle.abs() <= 100.0 * PI {
        2_f64.powf(-14.7)
    } else {
        2.0
    }
}

fn of_logarithm(exact: f64, operand: f64) -> f64 {
    if (0.5..2.0).contains(&operand) { 2_f64.powi(-22) } else { relative(exact, -22.0) }
}

/// In single precision.
const SINGLE: [Function; 8] = [
    Function { name: "sin", exact: |a, _| a.sin(), error: of_angle },
    Function { name: "cos", exact: |a, _| a.cos(), error: of_angle },
    Function { name: "ex2", exact: |a, _| a.exp2(), error: |e, _| relative(e, -22.0) },
    Function { name: "lg2", exact: |a, _| a.log2(), error: of_logarithm },
    Function { name: "tanh", exact: |a, _| a.tanh(), error: |e, _| relative(e, -11.0) },
    Function { name: "rcp", exact: |a, _| 1.0 / a, error: |e, _| relative(e, -23.0) },
    Function { name: "rsqrt", exact: |a, _| 1.0 / a.sqrt(), error: |e, _| relative(e, -22.9) },
    Function { name: "sqrt", exact: |a, _| a.sqrt(), error: |e, _| relative(e, -23.0) },
];

pub fn forms(forms: &mut Forms) {
    for function in &SINGLE {
        for flush in [false, true] {
            let angle = matches!(function.name, "sin" | "cos");
            let apart = if angle { 2_f64.powi(-20) } else { f64::INFINITY };
            let bound = Bound { exact: function.exact, error: function.error, apart, flush };
            let ftz = if flush { ".ftz" } else { "" };
            forms.approximation(&format!("{}.approx{ftz}.f32", function.name), "f32", 1, bound);
            for ty in ["f64", "f16", "f16x2", "bf16", "bf16x2"] {
                let bound = in_type(function, ty, flush);
                forms.approximation(&format!("{}.approx{ftz}.{ty}", function.name), ty, 1, bound);
            }
        }
    }
    for ty in ["f32", "f64", "f16", "bf16"] {
        for (ftz, flush) in [("", false), (".ftz", true)] {
            let error = |exact, _| relative(exact, -22.0);
            let full = Bound { exact: |a, b| a / b, error, apart: f64::INFINITY, flush };
            let approx = Bound { exact: quotient, ..full };
            forms.approximation(&format!("div.full{ftz}.{ty}"), ty, 2, full);
            forms.approximation(&format!("div.approx{ftz}.{ty}"), ty, 2, approx);
        }
    }
}

/// A divisor beyond 2^126 gives zero.
fn quotient(a: f64, b: f64) -> f64 {
    if b.abs() > 2_f64.powi(126) { a * (0.0 * b.signum()) } else { a / b }
}

/// A function in a type other than single precision. What is known of doubles is that a GPU's own
/// values, which are recorded, keep these bounds.
fn in_type(function: &Function, ty: &str, flush: bool) -> Bound {
    let error: fn(f64, f64) -> f64 = match (function.name, ty) {
        ("ex2", "f16" | "f16x2") => |exact, _| relative(exact, -9.9),
        ("ex2", _) => |exact, _| relative(exact, -7.0),
        ("tanh", "f16" | "f16x2") => |_, _| 2_f64.powf(-10.987),
        ("tanh", _) => |exact, _| relative(exact, -8.0),
        (_, "f64") if flush => |exact, _| relative(exact, -20.0),
        _ => |exact, _| relative(exact, -51.0),
    };
    Bound { exact: function.exact, error, apart: f64::INFINITY, flush }
}
