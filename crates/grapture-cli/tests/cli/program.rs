//! The program, run as its user runs it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// How a run of the program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it printed.
    pub output: String,
    /// What it printed as errors.
    pub errors: String,
}

impl Ended {
    /// Asserts that it could not do it, and said just this.
    #[track_caller]
    pub fn cannot(&self, message: &str) {
        assert_eq!(self.errors, format!("grapture: {message}\n"));
        assert_eq!(self.code, Some(2), "{self:?}");
    }

    /// Asserts that it succeeded, and printed each of these.
    #[track_caller]
    pub fn printed(&self, texts: &[&str]) {
        assert_eq!(self.code, Some(0), "{self:?}");
        for text in texts {
            assert!(self.output.contains(text), "no {text:?} in:\n{}", self.output);
        }
    }
}

/// The program on the machine's own driver.
pub fn grapture() -> Command {
    let built = env!("CARGO_BIN_EXE_grapture");
    // On another machine than the one that built this test, the program lies elsewhere.
    let path = std::env::var_os("GRAPTURE_PROGRAM");
    let mut command = Command::new(path.as_deref().unwrap_or(OsStr::new(built)));
    command.env_remove("GRAPTURE_DRIVER");
    command
}

/// The program on the simulated driver.
pub fn simulated() -> Command {
    let mut command = grapture();
    command.env("GRAPTURE_DRIVER", "sim");
    command
}

/// The program on a machine with no driver that loads: files in `folder` have the names of one.
pub fn without_driver(folder: &Path) -> Command {
    for name in ["libcuda.so.1", "libcuda.so"] {
        std::fs::write(folder.join(name), "no library").unwrap();
    }
    let mut command = grapture();
    command.env("LD_LIBRARY_PATH", folder);
    command
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}
