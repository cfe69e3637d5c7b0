//! The record of what an H200 answered, and what is held against it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::Driver;

use crate::call;
use crate::walk::{SHOW, Step};

const NAME: &str = "h200-driver-13.0.txt";
const RECORD: &str = include_str!("h200-driver-13.0.txt");
/// The walks that are taken on a real driver, as `1..100`; those of the record if it is not set.
const WALKS: &str = "GRAPTURE_WALKS";
/// The file with the answers of a real driver, instead of the record.
const ANSWERS: &str = "GRAPTURE_WALKS_ANSWERS";
/// How long one process takes walks, and how long one of them may last.
const LIMIT: Duration = Duration::from_secs(30);
const STUCK: Duration = Duration::from_secs(8);

fn walks() -> Vec<u64> {
    let Ok(text) = std::env::var(WALKS) else { return parse(RECORD).into_keys().collect() };
    let (first, end) = text.split_once("..").expect("a range such as 1..100");
    (first.parse().expect("a number")..end.parse().expect("a number")).collect()
}

/// The answers of a walk in a line.
fn line(steps: &[Step]) -> String {
    steps.iter().map(|step| step.answer.replace(' ', "_")).collect::<Vec<_>>().join(" ")
}

fn parse(text: &str) -> BTreeMap<u64, &str> {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(seed, answers)| (seed.parse().expect("a number"), answers)).collect()
}

/// The walk up to where it is another, or nothing.
fn difference(seed: u64, recorded: &str, steps: &[Step]) -> Option<String> {
    let answers: Vec<&str> = recorded.split(' ').collect();
    let other = |(n, step): &(usize, &Step)| {
        answers.get(*n).is_none_or(|answer| *answer != step.answer.replace(' ', "_"))
    };
    let (at, step) = steps.iter().enumerate().find(other)?;
    let before = steps[..at].iter().map(|step| format!("  {} = {}\n", step.call, step.answer));
    Some(format!(
        "walk {seed}, step {at}:\n{}  {} = {}, and {} in the record\n",
        before.collect::<String>(),
        step.call,
        step.answer,
        answers.get(at).unwrap_or(&"nothing")
    ))
}

fn simulated(seed: u64) -> Vec<Step> {
    let sim = Simulation::new(SimConfig::default());
    crate::walk(sim.driver(), seed)
}

#[test]
fn sim_walks_are_those_of_the_record() {
    let answers = std::env::var_os(ANSWERS);
    let answers = answers.map(|path| std::fs::read_to_string(path).expect("the answers"));
    let record = parse(answers.as_deref().unwrap_or(RECORD));
    let other = |(seed, recorded)| difference(seed, recorded, &simulated(seed));
    let differences: Vec<String> = record.into_iter().filter_map(other).collect();
    assert!(differences.is_empty(), "{} walks\n{}", differences.len(), differences.join("\n"));
}

/// Takes walks on the driver of the system. With `GRAPTURE_BLESS` their answers become the record,
/// without those that bring a process down.
#[test]
fn gpu_walks_are_those_of_the_record() {
    let blesses = std::env::var_os("GRAPTURE_BLESS").is_some();
    let path = match std::env::var_os(ANSWERS) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("grapture-walks-{}", std::process::id())),
    };
    let _ = std::fs::remove_file(&path);
    let bad = on_the_driver(&walks(), &path);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if blesses {
        return write_record(&text);
    }
    let answered = parse(&text);
    let differs = |(seed, recorded): (u64, &str)| {
        let answers = answered.get(&seed)?;
        let mut steps = recorded.split(' ').zip(answers.split(' '));
        let at = steps.position(|(recorded, answer)| recorded != answer)?;
        Some(format!("walk {seed} at step {at}"))
    };
    let differences: Vec<String> = parse(RECORD).into_iter().filter_map(differs).collect();
    assert!(bad.is_empty() && differences.is_empty(), "brought down: {bad:?}\n{differences:#?}");
}

/// Writes the file of the source tree, or one in the current folder where there is no such tree.
fn write_record(text: &str) {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(PathBuf::new, |root| PathBuf::from(root).join("tests/walks"));
    std::fs::write(folder.join(NAME), text).expect("a place for the record");
}

/// Takes walks in processes of their own and gives those that brought theirs down.
fn on_the_driver(walks: &[u64], path: &Path) -> Vec<u64> {
    let mut bad = Vec::new();
    let mut left = walks;
    while let (Some(first), Some(last)) = (left.first(), left.last()) {
        if in_a_process(*first..last + 1, path, false) {
            break;
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let done = parse(&text);
        let Some(at) = left.iter().position(|seed| !done.contains_key(seed)) else { break };
        eprintln!("walk {} brought its process down; again, with its steps:", left[at]);
        in_a_process(left[at]..left[at] + 1, path, true);
        bad.push(left[at]);
        left = &left[at + 1..];
    }
    bad
}

/// Whether a process took walks to their end, or for as long as it may.
fn in_a_process(walks: Range<u64>, path: &Path, shows: bool) -> bool {
    let size = || std::fs::metadata(path).map_or(0, |file| file.len());
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command
        .args(["--exact", "record::walks_of_one_process", "--ignored", "--nocapture"])
        .env(WALKS, format!("{}..{}", walks.start, walks.end))
        .env(ANSWERS, path)
        .stdout(Stdio::null());
    if shows {
        command.env(SHOW, "1");
    }
    let mut child = command.spawn().expect("the process of the walks");
    let (mut last, mut since) = (size(), Instant::now());
    loop {
        if let Some(status) = child.try_wait().expect("the state of the process") {
            return status.success();
        }
        if last != size() {
            (last, since) = (size(), Instant::now());
        }
        if since.elapsed() > STUCK {
            child.kill().expect("the end of the process");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "the process of another test"]
fn walks_of_one_process() {
    let driver = Driver::load().expect("a driver");
    // Each walk begins with the same context, which is kept.
    let mut context = std::ptr::null_mut();
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
    let path = std::env::var_os(ANSWERS).expect("where the answers go");
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    let limit = Instant::now() + LIMIT;
    for seed in walks().into_iter().take_while(|_| Instant::now() < limit) {
        let steps = crate::walk(driver.clone(), seed);
        writeln!(file, "{seed}: {}", line(&steps)).expect("room for the answers");
    }
}

#[test]
fn a_difference_is_told_with_what_was_before() {
    let steps = ["0", "1", "900"]
        .map(|answer| Step { call: format!("call {answer}"), answer: answer.to_owned() });
    assert_eq!(difference(7, "0 1 900", &steps), None);
    let told = difference(7, "0 0 900", &steps).expect("a difference");
    assert_eq!(told, "walk 7, step 1:\n  call 0 = 0\n  call 1 = 1, and 0 in the record\n");
}
