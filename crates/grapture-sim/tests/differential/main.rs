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
    sim_products_are_fused_as_the_driver_does: forms::contract::forms,
    sim_constants_are_folded_as_the_driver_does: forms::constant::forms,
    sim_conversions_of_integers_are_exact: forms::convert_integer::forms,
    sim_conversions_of_numbers_are_exact: forms::convert_float::forms,
    sim_approximations_keep_their_bounds: forms::approximate::forms,
    sim_moves_are_exact: forms::moves::forms,
    sim_loads_and_stores_are_exact: forms::memory::forms,
    sim_atomics_are_exact: forms::atomics::forms,
    sim_lanes_exchange_exactly: forms::warp::forms,
    sim_many_operands_are_exact: forms::volume::forms,
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
