//! `grapture show`: what it prints of a file, and why it cannot.

use std::path::{Path, PathBuf};

use grapture::{
    Bindings, CaptureMode, Context, DeviceBuffer, Driver, Graph, Stream, WordCondition,
};

use crate::program::{grapture, run, without_driver};

/// Saves a graph that fills words with a value in a loop, and gives the file.
fn saved(folder: &Path, name: &str, value: u32) -> PathBuf {
    let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    let context = Context::new(&driver.device(0).unwrap()).unwrap();
    let stream = Stream::new(&context).unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&context, 64).unwrap();
    let mut left = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let rounds = WordCondition::new(&left).unwrap();
    let graph: Graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            capture.labelled("rounds", || {
                capture.while_(&rounds, |body| words.fill(value, body.stream()))
            })
        })
        .unwrap();
    let bindings = Bindings::new(&context).memory("words", &mut words);
    let bindings = bindings.and_then(|all| all.memory("left", &mut left)).unwrap();
    let path = folder.join(name);
    graph.save(&path, &bindings).unwrap();
    path
}

#[test]
fn sim_a_saved_graph_is_shown_without_a_driver() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "one.graph", 7);
    let ended = run(without_driver(folder.path()).arg("show").arg(&path));
    ended.printed(&["2 nodes, 1 dependencies\n", "while of 1 body, by left, labelled \"rounds\""]);
    ended.printed(&["0: fill 256 bytes with 0x7 in 4, to words, from ", "show.rs:"]);
    for (form, start) in [("dot", "digraph topology {"), ("mermaid", "flowchart TD"), ("json", "{")]
    {
        let ended = run(grapture().args(["show", "--as", form]).arg(&path));
        ended.printed(&[start, "while"]);
    }
    // What it gives as JSON, it shows too.
    let json = run(grapture().args(["show", "--as", "json"]).arg(&path)).output;
    let again = folder.path().join("one.json");
    std::fs::write(&again, json).unwrap();
    let list = |path: &Path| run(grapture().arg("show").arg(path)).output;
    assert_eq!(list(&again), list(&path));
}

#[test]
fn sim_what_changed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (saved(folder.path(), "one", 7), saved(folder.path(), "other", 8));
    let ended = run(grapture().arg("show").arg(&one).arg("--diff").arg(&other));
    assert_eq!(ended.output, "in the body 0 of node 1: node 0 (fill): value from 0x7 to 0x8\n");
    let ended = run(grapture().arg("show").arg(&one).arg("--diff").arg(&one));
    ended.printed(&["no change\n"]);
}

#[test]
fn files_that_are_no_graph_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    let shown = path.display();
    let missing = run(grapture().arg("show").arg(&path));
    missing.cannot(&format!("cannot show {shown}: No such file or directory (os error 2)"));
    std::fs::write(&path, "{}").unwrap();
    let ended = run(grapture().arg("show").arg(&path));
    assert_eq!(ended.code, Some(2));
    assert!(ended.errors.starts_with(&format!("grapture: cannot show {shown}: topology.json: ")));
    std::fs::write(&path, "{\"format\":\"grapture graph\",\"version\":99,\"sha256\":\"\"}\n")
        .unwrap();
    let ended = run(grapture().arg("show").arg(&path));
    assert!(ended.errors.contains("it is of version 99"), "{ended:?}");
    assert_eq!(ended.code, Some(2));
    let both = run(grapture().args(["show", "--as", "dot", "--diff", "x"]).arg(&path));
    assert_eq!(both.code, Some(2), "{both:?}");
}
