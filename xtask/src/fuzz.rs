//! `cargo xtask fuzz`: random calls and damaged PTX, for as long as it is told.

use std::path::Path;

use anyhow::Result;

use crate::process;

/// How long.
#[derive(clap::Args)]
pub struct Options {
    /// The seconds for each of the tests, which run one after the other
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the tests whose cases are random.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let tests = ["test", "--package", "grapture-sim", "--test", "sequences", "--test"];
    let mut command = process::cargo(root);
    command.args(tests).args(["ptx_mutation", "--", "--test-threads=1", "--nocapture"]);
    command.env("GRAPTURE_FUZZ_SECONDS", options.seconds.to_string());
    process::run(&mut command)
}
