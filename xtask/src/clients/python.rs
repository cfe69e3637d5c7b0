//! NVIDIA's Python packages in an environment of their own, and the scripts that use them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Place;
use super::outcome::Outcome;
use crate::process;

/// What is installed: the packages under test, and the compiler and headers beside them.
const PACKAGES: &[&str] = &[
    "cuda-bindings==13.0.3",
    "cuda-core==1.2.2",
    "numpy==2.4.6",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-nvrtc==13.0.88",
];

/// An interpreter with the packages.
pub struct Environment {
    folder: PathBuf,
    site: PathBuf,
}

impl Environment {
    /// Makes it, once.
    pub fn prepare(work: &Path) -> Result<Environment> {
        let folder = work.join("python");
        let done = folder.join(".done");
        if fs::read_to_string(&done).unwrap_or_default() != PACKAGES.join("\n") {
            println!("installing {}", PACKAGES.join(", "));
            process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            process::run(Command::new(folder.join("bin/python")).args(pip).args(PACKAGES))?;
            fs::write(&done, PACKAGES.join("\n"))?;
        }
        let program = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let site = process::output(Command::new(folder.join("bin/python")).args(["-c", program]))?;
        Ok(Environment { folder, site: PathBuf::from(site.trim()) })
    }

    /// NVIDIA's libraries.
    pub fn libraries(&self) -> PathBuf {
        self.site.join("nvidia/cu13/lib")
    }

    /// NVIDIA's headers.
    pub fn headers(&self) -> PathBuf {
        self.site.join("nvidia/cu13/include")
    }
}

/// The cases of a script in `clients/python/`.
pub fn cases(place: &Place, script: &str) -> Result<Vec<Outcome>> {
    let script = place.root.join("clients/python").join(script);
    let mut command = Command::new(place.python.folder.join("bin/python"));
    command.arg(&script).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("LD_LIBRARY_PATH", place.library_path());
    let text = process::output(&mut command).context("the cases did not all run")?;
    Ok(Outcome::read_all(&text))
}
