//! What differs between the answers of a driver and the record.

use std::fmt::Write;

use crate::answers::{HASHED, Known, KnownRows, Record, hash_of_inputs, hashes};
use crate::form::Form;
use crate::inputs;
use crate::machine::{Answer, Results};

/// Rows that are shown of one form.
const SHOWN: usize = 4;

/// Demands that every answer is the one recorded.
pub fn all(record: &Record, forms: &[Form], answers: &[Answer]) {
    let different: Vec<String> = forms
        .iter()
        .zip(answers)
        .filter_map(|(form, answer)| difference(record, form, answer))
        .collect();
    let count = different.len();
    assert!(count == 0, "{count} of {} forms differ:\n{}", forms.len(), different.join("\n"));
}

fn difference(record: &Record, form: &Form, answer: &Answer) -> Option<String> {
    match (record.get(form), answer) {
        (None, Answer::Refused(code)) => {
            Some(format!("{}: refused with {code}, not recorded", form.name))
        }
        (None, _) => Some(format!("{}: not recorded", form.name)),
        (Some(Known::Refused(known)), Answer::Refused(code)) if known == code => None,
        (Some(Known::Refused(known)), Answer::Refused(code)) => {
            Some(format!("{}: refused with {code}, the GPU with {known}", form.name))
        }
        (Some(Known::Refused(known)), _) => {
            Some(format!("{}: accepted, refused by the GPU with {known}", form.name))
        }
        (Some(Known::Rows(_)), Answer::Refused(code)) => {
            Some(format!("{}: refused with {code}, accepted by the GPU", form.name))
        }
        (Some(Known::Rows(known)), Answer::Rows(rows)) => different_rows(form, known, rows),
    }
}

fn different_rows(form: &Form, known: &KnownRows, rows: &[Results]) -> Option<String> {
    if known.inputs != hash_of_inputs(form) {
        return Some(format!("{}: recorded with other inputs", form.name));
    }
    let inputs = inputs::rows(form);
    let mut text = String::new();
    let mut count = 0;
    for (at, (got, want)) in rows.iter().zip(&known.kept).enumerate() {
        if form.bound.is_none_or(|bound| !bound.holds(form, &inputs[at], got[0], want[0]))
            && got != want
        {
            count += 1;
            if count <= SHOWN {
                let (values, outputs) = (form.inputs.len(), form.outputs.len());
                let (inputs, got, want) =
                    (&inputs[at][..values], &got[..outputs], &want[..outputs]);
                write!(text, "\n    {inputs:#x?}: {got:#x?}, the GPU gave {want:#x?}").unwrap();
            }
        }
    }
    let kept = known.kept.len();
    for (at, (got, want)) in hashes(&rows[kept..]).iter().zip(&known.hashes).enumerate() {
        if got != want {
            let from = kept + at * HASHED;
            count += 1;
            write!(text, "\n    one of the rows {from}..{} differs", from + HASHED).unwrap();
        }
    }
    (count > 0).then(|| format!("{}: {count} rows{text}", form.name))
}
