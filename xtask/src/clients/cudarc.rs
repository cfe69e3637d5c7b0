//! The crate cudarc: the tests and the examples that it ships.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Place;
use super::outcome::Outcome;
use crate::process;

const VERSION: &str = "0.19.10";
const FEATURES: &str = "std,driver,nvrtc,cuda-13000,dynamic-loading,f16";
/// The examples that need the driver alone; the others need further libraries.
const EXAMPLES: &[&str] = &[
    "01-allocate",
    "02-copy",
    "03-launch-kernel",
    "04-streams",
    "05-device-repr",
    "06-threading",
    "09-constant-memory",
    "10-function-attributes",
    "12-context-config",
    "13-copy-multi-gpu",
    "matmul-kernel",
    "nvrtc-compile",
];
/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(180);

/// Each test of the driver and of the compiler, in a process of its own, also those that it
/// ignores because they need two devices or a process of their own.
pub fn tests(place: &Place) -> Result<Vec<Outcome>> {
    let source = source(place)?;
    let build = ["test", "--lib", "--no-run", "--message-format=json"];
    let program = built(place, &source, &build)?.pop().context("cargo built no tests")?;
    let list = process::output(run(place, &program).args(["--list", "--format=terse"]))?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let wanted = |name: &&str| name.starts_with("driver::") || name.starts_with("nvrtc::");
    names
        .filter(wanted)
        .map(|name| {
            let mut command = run(place, &program);
            command.args(["--exact", name, "--include-ignored"]);
            Ok(Outcome::new(name, problem(&mut command, &place.work)?))
        })
        .collect()
}

/// Each of the examples.
pub fn examples(place: &Place) -> Result<Vec<Outcome>> {
    let source = source(place)?;
    let mut build = vec!["build", "--message-format=json"];
    EXAMPLES.iter().for_each(|name| build.extend(["--example", name]));
    let programs = built(place, &source, &build)?;
    EXAMPLES
        .iter()
        .map(|name| {
            let is_it = |path: &&PathBuf| path.file_name().is_some_and(|file| file == *name);
            let program = programs.iter().find(is_it).context("an example was not built")?;
            let mut command = run(place, program);
            command.current_dir(&source);
            Ok(Outcome::new(*name, problem(&mut command, &place.work)?))
        })
        .collect()
}

/// A copy of the crate's source, as crates.io has it: cargo fetches it as a dependency.
fn source(place: &Place) -> Result<PathBuf> {
    let fetcher = place.work.join("cudarc-fetch");
    fs::create_dir_all(fetcher.join("src"))?;
    fs::write(fetcher.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ncudarc = {{ version = \"={VERSION}\", features = [\"cuda-13000\"] }}\n"
    );
    fs::write(fetcher.join("Cargo.toml"), manifest)?;
    let metadata = ["metadata", "--format-version=1"];
    let text = process::output(process::cargo(&fetcher).args(metadata))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo tells no packages")?;
    let package = packages.iter().find(|package| package["name"] == "cudarc");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.context("cargo did not fetch cudarc")?);
    let folder = place.work.join(format!("cudarc-{VERSION}"));
    if !folder.is_dir() {
        let from = manifest.parent().context("a manifest without a folder")?;
        process::run(Command::new("cp").arg("-r").arg(from).arg(&folder))?;
        // It lies below a workspace, and is no part of it.
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        fs::write(&manifest, text + "\n[workspace]\n")?;
    }
    Ok(folder)
}

/// The programs that a build of the crate leaves.
fn built(place: &Place, source: &Path, arguments: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = process::cargo(source);
    command.env("CARGO_TARGET_DIR", place.work.join("cudarc-target"));
    command.args(arguments).args(["--no-default-features", "--features", FEATURES]);
    let text = process::output(&mut command)?;
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let program = |message: serde_json::Value| message["executable"].as_str().map(PathBuf::from);
    Ok(messages.filter_map(program).collect())
}

/// A program on the simulated driver, with two devices.
fn run(place: &Place, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", place.library_path()).env("GRAPTURE_SIM_DEVICES", "2");
    command
}

/// Runs a command and gives what went wrong. It may not take forever.
fn problem(command: &mut Command, work: &Path) -> Result<Option<String>> {
    let log = work.join("output.log");
    let file = fs::File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = command.spawn().with_context(|| process::line(command))?;
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("took longer than {} s", LIMIT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(None);
    }
    let text = fs::read_to_string(&log).unwrap_or_default();
    Ok(Some(format!("{status}: {}", cause(&text))))
}

/// The line of an output that says most of a failure.
fn cause(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let error = lines.iter().position(|line| line.starts_with("Error: "));
    let at = panic.map(|at| at + 1).or(error).unwrap_or(lines.len().saturating_sub(1));
    lines.get(at).unwrap_or(&"no output").trim().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_failure_is_found() {
        assert_eq!(cause("a\nthread 'x' panicked at f.rs:1:1:\nwhy\nb"), "why");
        assert_eq!(cause("a\nError: E\nb"), "Error: E");
        assert_eq!(cause("a\nlast"), "last");
        assert_eq!(cause(""), "no output");
    }
}
