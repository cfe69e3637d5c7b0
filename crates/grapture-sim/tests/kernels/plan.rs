//! What each kernel is launched with, as `candle.txt` and `fixtures.txt` say.

use std::collections::HashMap;

use crate::data::{Filling, Quant, Scalar};

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub struct Case {
    /// The kernel's name and the number of the line that fits it, counted among those that do.
    pub name: String,
    pub kernel: String,
    /// Whether all blocks run at once.
    pub cooperative: bool,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub arguments: Vec<Argument>,
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A number: its bits and size.
    Number(u64, usize),
    Info(Vec<u64>),
    Input(Scalar, usize, Filling),
    Blocks(Quant, usize),
    Bytes(usize),
    Output(Scalar, usize, Filling),
}

/// What a name says.
#[derive(Clone, Debug, Default)]
struct Captures {
    scalars: HashMap<char, Scalar>,
    quant: Option<Quant>,
}

/// All launches of a kernel, of those that a plan has.
pub fn cases(plan: &str, kernel: &str) -> Vec<Case> {
    let lines = plan.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut cases: Vec<Case> = Vec::new();
    let mut first = None;
    for line in lines {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [pattern, grid, block, shared, arguments] = fields[..] else {
            panic!("five fields are needed: {line}");
        };
        let Some(captures) = fit(pattern, kernel, Captures::default()) else { continue };
        // What names a kernel more closely stands before what names many.
        if *first.get_or_insert(pattern) != pattern {
            break;
        }
        cases.push(Case {
            name: format!("{kernel}#{}", cases.len()),
            kernel: kernel.to_owned(),
            cooperative: grid.starts_with("coop"),
            grid: measures(grid.trim_start_matches("coop")),
            block: measures(block),
            shared: shared.parse().unwrap(),
            arguments: arguments.split(',').map(|text| argument(text, &captures)).collect(),
        });
    }
    cases
}

fn measures(text: &str) -> [u32; 3] {
    let mut all = [1; 3];
    for (axis, number) in all.iter_mut().zip(text.split_whitespace()) {
        *axis = number.parse().unwrap();
    }
    all
}

/// What stands for what, where the name fits the pattern.
fn fit(pattern: &str, name: &str, captures: Captures) -> Option<Captures> {
    let Some(first) = pattern.chars().next() else {
        return name.is_empty().then_some(captures);
    };
    match first {
        '*' => (0..=name.len())
            .find_map(|skip| fit(&pattern[1..], name.get(skip..)?, captures.clone())),
        '[' => {
            let (class, rest) = pattern[1..].split_once(']')?;
            let letter = name.chars().next()?;
            contains(class, letter).then(|| fit(rest, &name[1..], captures))?
        }
        '{' => {
            let (slot, rest) = pattern[1..].split_once('}')?;
            let slot = slot.chars().next()?;
            if slot == 'Q' {
                let (quant, left) = Quant::prefix(name)?;
                return fit(rest, left, Captures { quant: Some(quant), ..captures });
            }
            Scalar::prefixes(name).find_map(|(ty, left)| {
                let mut captures = captures.clone();
                captures.scalars.insert(slot, ty);
                fit(rest, left, captures)
            })
        }
        _ => fit(&pattern[1..], name.strip_prefix(first)?, captures),
    }
    .map(|found| with_quant(found, name))
}

/// A name whose pattern spells its type out still names it.
fn with_quant(mut captures: Captures, name: &str) -> Captures {
    if captures.quant.is_none() {
        captures.quant = Quant::prefix(name).map(|(quant, _)| quant);
    }
    captures
}

fn contains(class: &str, letter: char) -> bool {
    match class.as_bytes() {
        [from, b'-', to, rest @ ..] => {
            (*from..=*to).contains(&(letter as u8)) || rest.contains(&(letter as u8))
        }
        letters => letters.contains(&(letter as u8)),
    }
}

fn argument(text: &str, captures: &Captures) -> Argument {
    let words: Vec<&str> = text.split_whitespace().collect();
    let scalar = |word: &str| {
        let slot = word.chars().next().filter(|_| word.len() == 1);
        slot.and_then(|slot| captures.scalars.get(&slot).copied())
            .or_else(|| Scalar::named(word))
            .unwrap_or_else(|| panic!("no type '{word}' in '{text}'"))
    };
    let quant = |word: &str| {
        let named = Quant::prefix(word).map(|(quant, _)| quant);
        named.or(captures.quant).unwrap_or_else(|| panic!("no blocks '{word}' in '{text}'"))
    };
    let number = |index: usize| words[index].parse::<usize>().unwrap();
    let filled = |how| Argument::Input(scalar(words[1]), number(2), how);
    match words[0] {
        "null" => Argument::Number(0, 8),
        "info" => Argument::Info(words[1..].iter().map(|word| word.parse().unwrap()).collect()),
        "in" => filled(Filling::Moderate),
        "wild" => filled(Filling::Wild),
        "ints" => filled(Filling::Whole),
        "spread" => filled(Filling::Spread),
        "bytes" => Argument::Bytes(number(1)),
        "bits" => filled(Filling::Bits),
        "index" => filled(Filling::Below(number(3) as u64)),
        "ids" => filled(Filling::BelowOrNone(number(3) as u64)),
        "out" => Argument::Output(scalar(words[1]), number(2), Filling::Zero),
        "io" => Argument::Output(scalar(words[1]), number(2), Filling::Moderate),
        "q" => Argument::Blocks(quant(words[1]), number(2)),
        "qbytes" => Argument::Number(quant(words[1]).size(number(2)) as u64, 8),
        "val" => Argument::Number(
            scalar(words[1]).encode(words[2].parse().unwrap()),
            scalar(words[1]).bytes(),
        ),
        "f32" => Argument::Number(u64::from(words[1].parse::<f32>().unwrap().to_bits()), 4),
        "f64" => Argument::Number(words[1].parse::<f64>().unwrap().to_bits(), 8),
        ty => Argument::Number(number(1) as u64, scalar(ty).bytes()),
    }
}
