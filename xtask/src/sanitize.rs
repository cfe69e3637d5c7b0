//! `cargo xtask sanitize`: the library and the simulator under Miri and under ThreadSanitizer. Both
//! need a nightly toolchain with the components `miri` and `rust-src`.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// What is run.
#[derive(clap::Args)]
pub struct Options {
    /// Which of both
    #[arg(value_enum)]
    tool: Tool,
    /// Only the tests of this package
    #[arg(long)]
    package: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Tool {
    /// Undefined behaviour and leaks: what graphs own, and the simulator's unit tests
    Miri,
    /// Data races: the simulator's engine under many threads, and the library's tests with threads
    Threads,
}

/// What Miri is told. Device addresses are numbers that become pointers; and it does not model
/// stores of several widths to the same bytes in weak memory, which the interpreter makes.
const MIRI_FLAGS: &str =
    "-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation -Zmiri-disable-isolation";
/// The tests that Miri runs to their end: kernels of the simulator take it too long, so the library
/// runs on a driver that its tests bring.
const MIRI_TESTS: &[(&str, &[&str])] =
    &[("grapture", &["--test", "ownership"]), ("grapture-sim", &["--lib"])];
/// The tests with threads.
const THREAD_TESTS: &[(&str, &[&str])] = &[
    ("grapture-sim", &["--test", "control", "--test", "faults", "--test", "sequences"]),
    ("grapture", &["--test", "ownership"]),
    ("grapture", SUITE_WITH_THREADS),
];
#[rustfmt::skip]
const SUITE_WITH_THREADS: &[&str] = &[
    "--test", "suite", "--", "--skip", "gpu_", "attacks_threads", "attacks_memory", "attacks_events",
    "capture_threads", "cache", "graph_output", "reclaim", "pinned", "soak", "embed", "fork",
    "temporary", "drops", "memory_ordered", "graph_update",
];

/// Runs the tests under one of both.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let tests = match options.tool {
        Tool::Miri => MIRI_TESTS,
        Tool::Threads => THREAD_TESTS,
    };
    let wanted = |package: &str| options.package.as_deref().is_none_or(|only| only == package);
    let mut ran = false;
    for (package, arguments) in tests.iter().filter(|(package, _)| wanted(package)) {
        ran = true;
        let mut command = command(root, options.tool)?;
        command.args(["--package", package]).args(*arguments);
        process::run(&mut command)?;
    }
    if !ran {
        bail!("no package of that name has tests for this");
    }
    Ok(())
}

fn command(root: &Path, tool: Tool) -> Result<Command> {
    // Not the cargo that runs this program, which is of another toolchain.
    let mut command = Command::new("cargo");
    command.current_dir(root).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    let target = process::target(root);
    match tool {
        Tool::Miri => {
            command.env("CARGO_TARGET_DIR", target.join("miri")).env("MIRIFLAGS", MIRI_FLAGS);
            command.args(["+nightly", "miri", "test"]);
        }
        Tool::Threads => {
            let host = host()?;
            command.env("CARGO_TARGET_DIR", target.join("thread-sanitizer"));
            // A trace of the calls takes it minutes, for each panic that a test asks for.
            command.env("RUSTFLAGS", "-Zsanitizer=thread").env("RUST_BACKTRACE", "0");
            command.args(["+nightly", "test", "-Zbuild-std", "--no-fail-fast", "--target", &host]);
        }
    }
    Ok(command)
}

/// The name of this platform, which a build of the standard library asks for.
fn host() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    let Some(host) = line else { bail!("rustc does not tell its host") };
    Ok(host.to_owned())
}
