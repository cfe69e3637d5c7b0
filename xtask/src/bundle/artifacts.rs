//! What cargo built, as it reports it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::process;

/// What an executable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A binary of tests.
    Test,
    /// An example.
    Example,
    /// A program.
    Program,
}

/// One executable.
#[derive(Debug, PartialEq, Eq)]
pub struct Artifact {
    /// What it is.
    pub kind: Kind,
    /// The package that it belongs to.
    pub package: String,
    /// The name of its target.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Runs a cargo command, and gives the executables that it built.
pub fn build(command: &mut Command) -> Result<Vec<Artifact>> {
    let messages = process::output(command.arg("--message-format=json-render-diagnostics"))?;
    Ok(messages.lines().filter_map(parse).collect())
}

/// The executable of one message, if it is about one.
fn parse(message: &str) -> Option<Artifact> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?.into();
    let target = message.get("target")?;
    let kinds = target.get("kind")?.as_array()?;
    let kind = if message.get("profile")?.get("test")?.as_bool()? {
        Kind::Test
    } else if kinds.iter().any(|kind| kind == "example") {
        Kind::Example
    } else {
        Kind::Program
    };
    let package = package(message.get("package_id")?.as_str()?).to_owned();
    Some(Artifact { kind, package, name: target.get("name")?.as_str()?.to_owned(), path })
}

/// The name in an identifier such as `path+file:///x/grapture#0.1.0` or `registry+…#name@1.0.0`.
fn package(id: &str) -> &str {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_binary_is_told_from_an_example_and_a_library() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///a/grapture#0.1.0\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"x\"}},\"profile\":{{\"test\":{test}}},\
                 \"executable\":{executable}}}"
            )
        };
        let kind = |kind, test| parse(&message(kind, test, "\"/t/x\"")).unwrap().kind;
        assert_eq!(kind("test", true), Kind::Test);
        assert_eq!(kind("lib", true), Kind::Test);
        assert_eq!(kind("example", false), Kind::Example);
        assert_eq!(kind("bin", false), Kind::Program);
        assert_eq!(parse(&message("lib", false, "null")), None);
        assert_eq!(parse(&message("test", true, "\"/t/x\"")).unwrap().package, "grapture");
    }

    #[test]
    fn the_package_is_read_from_either_form_of_its_identifier() {
        assert_eq!(package("path+file:///a/grapture-sys#0.1.0"), "grapture-sys");
        assert_eq!(package("path+file:///a/b#grapture-sys@0.1.0"), "grapture-sys");
    }
}
