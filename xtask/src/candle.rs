//! `cargo xtask candle`: the kernels of the crate candle-kernels, compiled and run on the simulated
//! driver, or on that of this machine. Nothing of the crate is committed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::nvcc::Nvcc;
use crate::{process, pypi};

/// The version whose kernels the answers of the H200 are of.
const VERSION: &str = "0.11.1";
/// Its sources with kernels that it compiles to PTX, and those of one that it links.
const SOURCES: &[&str] = &[
    "affine",
    "binary",
    "cast",
    "conv",
    "fill",
    "indexing",
    "mmvq_gguf",
    "quantized",
    "reduce",
    "sort",
    "ternary",
    "unary",
];
/// What the crate itself compiles them with.
const OPTIONS: &[&str] = &["-arch=sm_80", "--expt-relaxed-constexpr", "-O3"];

/// On which driver to run.
#[derive(clap::Args)]
pub struct Options {
    /// Run on this machine's driver
    #[arg(long)]
    gpu: bool,
}

/// Fetches, compiles and runs.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let folder = pypi::cache(root).join("candle");
    let ptx = folder.join("ptx");
    fs::create_dir_all(&ptx)?;
    let sources = sources(&folder)?;
    let mut compiler = None;
    for name in SOURCES {
        let target = ptx.join(name).with_extension("ptx");
        if target.is_file() {
            continue;
        }
        println!("compiling {name}.cu");
        let nvcc = match &compiler {
            Some(nvcc) => nvcc,
            None => compiler.insert(Nvcc::fetch(root)?),
        };
        let text =
            nvcc.ptx(&sources.join(name).with_extension("cu"), OPTIONS, &folder.join("scratch"))?;
        fs::write(target, text)?;
    }
    let tests: &[&str] = if options.gpu {
        &["gpu_candle", "--test-threads=1"]
    } else {
        &["candle", "--skip", "gpu_"]
    };
    let mut command = process::cargo(root);
    command.args(["test", "--package", "grapture-sim", "--test", "kernels", "--"]);
    command.args(["--ignored", "--show-output"]).args(tests);
    process::run(command.env("GRAPTURE_CANDLE_PTX", &ptx))
}

/// The folder of the crate's sources, which cargo fetches as a dependency of a crate without code.
fn sources(folder: &Path) -> Result<PathBuf> {
    let manifest = format!(
        "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [dependencies]\ncandle-kernels = \"={VERSION}\"\n"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let metadata = process::output(process::cargo(folder).args([
        "metadata",
        "--format-version",
        "1",
        "--quiet",
    ]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let found = packages.iter().find(|package| package["name"] == "candle-kernels");
    let Some(manifest) = found.and_then(|package| package["manifest_path"].as_str()) else {
        bail!("cargo did not fetch candle-kernels");
    };
    Ok(Path::new(manifest).parent().unwrap_or(folder).join("src"))
}
