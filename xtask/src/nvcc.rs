//! NVIDIA's compiler, put together from its packages on PyPI below `target/xtask/`. It needs a C++
//! compiler on the path, which preprocesses for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, pypi};

/// What the compiler consists of. It is the last whose PTX a driver for CUDA 13.0 takes.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// The compiler.
pub struct Nvcc {
    program: PathBuf,
}

impl Nvcc {
    /// Fetches it, unless it is there.
    pub fn fetch(root: &Path) -> Result<Nvcc> {
        let folder = pypi::packages(root, "nvcc-13.0.88", PACKAGES)?;
        let program = pypi::find(&folder, "nvcc")?;
        for name in ["bin", "nvvm/bin"] {
            // An unpacked wheel has lost its modes.
            let folder = program.parent().and_then(Path::parent).unwrap_or(&folder).join(name);
            process::run(Command::new("chmod").args(["-R", "+x"]).arg(folder))?;
        }
        Ok(Nvcc { program })
    }

    /// Compiles a source with these options.
    pub fn compile(&self, source: &Path, options: &[&str], target: &Path) -> Result<()> {
        let folder = source.parent().context("a source lies in a folder")?;
        let mut command = Command::new(&self.program);
        command.current_dir(folder).args(options).args(["-std=c++17", "-w", "-o"]).arg(target);
        process::run(command.arg(source.file_name().unwrap_or_default()))
    }

    /// The PTX of a source, without the compiler's banner.
    pub fn ptx(&self, source: &Path, options: &[&str], scratch: &Path) -> Result<String> {
        self.compile(source, &[&["-ptx"], options].concat(), scratch)?;
        let text = fs::read_to_string(scratch)?;
        let body = text.lines().skip_while(|line| !line.starts_with(".version"));
        let lines: Vec<&str> = body.map(str::trim_end).collect();
        Ok(placeless(lines.join("\n").trim_end()) + "\n")
    }
}

/// The compiler tells names of one source from those of another by a number that it makes of the
/// folders in which the source and the headers lie: here they are the same wherever it runs.
fn placeless(ptx: &str) -> String {
    const BEFORE: &str = "_INTERNAL_";
    const DIGITS: usize = 8;
    let number = ptx.split(BEFORE).nth(1).and_then(|rest| rest.get(..DIGITS));
    match number.filter(|number| number.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        Some(number) => ptx.replace(number, &"0".repeat(DIGITS)),
        None => ptx.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::placeless;

    #[test]
    fn names_have_no_number_of_the_place() {
        let ptx = "_ZN38_INTERNAL_5e8773b8_8_warps_cu3N__5e8773b8_8_warps_cu6ignoreE[1];\nret;";
        let made = "_ZN38_INTERNAL_00000000_8_warps_cu3N__00000000_8_warps_cu6ignoreE[1];\nret;";
        assert_eq!(placeless(ptx), made);
        assert_eq!(placeless("_INTERNAL_name\nret;"), "_INTERNAL_name\nret;");
    }
}
