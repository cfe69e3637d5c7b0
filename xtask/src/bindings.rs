//! `cargo xtask bindings`: the C types and constants from NVIDIA's headers, and the function table
//! against them.

mod signatures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, pypi};

const WRITTEN: &str = "crates/grapture-sys/src/bindings.rs";
const TABLE: &str = "crates/grapture-sys/src/functions.rs";
const FIRST_LINE: &str =
    "// Written by `cargo xtask bindings` from the CUDA 13.5 headers. Do not edit.";

/// The headers: `cuda.h` is in the first package, what it includes in the second.
const HEADERS: &[&str] = &["nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37"];
const LIBCLANG: &str = "libclang==18.1.1";
const BINDGEN: &str = "0.73.2";

/// How the headers are read, whatever is taken from them.
const READ: &[&str] = &[
    "--default-enum-style=newtype_global",
    "--no-prepend-enum-name",
    "--no-doc-comments",
    "--with-derive-default",
    "--ignore-functions",
    "--use-core",
    "--blocklist-type",
    ".*(Vulkan|D3D|EGL|VDPAU|NvSci).*",
    "--rust-target",
    "1.85",
    "--rust-edition",
    "2024",
];

/// What is taken into the crate.
const TAKEN: &[&str] =
    &["--allowlist-type", "CU.*", "--allowlist-type", "cuuint.*", "--allowlist-var", "CU.*"];

/// Whether to write, or only to compare.
#[derive(clap::Args)]
pub struct Options {
    /// Compare with what is committed, and write nothing
    #[arg(long)]
    check: bool,
}

/// Writes the bindings, or compares them; then holds the function table against the headers.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let tools = Tools::fetch(root)?;
    let bindings = tools.bindings()?;
    let path = root.join(WRITTEN);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == bindings {
        println!("{WRITTEN} is what the headers give");
    } else if options.check {
        bail!("{WRITTEN} differs from what the headers give; `cargo xtask bindings` writes it");
    } else {
        fs::write(&path, &bindings).with_context(|| format!("cannot write {WRITTEN}"))?;
        println!("{WRITTEN} was written");
    }
    let table = fs::read_to_string(root.join(TABLE)).context("cannot read the function table")?;
    let faults = signatures::check(&table, &tools.typedefs()?)?;
    for fault in &faults {
        println!("{TABLE}: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} lines of the function table differ from the headers", faults.len());
    }
    Ok(())
}

/// The folders of NVIDIA's headers.
pub fn headers(root: &Path) -> Result<Vec<PathBuf>> {
    HEADERS.iter().map(|package| pypi::find(&pypi::package(root, package)?, "include")).collect()
}

/// `bindgen` and what it reads, all below `target/xtask/`.
struct Tools {
    work: PathBuf,
    bindgen: PathBuf,
    libclang: PathBuf,
    include: Vec<PathBuf>,
    rustfmt: PathBuf,
}

impl Tools {
    fn fetch(root: &Path) -> Result<Tools> {
        let work = pypi::cache(root);
        let mut include = headers(root)?;
        let gcc = process::output(Command::new("gcc").arg("-print-file-name=include"))?;
        include.push(PathBuf::from(gcc.trim()));
        let libclang = pypi::find(&pypi::package(root, LIBCLANG)?, "native")?;
        let tools = work.join("tools");
        let bindgen = tools.join("bin/bindgen");
        if !bindgen.is_file() {
            let install = ["install", "bindgen-cli", "--locked", "--version", BINDGEN, "--root"];
            process::run(process::cargo(root).args(install).arg(&tools))?;
        }
        Ok(Tools { work, bindgen, libclang, include, rustfmt: root.join("rustfmt.toml") })
    }

    /// Reads one header and gives the Rust for what `taken` asks for.
    fn read(&self, header: &str, taken: &[&str]) -> Result<String> {
        let name = format!("{}.h", header.trim_end_matches(".h").to_lowercase() + "_only");
        fs::write(self.work.join(&name), format!("#include <{header}>\n"))?;
        let mut command = Command::new(&self.bindgen);
        command.current_dir(&self.work).env("LIBCLANG_PATH", &self.libclang);
        command.arg(&name).args(READ).args(taken).arg("--");
        for folder in &self.include {
            command.arg("-I").arg(folder);
        }
        process::output(&mut command)
    }

    /// The file that is committed.
    fn bindings(&self) -> Result<String> {
        let read = self.read("cuda.h", TAKEN)?;
        let body = read.split_once('\n').map_or("", |(_, body)| body);
        let path = self.work.join("bindings.rs");
        fs::write(&path, format!("{FIRST_LINE}\n{body}"))?;
        let mut command = Command::new("rustfmt");
        command.args(["--edition", "2024", "--config-path"]).arg(&self.rustfmt).arg(&path);
        process::run(&mut command)?;
        Ok(fs::read_to_string(&path)?)
    }

    /// The typedef of each function at each version.
    fn typedefs(&self) -> Result<String> {
        self.read("cudaTypedefs.h", &["--allowlist-type", "PFN_cu.*"])
    }
}
