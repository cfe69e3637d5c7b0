//! `cargo xtask gpu-bundle`: everything that a machine with a GPU and no Rust has to run.

mod artifacts;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{bench, process};
use artifacts::{Artifact, Kind};

/// Larger than this, and it is too slow to carry to a borrowed machine.
const MOST_BYTES: u64 = 60 << 20;

/// What the machine is to do with it.
const RUN: &str = include_str!("bundle/run.sh");

/// Which parts to leave out.
#[derive(clap::Args)]
pub struct Options {
    /// Leave out the benchmarks, whose peers take a while to compile
    #[arg(long)]
    no_bench: bool,
}

/// Builds the bundle anew in `target/gpu-bundle/`.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let bundle = process::target(root).join("gpu-bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    for folder in ["tests", "examples", "bin"] {
        fs::create_dir_all(bundle.join(folder))?;
    }
    let tests = add_programs(root, &bundle)?;
    if !options.no_bench {
        bench::build(root, &bundle.join("bench"))?;
    }
    fs::write(bundle.join("run.sh"), RUN)?;
    let bytes = size(&bundle)?;
    println!("{}: {tests} test binaries, {:.1} MiB", bundle.display(), bytes as f64 / 1_048_576.0);
    if bytes > MOST_BYTES {
        bail!("the bundle is larger than {} MiB", MOST_BYTES >> 20);
    }
    println!("on the machine with the GPU: bash gpu-bundle/run.sh");
    Ok(())
}

/// Builds and copies the tests of the GPU tiers, the examples and the program. Gives how many
/// binaries of tests there are.
fn add_programs(root: &Path, bundle: &Path) -> Result<usize> {
    let profile = ["--profile", "bundle"];
    let mut tests = process::cargo(root);
    tests.args(["test", "--no-run", "--workspace", "--tests"]).args(profile);
    let mut programs = process::cargo(root);
    programs.args(["build", "--bins", "--package", "grapture-cli"]).args(profile);
    // Apart, so that they are without the simulated driver, which the program has.
    let mut examples = process::cargo(root);
    examples.args(["build", "--examples", "--package", "grapture"]).args(profile);
    let mut built = artifacts::build(&mut tests)?;
    built.extend(artifacts::build(&mut programs)?);
    built.extend(artifacts::build(&mut examples)?);
    let mut tests = 0;
    for artifact in built {
        let folder = match artifact.kind {
            Kind::Test if has_gpu_tests(&artifact.path)? => "tests",
            Kind::Test => continue,
            Kind::Example => "examples",
            Kind::Program if artifact.package == "grapture-cli" => "bin",
            // The tests of a program are built with it.
            Kind::Program => continue,
        };
        tests += usize::from(artifact.kind == Kind::Test);
        copy(&artifact, &bundle.join(folder))?;
    }
    Ok(tests)
}

/// Copies a program; one of tests, which has the simulated driver too, is packed until it runs.
fn copy(artifact: &Artifact, folder: &Path) -> Result<()> {
    let copied = match artifact.kind {
        Kind::Test => {
            let to = folder.join(format!("{}-{}.gz", artifact.package, artifact.name));
            pack(&artifact.path, &to)
        }
        Kind::Example | Kind::Program => {
            fs::copy(&artifact.path, folder.join(&artifact.name)).map(drop)
        }
    };
    copied.with_context(|| format!("cannot copy {}", artifact.name))
}

fn pack(from: &Path, to: &Path) -> io::Result<()> {
    let mut packed = GzEncoder::new(File::create(to)?, Compression::default());
    io::copy(&mut File::open(from)?, &mut packed)?;
    packed.finish().map(drop)
}

/// Whether a binary of tests has one for a GPU.
fn has_gpu_tests(binary: &Path) -> Result<bool> {
    let list = process::output(Command::new(binary).args(["--list", "gpu_"]))?;
    Ok(list.lines().any(|line| line.ends_with(": test")))
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += entry.metadata()?.len();
            }
        }
    }
    Ok(bytes)
}
