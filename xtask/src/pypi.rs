//! Packages from PyPI, unpacked below `target/xtask/`. Nothing of them is ever committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Where the maintainer jobs keep what they fetch and build.
pub fn cache(root: &Path) -> PathBuf {
    root.join("target/xtask")
}

/// The folder with the unpacked content of a package such as `libclang==18.1.1`, fetched once.
pub fn package(root: &Path, requirement: &str) -> Result<PathBuf> {
    packages(root, &requirement.replace("==", "-"), &[requirement])
}

/// The folder of that name with the unpacked content of several packages, fetched once.
pub fn packages(root: &Path, name: &str, requirements: &[&str]) -> Result<PathBuf> {
    let folder = cache(root).join(name);
    let done = folder.join(".done");
    if done.is_file() {
        return Ok(folder);
    }
    println!("fetching {}", requirements.join(", "));
    let download = folder.join("download");
    fs::create_dir_all(&download)?;
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"];
    process::run(
        Command::new("python3")
            .args(pip)
            .arg("--disable-pip-version-check")
            .args(requirements)
            .arg("--dest")
            .arg(&download),
    )?;
    for entry in fs::read_dir(&download)? {
        let wheel = entry?.path();
        process::run(
            Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder),
        )?;
    }
    fs::remove_dir_all(&download)?;
    fs::write(&done, "")?;
    Ok(folder)
}

/// The one file or folder below `folder` that has this name.
pub fn find(folder: &Path, name: &str) -> Result<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let entries = fs::read_dir(&next);
        for entry in entries.with_context(|| format!("cannot list {}", next.display()))? {
            let path = entry?.path();
            if path.file_name().is_some_and(|found| found == name) {
                return Ok(path);
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    bail!("there is no {name} in {}", folder.display())
}
