//! Damaged text must be refused or accepted, never panic.

#[path = "ptx/support.rs"]
mod support;

use grapture_sim::ptx::Module;
use support::random;

const TEXTS: [&str; 9] = [
    include_str!("ptx/saxpy.ptx"),
    include_str!("ptx/reduce.ptx"),
    include_str!("ptx/diverge.ptx"),
    include_str!("ptx/histogram.ptx"),
    include_str!("ptx/integer.ptx"),
    include_str!("ptx/floating.ptx"),
    include_str!("ptx/functions.ptx"),
    include_str!("ptx/globals.ptx"),
    include_str!("ptx/warp.ptx"),
];

#[test]
fn damaged_text_never_panics() {
    let mut next = random(99);
    let mut pick = |limit: usize| (next() % limit.max(1) as u64) as usize;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..1500 {
        let text = TEXTS[round % TEXTS.len()];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=pick(3) {
            let at = pick(bytes.len());
            match pick(5) {
                0 => drop(bytes.remove(at)),
                1 => bytes[at] = b" .,;:%{}()[]<>+-@!|0129afxXrpu_$\n\"/*"[pick(36)],
                2 => {
                    let end = (at + pick(60)).min(bytes.len());
                    bytes.drain(at..end);
                }
                3 => {
                    let end = bytes[at..]
                        .iter()
                        .position(|b| *b == b'\n')
                        .map_or(bytes.len(), |n| at + n);
                    let start = bytes[..at].iter().rposition(|b| *b == b'\n').unwrap_or(0);
                    bytes.drain(start..end);
                }
                _ => {
                    let from = pick(bytes.len());
                    let piece = bytes[from..(from + pick(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        match Module::compile(&String::from_utf8_lossy(&bytes)) {
            Ok(_) => accepted += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.message.is_empty());
            }
        }
    }
    assert!(accepted > 50 && refused > 500, "{accepted} accepted, {refused} refused");
}

#[test]
fn text_cut_anywhere_never_panics() {
    for text in TEXTS {
        for end in (0..text.len()).step_by(97) {
            let _ = Module::compile(&text[..end]);
        }
        assert!(Module::compile(text).is_ok());
    }
}
