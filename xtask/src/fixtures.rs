//! `cargo xtask fixtures`: the `.ptx` beside each `.cu`. `docs/fixtures.md` says why it is made so.

mod nvcc_kernels;
mod nvrtc;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, pypi};

/// The compiler: the last that knows every device which CUDA 10 knew.
const NVRTC: &str = "nvidia-cuda-nvrtc-cu11==11.7.99";
/// The assembler that checks the result: the newest, as strict as the newest driver.
const PTXAS: &str = "nvidia-cuda-nvcc==13.5.37";
/// The oldest virtual device to compile for.
const ARCH: &str = "compute_52";
/// The PTX version to claim: that of the first driver that can capture a stream, 10.0.
const VERSION: &str = "6.3";
/// The devices that the result is assembled for, to check it.
const CHECKED: &[&str] = &["sm_75", "sm_90", "sm_120"];

/// Whether to write, or only to compare.
#[derive(clap::Args)]
pub struct Options {
    /// Compare with what is committed, and write nothing
    #[arg(long)]
    check: bool,
}

/// Compiles every `.cu` in a folder `fixtures`, and writes or compares the `.ptx` beside it.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let compiler = nvrtc::Nvrtc::load(&pypi::package(root, NVRTC)?)?;
    let ptxas = pypi::find(&pypi::package(root, PTXAS)?, "ptxas")?;
    make_executable(&ptxas)?;
    let mut stale = Vec::new();
    let mut keep = |target: PathBuf, made: Vec<u8>| -> Result<()> {
        let name = target.strip_prefix(root).unwrap_or(&target).display().to_string();
        if fs::read(&target).is_ok_and(|committed| committed == made) {
            println!("{name} is what its source gives");
        } else if options.check {
            stale.push(name);
        } else {
            fs::write(&target, made).with_context(|| format!("cannot write {name}"))?;
            println!("{name} was written");
        }
        Ok(())
    };
    for source in sources(root)? {
        let ptx = compile(&compiler, &source)?;
        let target = source.with_extension("ptx");
        assemble(root, &ptxas, &ptx)
            .with_context(|| format!("{} is not accepted", target.display()))?;
        keep(target, ptx.into_bytes())?;
    }
    nvcc_kernels::make(root, &mut keep)?;
    if !stale.is_empty() {
        bail!("{} differ from what their sources give", stale.join(", "));
    }
    Ok(())
}

/// The `.cu` files in `fixtures/` and in `crates/*/fixtures/`, in order.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("fixtures"), root.join("bench/fixtures")];
    for entry in fs::read_dir(root.join("crates")).context("cannot list crates/")? {
        folders.push(entry?.path().join("fixtures"));
    }
    let mut sources = Vec::new();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "cu") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

fn compile(compiler: &nvrtc::Nvrtc, source: &Path) -> Result<String> {
    let text = fs::read_to_string(source)?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let options = [format!("--gpu-architecture={ARCH}"), "--std=c++14".to_owned()];
    Ok(own(&name, &compiler.compile(&name, &text, &options)?))
}

/// The compiler's output with our first line in the place of its banner, and our version.
fn own(name: &str, ptx: &str) -> String {
    let mut text = format!(
        "// Compiled from {name} by `cargo xtask fixtures` ({ARCH}, as PTX {VERSION}). Do not edit.\n\n"
    );
    let body = ptx.lines().skip_while(|line| line.starts_with("//") || line.trim().is_empty());
    for line in body {
        if line.starts_with(".version ") {
            text.push_str(&format!(".version {VERSION}"));
        } else {
            text.push_str(line.trim_end());
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The assembler refuses an instruction that is newer than the version that the text claims.
fn assemble(root: &Path, ptxas: &Path, ptx: &str) -> Result<()> {
    let path = pypi::cache(root).join("checked.ptx");
    fs::write(&path, ptx)?;
    for device in CHECKED {
        let arch = format!("-arch={device}");
        process::run(Command::new(ptxas).args([&arch, "-o", "/dev/null"]).arg(&path))?;
    }
    Ok(())
}

/// An unpacked wheel has lost its modes.
fn make_executable(path: &Path) -> Result<()> {
    process::run(Command::new("chmod").arg("+x").arg(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_banner_and_version_are_replaced() {
        let banner = ["//", "// Made by someone", "//", ""].join("\n");
        let ptx = format!("{banner}\n.version 7.7\n.target sm_52\n\n// kept\nret;  \n\n\n");
        let own = own("a.cu", &ptx);
        let first = "// Compiled from a.cu by `cargo xtask fixtures` (compute_52, as PTX 6.3). Do not edit.";
        assert_eq!(own, format!("{first}\n\n.version 6.3\n.target sm_52\n\n// kept\nret;\n"));
    }
}
