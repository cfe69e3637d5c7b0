//! Kernels that nvcc compiled, whose every output is held against what an H200 computed with
//! driver 13.0: those of the fixtures here, and all of the crate candle-kernels.
//!
//! Nothing of candle-kernels is in this repository: `cargo xtask candle` fetches and compiles it,
//! and runs its tests with the folder of the PTX in `GRAPTURE_CANDLE_PTX`. Without that they are
//! ignored, and the runner says so.
//!
//! With `GRAPTURE_BLESS=1`, tests write what they computed as `kernels-affine.txt` and the like. Those
//! of the GPU, one behind the other, are the files here.

mod data;
mod golden;
mod images;
mod launch;
mod plan;

use std::path::PathBuf;

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::Driver;

use golden::{Exactness, Verdict};
use launch::Loaded;

/// The entry points of candle-kernels.
const CANDLE_KERNELS: usize = 948;

/// Where kernels come from.
struct Source {
    name: &'static str,
    text: String,
    /// What they are launched with.
    plan: &'static str,
    /// What an H200 answered.
    answers: &'static str,
}

/// A source of candle-kernels.
fn candle(name: &'static str) -> Source {
    let folder = std::env::var_os("GRAPTURE_CANDLE_PTX").map(PathBuf::from);
    let folder = folder.expect("GRAPTURE_CANDLE_PTX names the folder with the PTX");
    let path = folder.join(name).with_extension("ptx");
    Source {
        name,
        text: std::fs::read_to_string(path).expect("the PTX of a source"),
        plan: include_str!("candle.txt"),
        answers: include_str!("candle-h200-13.0.txt"),
    }
}

/// A fixture.
fn fixture(name: &'static str, text: &str) -> Source {
    Source {
        name,
        text: text.to_owned(),
        plan: include_str!("fixtures.txt"),
        answers: include_str!("fixtures-h200-13.0.txt"),
    }
}

/// The names of the kernels, in order.
fn kernels(text: &str) -> Vec<&str> {
    let entries = text.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
    entries.map(|rest| rest.trim_end_matches(['(', ')'])).collect()
}

/// How exact a function, with those that it calls, is.
fn exactness(text: &str, function: &str) -> Exactness {
    let heading = |line: &str| {
        let declares = line.starts_with(".visible .entry") || line.starts_with(".func");
        declares && line.split([' ', '(', ')']).any(|word| word == function)
    };
    let body: Vec<&str> =
        text.lines().skip_while(|line| !heading(line)).take_while(|line| *line != "}").collect();
    let of_line = |line: &&str| match (line.contains(".approx") || line.contains(".full"), line) {
        (false, _) => Exactness::Exact,
        (true, line) if line.contains(".f64") => Exactness::Double,
        _ => Exactness::Single,
    };
    let own = body.iter().map(of_line).max().unwrap_or(Exactness::Exact);
    let calls = body.iter().zip(body.iter().skip(1));
    let calls = calls.filter(|(line, _)| line.trim_start().starts_with("call"));
    let names = calls.flat_map(|(line, next)| [*line, *next]).flat_map(|line| {
        line.split([' ', ',', '(', ')', '\t']).filter(|word| word.starts_with("__internal"))
    });
    let called = names.filter(|callee| *callee != function).map(|name| exactness(text, name)).max();
    own.max(called.unwrap_or(Exactness::Exact))
}

/// Runs all kernels of a source on the simulated driver.
fn simulated(source: &Source) {
    check(source, Simulation::new(SimConfig::default()).driver());
}

/// Runs all kernels of a source on the driver of the system.
fn real(source: &Source) {
    check(source, Driver::load().expect("a driver"));
}

/// Runs all kernels of a source, and holds what they leave against what is on record; with
/// `GRAPTURE_BLESS` set, writes what should be, into a file named for the source.
fn check(source: &Source, driver: Driver) {
    let loaded = Loaded::new(driver, &source.text);
    let answers = golden::answers(source.answers);
    let (mut same, mut close, mut worst, mut wrong) = (0, 0, 0.0_f64, Vec::new());
    let mut lines = String::new();
    for kernel in kernels(&source.text) {
        let exactness = exactness(&source.text, kernel);
        let cases = plan::cases(source.plan, kernel);
        assert!(!cases.is_empty(), "the plan says nothing of {kernel}");
        for case in cases {
            let outputs = loaded.run(&case);
            let line = golden::line(&case.name, exactness, &outputs);
            let answer = answers.get(case.name.as_str()).copied();
            match golden::compare(&line, answer, exactness, &outputs) {
                Verdict::Same => same += 1,
                Verdict::Close(part) => (close, worst) = (close + 1, worst.max(part)),
                Verdict::Different(why) => wrong.push(format!("{}: {why}", case.name)),
            }
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    let name = source.name;
    if std::env::var_os("GRAPTURE_BLESS").is_some() {
        std::fs::write(format!("kernels-{name}.txt"), lines).expect("the answers");
        return;
    }
    println!(
        "{name}: {same} launches leave the same bits; {close} leave some that differ, by at most \
         {worst:.3} of what may be"
    );
    assert!(wrong.is_empty(), "{} launches differ:\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! candle {
    ($($source:ident),+) => {
        const CANDLE: &[&str] = &[$(stringify!($source)),+];

        mod candle {
            $(
                #[test]
                #[ignore = "needs the PTX that `cargo xtask candle` makes"]
                fn $source() {
                    super::simulated(&super::candle(stringify!($source)));
                }
            )+
        }

        mod gpu_candle {
            $(
                #[test]
                #[ignore = "needs the PTX that `cargo xtask candle` makes"]
                fn $source() {
                    super::real(&super::candle(stringify!($source)));
                }
            )+
        }
    };
}

candle!(
    affine, binary, cast, conv, fill, indexing, mmvq_gguf, quantized, reduce, sort, ternary, unary
);

macro_rules! fixtures {
    ($($source:ident),+) => {
        mod sim_fixtures {
            $(
                #[test]
                fn $source() {
                    let text = include_str!(concat!(stringify!($source), ".ptx"));
                    super::simulated(&super::fixture(stringify!($source), text));
                }
            )+
        }

        mod gpu_fixtures {
            $(
                #[test]
                fn $source() {
                    let text = include_str!(concat!(stringify!($source), ".ptx"));
                    super::real(&super::fixture(stringify!($source), text));
                }
            )+
        }
    };
}

fixtures!(warps, grids, atomics, memories, calls, integers, reals, halves, matrices, hopper);

#[test]
fn sim_the_newest_ptx_of_a_fat_binary_is_taken() {
    images::parts(&Simulation::new(SimConfig::default()).driver());
}

#[test]
fn gpu_the_newest_ptx_of_a_fat_binary_is_taken() {
    images::parts(&Driver::load().expect("a driver"));
}

#[test]
fn sim_a_refused_image_says_why() {
    let driver = Simulation::new(SimConfig::default()).driver();
    let _context = Loaded::image(driver.clone(), include_bytes!("plain.fatbin"));
    let (code, log) = images::load(&driver, include_bytes!("machine.fatbin"));
    assert!(code == 209 && log.contains("ship PTX"), "{log}");
    let text = |line: &str| {
        let header = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n";
        let declared = ".reg .b32 r; .reg .b64 l; .reg .f32 f; .reg .pred p;\n";
        images::load(&driver, format!("{header}{declared}{line}\nret; }}\n\0").as_bytes())
    };
    let says = |line: &str, code: u32, words: &[&str]| {
        let (answer, log) = text(line);
        assert_eq!(answer, code, "{line}: {log}");
        assert!(log.contains("line 6"), "{line}: {log}");
        assert!(words.iter().all(|word| log.contains(word)), "{line}: {log}");
    };
    says("foo.b32 r, r;", 218, &["foo.b32"]);
    says("add.s32 r, f, r;", 218, &["'f'", ".f32", ".s32"]);
    let (code, log) = text("add.s32 r, r, r");
    assert!(code == 218 && log.contains("line 7: expected ';'"), "{log}");
    says("mov.u32 q, 3;", 218, &["'q'"]);
    says("add.foo.s32 r, r, r;", 218, &["foo"]);
    says("tex.1d.v4.f32.s32 {f, f, f, f}, [l, {r}];", 801, &["tex"]);
    says("wgmma.fence.sync.aligned;", 801, &["wgmma.fence"]);
    says("mbarrier.init.shared.b64 [l], r;", 801, &["mbarrier.init"]);
    says("cp.async.bulk.commit_group;", 801, &["cp.async.bulk"]);
    says("barrier.cluster.arrive;", 801, &["barrier.cluster"]);
    says("mapa.u64 l, l, r;", 801, &["mapa"]);
    says("suld.b.1d.b32.trap {r}, [l, {r}];", 801, &["suld"]);
}

#[test]
#[ignore = "needs the PTX that `cargo xtask candle` makes"]
fn every_entry_point_of_candle_is_loaded_and_has_an_answer() {
    let mut count = 0;
    for name in CANDLE {
        let source = candle(name);
        let module = grapture_sim::ptx::Module::compile(&source.text).unwrap();
        let names: Vec<&str> = module.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, kernels(&source.text));
        let answers = golden::answers(source.answers);
        for name in &names {
            let case = format!("{name}#0");
            assert!(answers.contains_key(case.as_str()), "no answer of an H200 for {case}");
        }
        count += names.len();
    }
    assert_eq!(count, CANDLE_KERNELS);
}
