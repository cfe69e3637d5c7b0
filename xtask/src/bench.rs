//! `cargo xtask bench`: the benchmarks, of Grapture, its peers and C.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// The programs, by the names of their targets. Each has the one in C inside.
const PROGRAMS: &[&str] = &["bench-c", "bench-grapture", "bench-cudarc", "bench-oxicuda"];

/// Builds the programs and runs them on this machine's driver.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let folder = process::target(root).join("bench/programs");
    build(root, &folder)?;
    let script = folder.join("run.py");
    process::run(
        Command::new("python3")
            .current_dir(root)
            .arg(script)
            .arg("--programs")
            .arg(&folder)
            .args(arguments),
    )
}

/// Builds the programs and puts them and the script that runs them into `folder`.
pub fn build(root: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let target = process::target(root).join("bench");
    let bench = root.join("bench");
    let mut cargo = process::cargo(root);
    cargo.args(["build", "--release", "--locked", "--bins", "--manifest-path"]);
    cargo.arg(bench.join("Cargo.toml")).arg("--target-dir").arg(&target);
    process::run(&mut cargo)?;
    for program in PROGRAMS {
        let built = target.join("release").join(program);
        fs::copy(&built, folder.join(program)).with_context(|| format!("cannot copy {program}"))?;
    }
    fs::copy(bench.join("run.py"), folder.join("run.py")).context("cannot copy run.py")?;
    Ok(())
}
