//! docs/simulator.md says what is not modelled: neither more nor less than the driver lacks.

use std::collections::BTreeSet;

use grapture_sim::{SimConfig, Simulation};

const TEXT: &str = include_str!("../../../docs/simulator.md");

#[test]
fn the_functions_without_a_model_are_those_that_the_text_names() {
    let driver = Simulation::new(SimConfig::default()).driver();
    let missing: BTreeSet<&str> =
        driver.missing().iter().map(|function| function.info().symbol).collect();
    let (_, section) = TEXT.split_once("## Functions without a model\n").expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let named: BTreeSet<&str> =
        section.split('`').skip(1).step_by(2).filter(|word| word.starts_with("cu")).collect();
    assert_eq!(named, missing);
}
