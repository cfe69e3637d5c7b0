//! Misuse that the compiler must refuse: each file of `tests/ui` says at its head what it tries.
//!
//! `//~ E0505` at the end of a line: the compiler gives an error of that code there, and `//~ error`
//! one without a code. Codes and lines are compared, and no text of the compiler's, which differs
//! from version to version: the oldest that is supported and the newest must both agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// The errors of one file: a line, and a code or `error`. How many of a code a line has depends on
/// how a type is made.
type Errors = BTreeSet<(u64, String)>;

#[test]
fn misuse_does_not_compile() {
    let sources = sources();
    let expected: BTreeMap<String, Errors> = sources.iter().map(|path| expectation(path)).collect();
    let found = compile(&package(&sources));
    let mut wrong = String::new();
    for name in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let (expected, found) = (expected.get(name), found.get(name));
        if expected != found {
            wrong += &format!("tests/ui/{name}.rs: expected {expected:?}, found {found:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui")
}

fn sources() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    sources.sort();
    assert!(sources.len() > 20, "files are missing");
    sources
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// What a file says of itself.
fn expectation(path: &Path) -> (String, Errors) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.starts_with("//! "), "{}: it does not say what it tries", path.display());
    let mut errors = Errors::new();
    for (index, line) in text.lines().enumerate() {
        let codes = line.split("//~ ").skip(1);
        errors.extend(codes.map(|code| (index as u64 + 1, code.trim().to_owned())));
    }
    assert!(!errors.is_empty(), "{}: it expects no error", path.display());
    (stem(path), errors)
}

/// A package with a program for each file. Gives its manifest.
fn package(sources: &[PathBuf]) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("misuse");
    fs::create_dir_all(&package).unwrap();
    // The versions that the workspace has: nothing is fetched.
    fs::copy(crate_folder.join("../../Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let mut manifest = format!(
        "[package]\nname = \"misuse\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ngrapture = {{ path = {crate_folder:?} }}\n"
    );
    for source in sources {
        manifest += &format!("\n[[bin]]\nname = {:?}\npath = {source:?}\n", stem(source));
    }
    let path = package.join("Cargo.toml");
    fs::write(&path, manifest).unwrap();
    path
}

/// Has the programs checked, and gives the errors of each.
fn compile(manifest: &Path) -> BTreeMap<String, Errors> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--bins", "--offline", "--keep-going", "--quiet", "--message-format=json"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(manifest.with_file_name("target"))
        .output()
        .expect("cargo starts");
    let mut found = BTreeMap::<String, Errors>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).expect("cargo writes JSON");
        if let Some(error) = error(&message["message"]) {
            let target = message["target"]["name"].as_str().unwrap().to_owned();
            found.entry(target).or_default().insert(error);
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!found.is_empty(), "no program came to the compiler:\n{errors}");
    found
}

/// An error at a line. None: a warning, or the summary at the end.
fn error(message: &Value) -> Option<(u64, String)> {
    if message["level"] != "error" {
        return None;
    }
    let span = message["spans"].as_array()?.iter().find(|span| span["is_primary"] == true)?;
    let code = message["code"]["code"].as_str().unwrap_or("error");
    Some((span["line_start"].as_u64()?, code.to_owned()))
}
