//! The kernels of the crate candle-kernels, none of which is in this repository:
//! `cargo xtask candle` fetches and compiles them, and runs these tests with the folder of the PTX
//! in `GRAPTURE_CANDLE_PTX`. Without it they are ignored, and the runner says so.
//!
//! What the kernels must compute is what an H200 computed.

mod data;
mod golden;
mod launch;
mod plan;

use std::path::PathBuf;

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::Driver;

use golden::Verdict;
use launch::Loaded;

/// The entry points of the crate.
const KERNELS: usize = 948;

/// The PTX of one source, or of all in one.
fn ptx(name: &str) -> String {
    let folder = std::env::var_os("GRAPTURE_CANDLE_PTX").map(PathBuf::from);
    let folder = folder.expect("GRAPTURE_CANDLE_PTX names the folder with the PTX");
    std::fs::read_to_string(folder.join(name).with_extension("ptx")).expect("the PTX of a source")
}

/// The names of the kernels, in order.
fn kernels(text: &str) -> Vec<&str> {
    let entries = text.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
    entries.map(|rest| rest.trim_end_matches(['(', ')'])).collect()
}

/// Whether a function, or one that it calls, uses an instruction whose result is not exact.
fn is_approximate(text: &str, function: &str) -> bool {
    let heading = |line: &str| {
        let declares = line.starts_with(".visible .entry") || line.starts_with(".func");
        declares && line.split([' ', '(', ')']).any(|word| word == function)
    };
    let body: Vec<&str> =
        text.lines().skip_while(|line| !heading(line)).take_while(|line| *line != "}").collect();
    let is_call = |line: &&str| line.trim_start().starts_with("call");
    body.iter().any(|line| line.contains(".approx") || line.contains(".full"))
        || body.iter().zip(body.iter().skip(1)).any(|(line, next)| {
            is_call(line)
                && [*line, *next].iter().any(|line| {
                    let words = line.split([' ', ',', '(', ')', '\t']);
                    words.filter(|word| word.starts_with("__internal")).any(|callee| {
                        callee != function && is_approximate(text, callee)
                    })
                })
        })
}

/// Runs all kernels of a source on the simulated driver.
fn simulated(source: &str) {
    let simulation = Simulation::new(SimConfig::default());
    let text = ptx(source);
    let loaded = Loaded::new(simulation.driver(), &text);
    let answers = golden::answers();
    let (mut same, mut close, mut worst, mut wrong) = (0, 0, 0.0_f64, Vec::new());
    for kernel in kernels(&text) {
        let approximate = is_approximate(&text, kernel);
        let cases = plan::cases(kernel);
        assert!(!cases.is_empty(), "the plan says nothing of {kernel}");
        for case in cases {
            let outputs = loaded.run(&case);
            let line = golden::line(&case.name, approximate, &outputs);
            match golden::compare(&line, answers.get(case.name.as_str()).copied(), &outputs) {
                Verdict::Same => same += 1,
                Verdict::Close(part) => (close, worst) = (close + 1, worst.max(part)),
                Verdict::Different(why) => wrong.push(format!("{}: {why}", case.name)),
            }
        }
    }
    println!("{source}: {same} launches give the same bits, {close} differ by at most {worst:.3} of the bound");
    assert!(wrong.is_empty(), "{} launches differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs all kernels of a source on the driver of the system, and writes what it answers beside
/// where the tests run.
fn real(source: &str) {
    let driver = Driver::load().expect("a driver");
    let text = ptx(source);
    let loaded = Loaded::new(driver, &text);
    let mut lines = String::new();
    for kernel in kernels(&text) {
        let approximate = is_approximate(&text, kernel);
        for case in plan::cases(kernel) {
            let outputs = loaded.run(&case);
            lines.push_str(&golden::line(&case.name, approximate, &outputs));
            lines.push('\n');
        }
    }
    std::fs::write(format!("candle-{source}.txt"), lines).expect("the answers");
}

macro_rules! sources {
    ($($source:ident),+) => {
        /// The files of PTX.
        const SOURCES: &[&str] = &[$(stringify!($source)),+];

        mod sim_tier {
            $(
                #[test]
                #[ignore = "needs the PTX that `cargo xtask candle` makes"]
                fn $source() {
                    super::simulated(stringify!($source));
                }
            )+
        }

        mod gpu_tier {
            $(
                #[test]
                #[ignore = "needs the PTX that `cargo xtask candle` makes"]
                fn $source() {
                    super::real(stringify!($source));
                }
            )+
        }
    };
}

sources!(
    affine, binary, cast, conv, fill, indexing, mmvq_gguf, quantized, reduce, sort, ternary, unary
);

#[test]
#[ignore = "needs the PTX that `cargo xtask candle` makes"]
fn sim_every_entry_point_is_loaded_and_run() {
    let mut count = 0;
    for source in SOURCES {
        let text = ptx(source);
        let module = grapture_sim::ptx::Module::compile(&text).unwrap();
        let names: Vec<&str> = module.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, kernels(&text));
        let answers = golden::answers();
        for name in names {
            let case = format!("{name}#0");
            assert!(answers.contains_key(case.as_str()), "no answer of an H200 for {case}");
        }
        count += kernels(&text).len();
    }
    assert_eq!(count, KERNELS);
}
