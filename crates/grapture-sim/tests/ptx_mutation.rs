//! Damaged text must be refused or accepted, never panic.

#[path = "ptx/support.rs"]
mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// How much is damaged: a fixed number of rounds from a fixed seed, or as long as
/// `GRAPTURE_FUZZ_SECONDS` says, from a seed that differs from run to run.
fn rounds() -> (u64, impl Iterator<Item = usize>) {
    let seconds = std::env::var("GRAPTURE_FUZZ_SECONDS").ok().map(|text| text.parse().unwrap());
    let seed = match seconds {
        None => 99,
        Some(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let goes_on = move |round: &usize| match end {
        None => *round < 1500,
        Some(end) => Instant::now() < end,
    };
    (seed | 1, (0..).take_while(goes_on))
}

/// Whether a text is accepted; a refusal says why.
fn compiles(text: &str) -> bool {
    match Module::compile(text) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.message.is_empty());
            false
        }
    }
}

#[test]
fn damaged_text_never_panics() {
    let (seed, rounds) = rounds();
    let mut next = random(seed);
    let mut pick = |limit: usize| (next() % limit.max(1) as u64) as usize;
    let (mut accepted, mut refused) = (0, 0);
    for round in rounds {
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
        match compiles(&String::from_utf8_lossy(&bytes)) {
            true => accepted += 1,
            false => refused += 1,
        }
    }
    assert!(accepted > 50 && refused > 500, "{accepted} accepted, {refused} refused");
}

/// The words of a text, and what stands between them.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._%$".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| is_word(c) == is_word(first) && is_word(first);
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[test]
fn words_in_wrong_places_never_panic() {
    let words: Vec<&str> = TEXTS.iter().flat_map(|text| tokens(text)).collect();
    let (seed, rounds) = rounds();
    let mut next = random(seed);
    let mut pick = |limit: usize| (next() % limit.max(1) as u64) as usize;
    let (mut accepted, mut refused) = (0, 0);
    for round in rounds {
        let mut text = tokens(TEXTS[round % TEXTS.len()]);
        for _ in 0..=pick(3) {
            let at = pick(text.len());
            match pick(4) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, words[pick(words.len())]),
                2 => {
                    let other = pick(text.len());
                    text.swap(at, other);
                }
                _ => text[at] = words[pick(words.len())],
            }
        }
        match compiles(&text.concat()) {
            true => accepted += 1,
            false => refused += 1,
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
