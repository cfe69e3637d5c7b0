//! The tests that the table of field reports names.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Fault;

/// Where the table stands.
const TABLE: &str = "docs/field-reports.md";
/// What a row says that no test stands for.
const NO_TEST: &str = "no test: ";

/// Each row whose test does not exist, or that has none and does not say why.
pub fn check(root: &Path) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let path = root.join(TABLE);
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    for (index, line) in text.lines().enumerate() {
        let mut fault = |what| faults.push(Fault { file: TABLE.to_owned(), line: index + 1, what });
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, row, .., tests, _] = cells[..] else { continue };
        if row.parse::<u32>().is_err() {
            continue;
        }
        let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !line.contains(NO_TEST) {
            fault(format!("row {row} names no test and does not say why"));
        }
        for test in tests.iter().filter(|test| !exists(root, test)) {
            fault(format!("row {row} names `{test}`, which is no test"));
        }
    }
    Ok(faults)
}

/// Whether `suite::capture::x` stands in the file of that name as a function.
fn exists(root: &Path, test: &str) -> bool {
    let Some((file, name)) = test.rsplit_once("::") else { return false };
    let file = file.replace("::", "/");
    if file == "ui" {
        return root.join(format!("crates/grapture/tests/ui/{name}.rs")).exists();
    }
    // A case of the conformance suite is a function that a macro makes.
    let (folder, start) = match file.starts_with("conformance/") {
        true => ("grapture-sim", " "),
        false => ("grapture", "fn "),
    };
    let path = root.join(format!("crates/{folder}/tests/{file}.rs"));
    fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("{start}{name}(")))
}
