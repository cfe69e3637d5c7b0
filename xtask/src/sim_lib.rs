//! `cargo xtask sim-lib`: the simulated driver as a drop-in `libcuda.so.1`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process;

/// Builds the library in release, and leaves it at `target/sim/libcuda.so.1`.
pub fn run(root: &Path) -> Result<()> {
    let package = ["rustc", "--release", "--package", "grapture-sim", "--features", "export"];
    let library = ["--lib", "--crate-type", "cdylib"];
    // A program that is linked with it looks for it by the name that NVIDIA's has.
    let name = ["--", "-C", "link-arg=-Wl,-soname,libcuda.so.1"];
    process::run(process::cargo(root).args(package).args(library).args(name))?;
    let built = process::target(root).join("release/libgrapture_sim.so");
    let folder = process::target(root).join("sim");
    fs::create_dir_all(&folder)?;
    let library = folder.join("libcuda.so.1");
    fs::copy(&built, &library).with_context(|| format!("cannot copy {}", built.display()))?;
    // What the linker looks for with `-lcuda`.
    fs::copy(&built, folder.join("libcuda.so"))?;
    println!("the simulated driver is {}", library.display());
    println!("a program uses it with LD_LIBRARY_PATH={}", folder.display());
    Ok(())
}
