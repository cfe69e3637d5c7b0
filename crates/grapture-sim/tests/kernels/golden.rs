//! What an H200 answered: a hash of each launch's outputs and, where the kernel uses approximate
//! instructions, the outputs themselves.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::data::{Scalar, hash};
use crate::launch::Output;

/// How exact a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exactness {
    /// It has no approximate instruction.
    Exact,
    /// It has some of double precision.
    Double,
    /// It has some of single precision.
    Single,
}

/// A line of the file.
pub fn line(case: &str, exactness: Exactness, outputs: &[Output]) -> String {
    let bytes: Vec<u8> = outputs.iter().flat_map(|output| output.bytes.clone()).collect();
    let mut line = format!("{case} {:016x}", hash(&bytes));
    if exactness != Exactness::Exact {
        line.push(' ');
        for byte in bytes {
            let _ = write!(line, "{byte:02x}");
        }
    }
    line
}

/// The lines of a file of answers, by case.
pub fn answers(file: &str) -> HashMap<&str, &str> {
    file.lines().filter_map(|line| Some((line.split(' ').next()?, line))).collect()
}

/// How an answer compares.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Same,
    /// Not the same bits, and the kernel uses approximate instructions: the largest difference, as
    /// a part of what may be.
    Close(f64),
    Different(String),
}

/// Holds the outputs of a launch against the line of the file.
pub fn compare(
    ours: &str,
    theirs: Option<&str>,
    exactness: Exactness,
    outputs: &[Output],
) -> Verdict {
    let Some(theirs) = theirs else {
        return Verdict::Different("no answer is recorded".to_owned());
    };
    if ours == theirs {
        return Verdict::Same;
    }
    let (_, Some(hex)) = split(theirs) else {
        return Verdict::Different("other bits".to_owned());
    };
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let mut start = 0;
    let mut worst = 0.0_f64;
    for output in outputs {
        let Some(theirs) = bytes.get(start..start + output.bytes.len()) else {
            return Verdict::Different("another number of bytes".to_owned());
        };
        start += output.bytes.len();
        let size = output.ty.bytes();
        for (index, (a, b)) in output.bytes.chunks(size).zip(theirs.chunks(size)).enumerate() {
            let (a, b) = (number(output.ty, a), number(output.ty, b));
            let part = distance(output.ty, exactness, a, b);
            if part > 1.0 {
                return Verdict::Different(format!("element {index}: {a:e} here, {b:e} there"));
            }
            worst = worst.max(part);
        }
    }
    Verdict::Close(worst)
}

fn split(line: &str) -> (Option<&str>, Option<&str>) {
    let mut words = line.split(' ').skip(1);
    (words.next(), words.next())
}

fn number(ty: Scalar, bytes: &[u8]) -> f64 {
    let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    ty.decode(bits)
}

/// The difference of two numbers as a part of the largest allowed one: a few units in the last
/// place, which is what the bounds of the approximate instructions come to in these kernels. Of a
/// sine and a logarithm the bound is absolute, so below 1/2 that of 1/2 holds.
fn distance(ty: Scalar, exactness: Exactness, a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        return 0.0;
    }
    let unit = match ty {
        Scalar::F64 if exactness == Exactness::Double => 2_f64.powi(-51),
        Scalar::F64 | Scalar::F32 => 2_f64.powi(-22),
        Scalar::F16 => 2_f64.powi(-10),
        Scalar::Bf16 => 2_f64.powi(-7),
        _ => return f64::INFINITY,
    };
    let part = (a - b).abs() / (4.0 * unit * a.abs().max(b.abs()).max(0.5));
    if part.is_nan() { f64::INFINITY } else { part }
}
