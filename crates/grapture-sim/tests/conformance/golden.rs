//! The golden file: what the driver answered to each case. The simulated driver must answer the
//! same; on a GPU, `GRAPTURE_BLESS=1` writes what the driver there answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, PoisonError};

use similar::TextDiff;

use crate::transcript::{Transcript, writing_to};

/// Named for the device and the version of its driver.
const NAME: &str = "h200-driver-13.0.txt";
const GOLDEN: &str = include_str!("golden/h200-driver-13.0.txt");
/// The cases that the device was not asked as they stand, one a line.
const UNASKED: &str = include_str!("golden/h200-driver-13.0-unasked.txt");

/// What a case is asked of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    Simulated,
    Real,
}

/// Runs a case and compares what the driver answered with the golden file.
///
/// A case that the file lacks is not compared: `every_case_has_an_answer` names it.
pub fn case(module: &str, name: &str, tier: Tier, body: impl FnOnce()) {
    let case = Case { name: name_of(module, name), tier, transcript: Transcript::default() };
    writing_to(Some(Arc::clone(&case.transcript)), body);
    if case.blesses() {
        return;
    }
    if let Some(golden) = parse(GOLDEN).get(&case.name) {
        let answered = case.text();
        let diff = TextDiff::from_lines(golden, &answered);
        assert!(
            *golden == answered,
            "{}: another answer than in {NAME}\n{}",
            case.name,
            diff.unified_diff().header("golden", "answered")
        );
    }
}

struct Case {
    name: String,
    tier: Tier,
    transcript: Transcript,
}

impl Case {
    fn text(&self) -> String {
        let lines = self.transcript.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn blesses(&self) -> bool {
        self.tier == Tier::Real && std::env::var_os("GRAPTURE_BLESS").is_some()
    }
}

impl Drop for Case {
    /// Writes also what the driver answered before an assertion failed.
    fn drop(&mut self) {
        if !self.blesses() {
            return;
        }
        // The file of the source tree, or one in the current folder where there is no such tree.
        let folder = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(PathBuf::new, |root| PathBuf::from(root).join("tests/conformance/golden"));
        let path = folder.join(NAME);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut cases = parse(&text);
        cases.insert(self.name.clone(), self.text());
        if let Err(error) = std::fs::write(&path, print(&cases)) {
            eprintln!("cannot write {}: {error}", path.display());
        }
    }
}

/// The name of a case in the file, from the path of one of its tiers.
fn name_of(module: &str, name: &str) -> String {
    let module = module.split_once("::").map_or(module, |(_, module)| module);
    let module = module.rsplit_once("::").map_or(module, |(module, _)| module);
    format!("{module}::{name}")
}

/// Name → lines.
fn parse(text: &str) -> BTreeMap<String, String> {
    let mut cases = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("== ") {
            name = Some(next.to_owned());
            cases.insert(next.to_owned(), String::new());
        } else if let Some(case) = name.as_ref().and_then(|name| cases.get_mut(name))
            && !line.is_empty()
        {
            *case += line;
            case.push('\n');
        }
    }
    cases
}

fn print(cases: &BTreeMap<String, String>) -> String {
    cases.iter().map(|(name, lines)| format!("== {name}\n{lines}\n")).collect()
}

/// The cases of this program: the tests of the tier that a driver answers.
fn cases() -> BTreeSet<String> {
    let program = std::env::current_exe().expect("the path of this program");
    let list = Command::new(program).arg("--list").output().expect("the list of the tests");
    let list = String::from_utf8(list.stdout).expect("names");
    list.lines()
        .filter_map(|line| line.strip_suffix(": test")?.split_once("::gpu_tier::"))
        .map(|(module, name)| format!("{module}::{name}"))
        .collect()
}

#[test]
fn every_case_has_an_answer() {
    let golden: BTreeSet<String> = parse(GOLDEN).into_keys().collect();
    let unasked: BTreeSet<String> = UNASKED.lines().map(str::to_owned).collect();
    let cases = cases();
    println!("{} cases, {} of them not asked yet", cases.len(), unasked.len());
    let answered: BTreeSet<String> = golden.union(&unasked).cloned().collect();
    let unanswered: Vec<_> = cases.difference(&answered).collect();
    let gone: Vec<_> = answered.difference(&cases).collect();
    let twice: Vec<_> = golden.intersection(&unasked).collect();
    assert!(
        unanswered.is_empty() && gone.is_empty() && twice.is_empty(),
        "in {NAME}: no answer to {unanswered:#?}; no case for {gone:#?}; asked after all {twice:#?}"
    );
}

#[test]
fn a_golden_file_is_read_as_it_is_written() {
    let text = "== a::b\ncuInit = 0\n\n== a::c\n\n";
    let cases = parse(text);
    assert_eq!(cases["a::b"], "cuInit = 0\n");
    assert_eq!(print(&cases), text);
}

#[test]
fn both_tiers_of_a_case_have_one_name() {
    let names = ["sim_tier", "gpu_tier"].map(|tier| name_of(&format!("crate::m::{tier}"), "x"));
    assert_eq!(names, ["m::x", "m::x"]);
}
