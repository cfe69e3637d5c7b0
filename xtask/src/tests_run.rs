//! `cargo xtask test`: the test tiers, by the prefix of a test's name.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process;

/// Which tier to run.
#[derive(clap::Args)]
pub struct Options {
    /// Run the tier that needs a GPU
    #[arg(long, conflicts_with = "multi_gpu")]
    gpu: bool,
    /// Run the tier that needs several GPUs
    #[arg(long)]
    multi_gpu: bool,
}

impl Options {
    /// What follows `cargo test`.
    fn arguments(&self) -> Vec<&'static str> {
        let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
        if self.gpu || self.multi_gpu {
            arguments.push("--tests");
        }
        arguments.push("--");
        if self.multi_gpu {
            arguments.extend(["multi_gpu_", "--test-threads=1"]);
        } else if self.gpu {
            // One at a time: a capture in the global mode bars the calls of every other thread.
            arguments.extend(["gpu_", "--skip", "multi_gpu_", "--test-threads=1"]);
        } else {
            arguments.extend(["--skip", "gpu_"]);
        }
        arguments
    }
}

/// Runs the tier; fails if a test failed, and if none ran.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let mut command = process::cargo(root);
    command.args(options.arguments());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", process::line(&command)))?;
    let mut sum = Sum::default();
    if let Some(stdout) = child.stdout.take() {
        let mut terminal = std::io::stdout().lock();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            terminal.write_all(&line)?;
            terminal.write_all(b"\n")?;
            sum.add(&String::from_utf8_lossy(&line));
        }
    }
    let status = child.wait()?;
    println!("{} test binaries; skipped: tests of the tiers that were not asked for", sum.binaries);
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    if !status.success() {
        bail!("{} ended with {status}", process::line(&command));
    }
    if sum.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// The sum of the runner's `test result` lines.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    binaries: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Sum {
    /// Adds a line of the runner's output, if it is a summary.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        self.binaries += 1;
        let rest = rest.split_once(". ").map_or(rest, |(_, counts)| counts);
        for part in rest.split("; ") {
            let mut words = part.split(' ');
            let (Some(count), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" | "filtered" => self.skipped += count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_summed() {
        let mut sum = Sum::default();
        sum.add("running 3 tests");
        sum.add("test a ... ok");
        sum.add(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 6 filtered out; finished in 0.01s",
        );
        sum.add(
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        );
        assert_eq!(sum, Sum { binaries: 2, passed: 4, failed: 2, skipped: 7 });
    }

    #[test]
    fn tiers_are_told_apart_by_name() {
        let options = Options { gpu: false, multi_gpu: false };
        assert!(options.arguments().ends_with(&["--", "--skip", "gpu_"]));
        let options = Options { gpu: true, multi_gpu: false };
        assert!(options.arguments().contains(&"multi_gpu_"));
    }
}
