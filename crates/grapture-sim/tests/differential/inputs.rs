//! The inputs of a form: its edges against each other, and repeatable random ones.

use crate::form::Form;
use crate::value::Value;

/// Threads of a block.
pub const BLOCK: usize = 128;
/// How often a form is tried.
pub const ROWS: usize = 512;
/// Words of a row.
pub const WIDTH: usize = 6;

/// The operands of one thread.
pub type Row = [u64; WIDTH];

/// The rows of a form. They depend on its name and operands alone.
pub fn rows(form: &Form) -> Vec<Row> {
    let mut next = random(hash(form.name.bytes()));
    let edges: Vec<Vec<u64>> = form.inputs.iter().map(|value| value.edges()).collect();
    let mut rows = crossed(&edges, &mut next);
    if form.inputs.len() > 1 {
        let specials: Vec<Vec<u64>> = form.inputs.iter().map(|value| value.specials()).collect();
        rows.extend((0..ROWS / 8).map(|_| row_of(&specials, &mut next)));
    }
    while rows.len() < ROWS {
        let shape = next();
        let mut row = Row::default();
        for (at, value) in form.inputs.iter().enumerate() {
            let edge = shape >> (at + 8) & 1 != 0;
            row[at] = if edge { pick(&edges[at], &mut next) } else { value.random(&mut next) };
        }
        if shape & 7 == 0 && form.inputs.len() > 1 && form.inputs[0] == form.inputs[1] {
            row[1] = related(form.inputs[0], row[0], shape >> 16);
        }
        rows.push(row);
    }
    shuffle(&mut rows, &mut next);
    rows.truncate(ROWS);
    rows
}

/// All edges of one operand, and pairs of edges of two or more.
fn crossed(edges: &[Vec<u64>], next: &mut impl FnMut() -> u64) -> Vec<Row> {
    let [first, others @ ..] = edges else { return Vec::new() };
    let mut rows = Vec::new();
    let count = if others.is_empty() { first.len() } else { ROWS / 2 };
    for at in 0..count {
        let mut row = Row::default();
        row[0] = first[at % first.len()];
        for (word, edges) in row[1..].iter_mut().zip(others) {
            *word = pick(edges, next);
        }
        rows.push(row);
    }
    rows
}

/// One of each list.
fn row_of(lists: &[Vec<u64>], next: &mut impl FnMut() -> u64) -> Row {
    let mut row = Row::default();
    for (word, list) in row.iter_mut().zip(lists) {
        *word = pick(list, next);
    }
    row
}

/// A second operand that cancels the first, equals it or lies next to it.
fn related(value: Value, other: u64, shape: u64) -> u64 {
    let sign = 1 << (value.bits() - 1);
    let mask = u64::MAX >> (64 - value.bits());
    match shape & 3 {
        0 => other,
        1 => other ^ sign,
        2 => (other ^ sign).wrapping_add(1) & mask,
        _ => other.wrapping_neg() & mask,
    }
}

fn pick(from: &[u64], next: &mut impl FnMut() -> u64) -> u64 {
    from[(next() >> 33) as usize % from.len()]
}

fn shuffle(rows: &mut [Row], next: &mut impl FnMut() -> u64) {
    for at in (1..rows.len()).rev() {
        rows.swap(at, (next() >> 33) as usize % (at + 1));
    }
}

/// A repeatable stream of bits.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// FNV-1a, which stays the same for good.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
