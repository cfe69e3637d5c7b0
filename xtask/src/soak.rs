//! `cargo xtask soak`: threads that capture, launch, hand over and drop at random, for a while.

use std::path::Path;

use anyhow::Result;

use crate::process;

/// How long, and on what.
#[derive(clap::Args)]
pub struct Options {
    /// How long it lasts
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// The seed of what the threads do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// On this machine's driver instead of the simulated one
    #[arg(long)]
    gpu: bool,
}

/// Runs the test of the soak by itself: with others beside it, memory would not be flat.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let tier = if options.gpu { "soak::gpu_tier" } else { "soak::sim_tier" };
    let mut command = process::cargo(root);
    command.args(["test", "--package", "grapture", "--test", "suite"]);
    command.args(["--", tier, "--nocapture"]);
    command.env("GRAPTURE_SOAK_SECONDS", options.seconds.to_string());
    command.env("GRAPTURE_SOAK_SEED", options.seed.to_string());
    process::run(&mut command)
}
