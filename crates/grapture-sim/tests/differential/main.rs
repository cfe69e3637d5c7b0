//! Every form of every instruction on the simulated driver, against what an H200 gave for the same
//! PTX and the same inputs.
//!
//! `gpu_answers_are_those_recorded` runs all forms on the driver of the system; with
//! `GRAPTURE_BLESS=1` it writes what that gave to `answers.bin`, or to the file that
//! `GRAPTURE_ANSWERS` names. The tests of the simulated driver compare with that record.

mod answers;
mod compare;
mod form;
mod forms;
mod inputs;
mod kernel;
mod machine;
mod ulps;
mod value;

use std::path::PathBuf;

use answers::Record;
use form::Form;
use machine::Machine;

fn record() -> Record {
    Record::parse(include_bytes!("answers.bin"))
}

/// Compares the simulated driver's results for a family of forms with the record.
fn simulated(forms: &[Form]) {
    let machine = Machine::simulated();
    let record = record();
    compare::all(&record, forms, &machine.run(forms, &record));
    machine.close();
}

macro_rules! families {
    ($($name:ident: $forms:path),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                simulated(&form::collect($forms));
            }
        )+

        /// The forms of all families.
        fn every_form() -> Vec<Form> {
            [$(form::collect($forms)),+].concat()
        }
    };
}

families! {
    sim_integer_arithmetic_is_exact: forms::integer::forms,
    sim_carries_are_exact: forms::carry::forms,
    sim_bits_are_exact: forms::bits::forms,
    sim_comparisons_are_exact: forms::comparison::forms,
    sim_single_and_double_precision_are_exact: forms::float::forms,
    sim_half_precision_is_exact: forms::half::forms,
    sim_conversions_of_integers_are_exact: forms::convert_integer::forms,
    sim_conversions_of_numbers_are_exact: forms::convert_float::forms,
    sim_approximations_keep_their_bounds: forms::approximate::forms,
    sim_moves_are_exact: forms::moves::forms,
    sim_loads_and_stores_are_exact: forms::memory::forms,
    sim_atomics_are_exact: forms::atomics::forms,
    sim_lanes_exchange_exactly: forms::warp::forms,
}

#[test]
fn gpu_answers_are_those_recorded() {
    let forms = every_form();
    let machine = Machine::real();
    let record = record();
    let results = machine.run(&forms, &record);
    machine.close();
    if std::env::var_os("GRAPTURE_BLESS").is_none() {
        return compare::all(&record, &forms, &results);
    }
    let file = std::env::var_os("GRAPTURE_ANSWERS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/answers.bin")),
        PathBuf::from,
    );
    std::fs::write(&file, Record::of(&forms, &results).to_bytes()).unwrap();
}

#[test]
#[ignore]
fn dump() {
    let dir = std::env::var("DUMP").unwrap();
    for (at, form) in every_form().iter().enumerate() {
        std::fs::write(
            format!("{dir}/{at}.ptx"),
            format!("{}// {}\n", kernel::module(std::slice::from_ref(form)), form.name),
        )
        .unwrap();
    }
}

#[test]
#[ignore]
fn bootstrap() {
    let text = std::fs::read_to_string("/tmp/ptxcheck.tsv").unwrap();
    let refused: std::collections::HashSet<&str> = text
        .lines()
        .map(|l| l.split('\t').collect::<Vec<_>>())
        .filter(|p| p[2] != "0")
        .map(|p| p[1])
        .collect();
    let forms: Vec<Form> =
        every_form().into_iter().filter(|f| refused.contains(f.name.as_str())).collect();
    let answers: Vec<_> = forms.iter().map(|_| machine::Answer::Refused(218)).collect();
    std::fs::write("tests/differential/answers.bin", Record::of(&forms, &answers).to_bytes())
        .unwrap();
}

#[test]
#[ignore]
fn dump_inputs() {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::fs::File::create("/tmp/inputs.tsv").unwrap());
    let rec = record();
    for form in every_form() {
        if matches!(rec.get(&form), Some(answers::Known::Refused(_))) {
            continue;
        }
        write!(out, "{}", form.name).unwrap();
        for row in inputs::rows(&form) {
            write!(
                out,
                "\t{}",
                row[..form.inputs.len()]
                    .iter()
                    .map(|v| format!("{v:x}"))
                    .collect::<Vec<_>>()
                    .join(",")
            )
            .unwrap();
        }
        writeln!(out).unwrap();
    }
}
