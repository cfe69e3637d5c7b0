//! Maintainer jobs, run as `cargo xtask <job>`.

mod bench;
mod bindings;
mod bundle;
mod candle;
mod clients;
mod fixtures;
mod fuzz;
mod layout;
mod nvcc;
mod process;
mod pypi;
mod sanitize;
mod sim_lib;
mod soak;
mod tests_run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Maintainer jobs for Grapture", version)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Runs the tests that need no GPU and the examples in the docs; ends with their sum
    Test(tests_run::Options),
    /// Writes the C types and constants from NVIDIA's headers, and checks the function table
    Bindings(bindings::Options),
    /// Compiles each `.cu` of the fixtures to the `.ptx` beside it
    Fixtures(fixtures::Options),
    /// Compiles the kernels of the crate candle-kernels, and runs every one of them
    Candle(candle::Options),
    /// Builds the simulated driver as a drop-in `libcuda.so.1` in `target/sim/`
    SimLib,
    /// Runs programs that others wrote on the simulated driver, and says which of their cases hold
    Clients(clients::Options),
    /// Runs random calls and damaged PTX on the simulated driver for longer than the tests do
    Fuzz(fuzz::Options),
    /// Has threads capture, launch, hand over and drop at random, for a while
    Soak(soak::Options),
    /// Runs tests of the library and the simulator under Miri or ThreadSanitizer (nightly)
    Sanitize(sanitize::Options),
    /// Builds what a machine with a GPU and no Rust runs, into `target/gpu-bundle/`
    GpuBundle(bundle::Options),
    /// Builds the benchmarks and runs them on this machine's driver
    Bench {
        /// What `bench/run.py` is told, such as `--rounds 5`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Checks dependency directions, file sizes and that no foreign text is in the tree
    Layout,
}

fn main() -> ExitCode {
    let root = root();
    let done = match Cli::parse().job {
        Job::Test(options) => tests_run::run(&root, &options),
        Job::Bindings(options) => bindings::run(&root, &options),
        Job::Fixtures(options) => fixtures::run(&root, &options),
        Job::Candle(options) => candle::run(&root, &options),
        Job::SimLib => sim_lib::run(&root),
        Job::Clients(options) => clients::run(&root, &options),
        Job::Fuzz(options) => fuzz::run(&root, &options),
        Job::Soak(options) => soak::run(&root, &options),
        Job::Sanitize(options) => sanitize::run(&root, &options),
        Job::GpuBundle(options) => bundle::run(&root, &options),
        Job::Bench { arguments } => bench::run(&root, &arguments),
        Job::Layout => layout::run(&root),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the parent of this crate.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}
