//! [`Record`]: what a GPU answered, in a compact file.
//!
//! Of each form the first rows are kept whole, and the others as a hash of every few, so that a
//! difference is found among them too, if not what the GPU gave.

use std::collections::HashMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::form::{Form, OUTPUTS};
use crate::inputs::{self, ROWS};
use crate::machine::{Answer, Results};

/// Rows that are kept whole. Of an approximation all are, which may differ.
const KEPT: usize = 128;
/// Rows that share a hash.
pub const HASHED: usize = 64;

/// What a GPU made of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It does not load, with this code.
    Refused(u32),
    /// Its results.
    Rows(KnownRows),
}

/// The results of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRows {
    /// A hash of the inputs.
    pub inputs: u64,
    /// The first results.
    pub kept: Vec<Results>,
    /// A hash of every few results after them.
    pub hashes: Vec<u32>,
}

/// What a GPU made of every form, by name.
#[derive(Debug, Default)]
pub struct Record {
    known: HashMap<String, Known>,
    names: Vec<String>,
    widths: HashMap<String, Vec<usize>>,
}

/// The hash of a form's inputs.
pub fn hash_of_inputs(form: &Form) -> u64 {
    let words = inputs::rows(form).into_iter().flatten();
    inputs::hash(words.flat_map(u64::to_le_bytes).chain(form.body.bytes()))
}

/// The hashes of rows that are not kept.
pub fn hashes(rows: &[Results]) -> Vec<u32> {
    let hash = |rows: &[Results]| {
        inputs::hash(rows.iter().flatten().flat_map(|word| word.to_le_bytes())) as u32
    };
    rows.chunks(HASHED).map(hash).collect()
}

impl Record {
    /// The record of answers.
    pub fn of(forms: &[Form], answers: &[Answer]) -> Self {
        let mut record = Self::default();
        for (form, answer) in forms.iter().zip(answers) {
            let known = match answer {
                Answer::Refused(code) => Known::Refused(*code),
                Answer::Rows(rows) => {
                    let kept = if form.bound.is_some() { ROWS } else { KEPT };
                    let (kept, others) = rows.split_at(kept);
                    Known::Rows(KnownRows {
                        inputs: hash_of_inputs(form),
                        kept: kept.to_vec(),
                        hashes: hashes(others),
                    })
                }
            };
            let widths = form.outputs.iter().map(|value| value.bytes()).collect();
            record.widths.insert(form.name.clone(), widths);
            record.names.push(form.name.clone());
            assert!(record.known.insert(form.name.clone(), known).is_none(), "two '{}'", form.name);
        }
        record
    }

    /// What is known of a form.
    pub fn get(&self, form: &Form) -> Option<&Known> {
        self.known.get(&form.name)
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in &self.names {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            match &self.known[name] {
                Known::Refused(code) => bytes.extend((*code as u16).to_le_bytes()),
                Known::Rows(rows) => write_rows(&mut bytes, rows, &self.widths[name]),
            }
        }
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The record in the bytes of a file.
    pub fn parse(file: &[u8]) -> Self {
        let mut bytes = Vec::new();
        DeflateDecoder::new(file).read_to_end(&mut bytes).unwrap();
        let mut record = Self::default();
        let mut reader = Reader(&bytes);
        while !reader.0.is_empty() {
            let length = reader.number(1) as usize;
            let name = String::from_utf8(reader.take(length).to_vec()).unwrap();
            let known = match reader.number(2) as u32 {
                0 => Known::Rows(reader.rows()),
                code => Known::Refused(code),
            };
            record.known.insert(name, known);
        }
        record
    }
}

/// The widths of the results, then each of their bytes for all rows: equal bytes lie together.
fn write_rows(bytes: &mut Vec<u8>, rows: &KnownRows, widths: &[usize]) {
    bytes.extend([0, 0]);
    bytes.push(widths.len() as u8);
    bytes.extend(widths.iter().map(|width| *width as u8));
    bytes.extend(rows.inputs.to_le_bytes());
    bytes.extend((rows.kept.len() as u16).to_le_bytes());
    bytes.extend(rows.hashes.iter().flat_map(|hash| hash.to_le_bytes()));
    for (column, width) in widths.iter().enumerate() {
        for byte in 0..*width {
            bytes.extend(rows.kept.iter().map(|row| (row[column] >> (8 * byte)) as u8));
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn rows(&mut self) -> KnownRows {
        let columns = self.number(1) as usize;
        let widths = self.take(columns);
        let inputs = self.number(8);
        let count = self.number(2) as usize;
        let hashes = (0..(ROWS - count) / HASHED).map(|_| self.number(4) as u32).collect();
        let mut kept = vec![[0; OUTPUTS.len()]; count];
        for (column, width) in widths.iter().enumerate() {
            for byte in 0..*width {
                for (row, value) in kept.iter_mut().zip(self.take(count)) {
                    row[column] |= u64::from(*value) << (8 * byte);
                }
            }
        }
        KnownRows { inputs, kept, hashes }
    }
}
