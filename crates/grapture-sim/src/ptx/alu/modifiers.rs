//! The dotted words of an instruction, ticked off as they are understood.

use super::softfloat::Rounding;
use crate::ptx::types::Type;

/// The dotted words of an instruction.
#[derive(Debug)]
pub struct Modifiers<'a> {
    words: Vec<(&'a str, bool)>,
}

impl<'a> Modifiers<'a> {
    /// All words still to be understood.
    pub fn new(words: &[&'a str]) -> Self {
        Self { words: words.iter().map(|word| (*word, false)).collect() }
    }

    /// Whether the word is there; it counts as understood.
    pub fn flag(&mut self, wanted: &str) -> bool {
        self.find(|word| (word == wanted).then_some(())).is_some()
    }

    /// Whether the word is there; it stays to be understood.
    pub fn contains(&self, wanted: &str) -> bool {
        self.words.iter().any(|(word, used)| !used && *word == wanted)
    }

    /// The first word not yet understood that `pick` knows.
    pub fn find<T>(&mut self, pick: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        for (word, used) in &mut self.words {
            if *used {
                continue;
            }
            if let Some(found) = pick(word) {
                *used = true;
                return Some(found);
            }
        }
        None
    }

    /// The first of the words that is there.
    pub fn one_of(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        self.find(|word| wanted.iter().copied().find(|want| *want == word))
    }

    /// Ticks off every word that is accepted and changes nothing.
    pub fn ignore(&mut self, accepts: impl Fn(&str) -> bool) {
        for (word, used) in &mut self.words {
            *used |= accepts(word);
        }
    }

    /// The next type.
    ///
    /// # Errors
    /// When no type is left.
    pub fn ty(&mut self) -> Result<Type, String> {
        self.find(Type::parse).ok_or_else(|| "a type is missing".to_owned())
    }

    /// The last type named, left where it is.
    pub fn last_type(&self) -> Option<Type> {
        self.words.iter().rev().filter(|(_, used)| !used).find_map(|(word, _)| Type::parse(word))
    }

    /// The rounding of a floating-point result.
    pub fn rounding(&mut self) -> Option<Rounding> {
        self.find(|word| {
            Some(match word {
                "rn" => Rounding::Nearest,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                "rna" => Rounding::NearestAway,
                _ => return None,
            })
        })
    }

    /// The rounding to an integer.
    pub fn integer_rounding(&mut self) -> Option<Rounding> {
        self.find(|word| {
            Some(match word {
                "rni" => Rounding::Nearest,
                "rzi" => Rounding::Zero,
                "rmi" => Rounding::Down,
                "rpi" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// The first word that nobody understood.
    pub fn left_over(&self) -> Option<&'a str> {
        self.words.iter().find(|(_, used)| !used).map(|(word, _)| *word)
    }
}
