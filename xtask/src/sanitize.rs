//! `cargo xtask sanitize`: the simulator under Miri and under ThreadSanitizer. Both need a nightly
//! toolchain with the components `miri` and `rust-src`.

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
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Tool {
    /// Undefined behaviour: the unit tests
    Miri,
    /// Data races: the engine under many threads
    Threads,
}

/// What Miri is told. Device addresses are numbers that become pointers; and it does not model
/// stores of several widths to the same bytes in weak memory, which the interpreter makes.
const MIRI_FLAGS: &str =
    "-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation -Zmiri-disable-isolation";
/// The tests that Miri runs to their end: kernels take it too long.
const MIRI_TESTS: &[&str] = &["--lib"];
/// The tests with threads.
const THREAD_TESTS: &[&str] = &["--test", "control", "--test", "faults", "--test", "sequences"];

/// Runs the tests under one of both.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    // Not the cargo that runs this program, which is of another toolchain.
    let mut command = Command::new("cargo");
    command.current_dir(root).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    let target = process::target(root);
    match options.tool {
        Tool::Miri => {
            command.env("CARGO_TARGET_DIR", target.join("miri")).env("MIRIFLAGS", MIRI_FLAGS);
            command.args(["+nightly", "miri", "test", "--package", "grapture-sim"]);
            command.args(MIRI_TESTS);
        }
        Tool::Threads => {
            let host = host()?;
            command.env("CARGO_TARGET_DIR", target.join("thread-sanitizer"));
            command.env("RUSTFLAGS", "-Zsanitizer=thread");
            command.args(["+nightly", "test", "-Zbuild-std", "--target", &host]);
            command.args(["--package", "grapture-sim", "--no-fail-fast"]).args(THREAD_TESTS);
        }
    }
    process::run(&mut command)
}

/// The name of this platform, which a build of the standard library asks for.
fn host() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    let Some(host) = line else { bail!("rustc does not tell its host") };
    Ok(host.to_owned())
}
