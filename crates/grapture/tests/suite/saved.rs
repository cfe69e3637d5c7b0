//! Graphs in files: what comes back, and what is refused.

use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    Bindings, CaptureMode, CopyNode, CudaResult, DeviceBuffer, Event, FillNode, Graph,
    PinnedBuffer, Region2d, Stream,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::process::Command;

both_tiers! {
    a_loaded_graph_does_the_same_with_other_memory,
    child_graphs_and_rectangles_come_back,
    a_loaded_graph_keeps_what_it_uses,
    what_is_not_bound_is_refused_by_node,
    nodes_without_a_form_are_named,
    what_does_not_match_is_refused_with_the_reason,
    names_and_contexts_are_checked,
    files_that_cannot_be_are_refused,
    another_process_replays_the_same_bits,
}

const LEN: usize = 64;

/// Memory of a program that scales and adds.
struct Memory {
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    word: DeviceBuffer<u32>,
    pinned: PinnedBuffer<f32>,
}

impl Memory {
    fn new(setup: &Setup) -> Memory {
        let x: Vec<f32> = (0..LEN).map(|index| index as f32 * 0.37).collect();
        Memory {
            x: DeviceBuffer::from_slice(&setup.context, &x).unwrap(),
            y: DeviceBuffer::zeroed(&setup.context, LEN).unwrap(),
            word: DeviceBuffer::zeroed(&setup.context, 4).unwrap(),
            pinned: PinnedBuffer::zeroed(&setup.context, LEN).unwrap(),
        }
    }

    fn bindings(&mut self, setup: &Setup) -> Bindings {
        Bindings::new(&setup.context)
            .module(&setup.module, KERNELS.as_bytes())
            .and_then(|bindings| bindings.memory("x", &mut self.x))
            .and_then(|bindings| bindings.memory("y", &mut self.y))
            .and_then(|bindings| bindings.memory("word", &mut self.word))
            .and_then(|bindings| bindings.pinned("result", &mut self.pinned))
            .unwrap()
    }

    /// `y = 1.5 * x; word[1] += 7; result = y`, and a fill.
    fn record(&mut self, setup: &Setup, stream: &Stream) -> Graph {
        let axpy = setup.module.kernel("axpy").unwrap();
        let add = setup.module.kernel("add").unwrap();
        let mut record = || {
            self.y.fill(0.0, stream)?;
            let launch = axpy.launch_builder(1, LEN as u32).arg_mut(&mut self.y).arg(&self.x);
            // SAFETY: `axpy` touches 64 elements of each.
            unsafe { launch.value(1.5f32).value(LEN as u32).launch(stream) }?;
            let mut second = self.word.view_mut(1..2)?;
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { add.launch_builder(1, 1).arg_mut(&mut second).value(7u32).launch(stream) }?;
            self.y.copy_to_pinned(&mut self.pinned, stream)
        };
        stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap()
    }

    /// The bits of all that the graph writes.
    fn bits(&self, stream: &Stream) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
        let y = self.y.to_vec(stream).unwrap();
        (bits(&y), self.word.to_vec(stream).unwrap(), bits(&self.pinned.read().unwrap()))
    }
}

/// Loads what was just written.
#[track_caller]
pub(super) fn load(text: &str, bindings: &Bindings) -> Graph {
    // SAFETY: it was written by a test, for kernels whose memory is bound.
    unsafe { Graph::from_saved(text, bindings) }.unwrap()
}

#[track_caller]
pub(super) fn refusal(text: &str, bindings: &Bindings) -> String {
    // SAFETY: nothing is loaded.
    unsafe { Graph::from_saved(text, bindings) }.unwrap_err().to_string()
}

/// The file with another graph in it, and the hash of that.
pub(super) fn resealed(text: &str, change: impl FnOnce(&str) -> String) -> String {
    let (header, graph) = text.split_once('\n').unwrap();
    let changed = change(graph);
    let hash = |graph: &str| -> String {
        Sha256::digest(graph.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("{}\n{changed}", header.replace(&hash(graph), &hash(&changed)))
}

fn a_loaded_graph_does_the_same_with_other_memory(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = Memory::new(setup);
    let graph = memory.record(setup, &stream);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.graph");
    graph.save(&path, &memory.bindings(setup)).unwrap();
    assert_eq!(
        graph.to_saved(&memory.bindings(setup)).unwrap(),
        std::fs::read_to_string(&path).unwrap()
    );

    let mut other = Memory::new(setup);
    // SAFETY: the kernels touch what was bound, which is as long.
    let loaded = unsafe { Graph::load(&path, &other.bindings(setup)) }.unwrap();
    let (before, after) = (graph.topology().unwrap(), loaded.topology().unwrap());
    assert_eq!(before, after);
    let diff = before.diff(&after);
    assert!(diff.is_empty(), "{diff}");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    let exec = loaded.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(memory.bits(&stream), other.bits(&stream));
    assert_eq!(other.word.to_vec(&stream).unwrap(), [0, 7, 0, 0]);
    assert_eq!(f32::from_bits(other.bits(&stream).0[10]), 1.5 * (10.0 * 0.37));
    // What was loaded can be saved again, and is the same.
    let again = loaded.to_saved(&other.bindings(setup)).unwrap();
    assert_eq!(again, std::fs::read_to_string(&path).unwrap());
}

fn child_graphs_and_rectangles_come_back(setup: &Setup) {
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let record = |words: &mut DeviceBuffer<u32>, other: &mut DeviceBuffer<u32>| {
        let child = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(3, &stream))?;
        let mut graph = Graph::new(&setup.context)?;
        let child = graph.add_child(&child, &[])?;
        let region = Region2d::new(4, 3).pitch(8).offset(2);
        let fill = graph.add_fill(FillNode::rectangle(words, region, 9u32)?, &[child])?;
        let join = graph.add_empty(&[fill])?;
        graph.add_copy(CopyNode::device_2d(other, region, words, region)?, &[join])?;
        CudaResult::Ok(graph)
    };
    let graph = record(&mut words, &mut other).unwrap();
    let bind = |words: &mut DeviceBuffer<u32>, other: &mut DeviceBuffer<u32>| {
        Bindings::new(&setup.context).memory("words", words)?.memory("other", other)
    };
    let text = graph.to_saved(&bind(&mut words, &mut other).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    let expected = (words.to_vec(&stream).unwrap(), other.to_vec(&stream).unwrap());

    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let loaded = load(&text, &bind(&mut words, &mut other).unwrap());
    let diff = graph.topology().unwrap().diff(&loaded.topology().unwrap());
    assert!(diff.is_empty(), "{diff}");
    loaded.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((words.to_vec(&stream).unwrap(), other.to_vec(&stream).unwrap()), expected);
    assert_eq!(expected.1.iter().filter(|word| **word == 9).count(), 12);
}

fn a_loaded_graph_keeps_what_it_uses(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = Memory::new(setup);
    let text = memory.record(setup, &stream).to_saved(&memory.bindings(setup)).unwrap();
    let exec = {
        let module = setup.context.load_ptx(KERNELS).unwrap();
        let mut other = Memory::new(setup);
        let bindings = Bindings::new(&setup.context)
            .module(&module, KERNELS.as_bytes())
            .and_then(|bindings| bindings.memory("x", &mut other.x))
            .and_then(|bindings| bindings.memory("y", &mut other.y))
            .and_then(|bindings| bindings.memory("word", &mut other.word))
            .and_then(|bindings| bindings.pinned("result", &mut other.pinned));
        load(&text, &bindings.unwrap()).instantiate().unwrap()
    };
    // Whatever it wrote to is its own by now.
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let mut other = Memory::new(setup);
    let loaded = load(&text, &other.bindings(setup));
    let guard = other.pinned.write().unwrap();
    assert!(loaded.instantiate().unwrap().launch(&stream).is_err(), "the host holds the result");
    drop(guard);
    loaded.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn what_is_not_bound_is_refused_by_node(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = Memory::new(setup);
    let graph = memory.record(setup, &stream);
    let error = |bindings: CudaResult<Bindings>| {
        graph.to_saved(&bindings.unwrap()).unwrap_err().to_string()
    };
    let none = || Bindings::new(&setup.context);
    let memory_error = "it uses memory that is not bound: `Bindings::memory` and \
                        `Bindings::pinned` add it; copies from ordinary memory of the host cannot \
                        be saved";
    assert_eq!(error(Ok(none())), format!("graph.nodes: node 0: {memory_error}"));
    let y = || none().memory("y", &mut Memory::new(setup).y);
    assert_eq!(error(y()), format!("graph.nodes: node 0: {memory_error}"));
    let y = none().memory("y", &mut memory.y);
    assert_eq!(
        error(y),
        "graph.nodes: node 1: the module of its kernel is not bound: `Bindings::module` adds it"
    );
    let y = none().module(&setup.module, b"image").and_then(|all| all.memory("y", &mut memory.y));
    assert_eq!(error(y), format!("graph.nodes: node 1: {memory_error}"), "its argument x");
}

fn nodes_without_a_form_are_named(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    let bindings = Bindings::new(&setup.context);
    let refusal = |graph: &Graph| graph.to_saved(&bindings).unwrap_err().to_string();
    let host = stream.capture(CaptureMode::ThreadLocal, |_| stream.host_function(|| {})).unwrap();
    assert!(refusal(&host).starts_with("graph.nodes: node 0: it calls a function of the host"));
    let mut parent = Graph::new(&setup.context).unwrap();
    let empty = parent.add_empty(&[]).unwrap();
    parent.add_child(&host, &[empty]).unwrap();
    assert!(refusal(&parent).starts_with("graph.nodes: node 1.0: it calls a function of the host"));
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_event_record(&event, &[]).unwrap();
    assert!(refusal(&graph).contains("node 0: its event is not bound"), "{}", refusal(&graph));
}

fn what_does_not_match_is_refused_with_the_reason(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = Memory::new(setup);
    let text = memory.record(setup, &stream).to_saved(&memory.bindings(setup)).unwrap();
    let bindings = memory.bindings(setup);
    for (from, to, reason) in [
        ("\"axpy\"", "\"nowhere\"", "node 1: kernel.name: "),
        ("\"axpy\"", "\"add\"", "node 1: graph.file: `add` takes arguments of [8, 4] bytes"),
        ("\"axpy\"", "\"a\\u0000b\"", "node 1: kernel.name: "),
        ("\"module\": 0", "\"module\": 1", "it names module 1, and there is none"),
        ("\"memory\": 1", "\"memory\": 9", "it names memory 9, and there is none"),
        ("\"offset\": 4", "\"offset\": 16", "it reaches past the 16 bytes of the memory \"word\""),
        ("\"offset\": 4", "\"offset\": 18446744073709551615", "it reaches past"),
        ("\"row_bytes\": 256", "\"row_bytes\": 257", "it reaches past the 256 bytes"),
        ("\"row_bytes\": 256", "\"row_bytes\": 0", "its rows have no bytes"),
        ("\"element_bytes\": 4", "\"element_bytes\": 3", "it fills with elements of 3 bytes"),
        ("\"row_elements\": 64", "\"row_elements\": 9223372036854775807", "its rows are too long"),
        ("\"x\": 1,", "\"x\": 0,", "it is 0, and every dimension is at least 1"),
        ("\"at\": 0", "\"at\": 1", "an address reaches past the end of its argument"),
        ("\"at\": 0", "\"at\": 18446744073709551615", "an address reaches past"),
        ("\"from\": 0", "\"from\": 3", "they form a cycle"),
        ("\"from\": 0", "\"from\": 77", "names node 77"),
        ("\"name\": \"x\"", "\"name\": \"z\"", "the memory \"z\" is not bound"),
        ("\"kind\": \"pinned\"", "\"kind\": \"device\"", "is Pinned memory here, and was Device"),
        ("\"bytes\": 16", "\"bytes\": 17", "the memory \"word\" has 16 bytes here, and had 17"),
        ("\"top\"", "\"toop\"", "unknown field `toop`"),
        ("\"fill\"", "\"dance\"", "unknown variant `dance`"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let changed = resealed(&text, |graph| graph.replacen(from, to, 1));
        let refused = refusal(&changed, &bindings);
        assert!(refused.contains(reason), "{from} to {to}: {refused}");
    }
    let hex = resealed(&text, |graph| graph.replacen("\"bytes\": \"", "\"bytes\": \"x", 1));
    assert!(refusal(&hex, &bindings).contains("are not hexadecimal"));
    let mut short = DeviceBuffer::<f32>::zeroed(&setup.context, 1).unwrap();
    let bindings = Bindings::new(&setup.context).module(&setup.module, b"another image").unwrap();
    assert!(refusal(&text, &bindings).contains("is not bound"));
    let bindings = Bindings::new(&setup.context)
        .module(&setup.module, KERNELS.as_bytes())
        .and_then(|bindings| bindings.memory("x", &mut short));
    let refused = refusal(&text, &bindings.unwrap());
    assert_eq!(refused, "graph.file: the memory \"x\" has 4 bytes here, and had 256");
    setup.assert_usable(&stream);
}

fn names_and_contexts_are_checked(setup: &Setup) {
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let twice = Bindings::new(&setup.context)
        .memory("word", &mut word)
        .and_then(|bindings| bindings.memory("word", &mut other));
    assert_eq!(
        twice.unwrap_err().to_string(),
        "name: \"word\" is bound already: give each thing a name of its own"
    );
}

/// Child graphs within child graphs.
fn nested(depth: usize) -> String {
    let child = r#"{"nodes": [{"do": {"child": "#.repeat(depth);
    format!(r#"{{"modules": [], "memory": [], "top": {child}"#)
}

fn files_that_cannot_be_are_refused(setup: &Setup) {
    let bindings = Bindings::new(&setup.context);
    let graph = Graph::new(&setup.context).unwrap();
    let text = graph.to_saved(&bindings).unwrap();
    assert!(load(&text, &bindings).nodes().unwrap().is_empty());
    for (text, reason) in [
        (String::new(), "it is no saved graph"),
        ("\u{0}\u{1}ELF".to_owned(), "it is no saved graph"),
        ("{}\n{}".to_owned(), "it is no saved graph"),
        (text.replace("grapture graph", "other graph"), "it is no saved graph"),
        (text.replace("\"version\":2", "\"version\":1"), "it is of version 1, and this library"),
        (text.replace("\"top\"", "\"tip\""), "it was damaged or changed"),
        (text.trim_end_matches('}').to_owned(), "it was damaged or changed"),
        (resealed(&text, |_| String::new()), "EOF"),
        (resealed(&text, |_| nested(100_000)), "recursion limit"),
    ] {
        let refused = refusal(&text, &bindings);
        assert!(refused.starts_with("graph.file: "), "{refused}");
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/step.graph");
    assert!(graph.save(&missing, &bindings).unwrap_err().to_string().contains("cannot be written"));
    // SAFETY: nothing is loaded.
    let error = unsafe { Graph::load(&missing, &bindings) }.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    std::fs::write(folder.path().join("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    // SAFETY: nothing is loaded.
    let error = unsafe { Graph::load(folder.path().join("binary"), &bindings) }.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

/// Where the other process finds the graph and writes what it got.
const FOLDER: &str = "GRAPTURE_TEST_SAVED_FOLDER";

fn another_process_replays_the_same_bits(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = Memory::new(setup);
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = std::path::PathBuf::from(folder);
        // SAFETY: the kernels touch what is bound, which is as long.
        let graph = unsafe { Graph::load(folder.join("graph"), &memory.bindings(setup)) }.unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        std::fs::write(folder.join("bits"), format!("{:?}", memory.bits(&stream))).unwrap();
        return;
    }
    let graph = memory.record(setup, &stream);
    let folder = tempfile::tempdir().unwrap();
    graph.save(folder.path().join("graph"), &memory.bindings(setup)).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let name = if name == "main" { test_name() } else { name };
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    let bits = std::fs::read_to_string(folder.path().join("bits")).unwrap();
    assert_eq!(bits, format!("{:?}", memory.bits(&stream)));
}

/// With one thread for all tests, that has no name.
fn test_name() -> String {
    let tier =
        if std::env::args().any(|argument| argument.contains("gpu")) { "gpu" } else { "sim" };
    format!("saved::{tier}_tier::another_process_replays_the_same_bits")
}

/// A simulated driver with a graph in it that was saved.
fn saved() -> (Setup, Memory, String) {
    let setup = Setup::simulated();
    let mut memory = Memory::new(&setup);
    let text = memory.record(&setup, &setup.stream()).to_saved(&memory.bindings(&setup)).unwrap();
    (setup, memory, text)
}

/// Whatever the file holds, it is refused or gives a graph.
fn survives(setup: &Setup, memory: &mut Memory, text: &str) {
    // SAFETY: the graph is never launched.
    if let Ok(graph) = unsafe { Graph::from_saved(text, &memory.bindings(setup)) } {
        graph.topology().unwrap();
        let _ = graph.instantiate();
    }
}

#[test]
fn sim_damaged_files_are_refused_and_never_crash() {
    let (setup, mut memory, text) = saved();
    let memory = std::cell::RefCell::new(&mut memory);
    survives_damage(&text, |text| survives(&setup, &mut memory.borrow_mut(), text));
}

/// Gives `survives` the file with any byte in any place, sealed or not.
pub(super) fn survives_damage(text: &str, survives: impl Fn(&str)) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        cases: 512,
        ..ProptestConfig::default()
    });
    let place = any::<prop::sample::Index>();
    runner
        .run(&(place, any::<u8>(), any::<bool>()), |(place, byte, seal)| {
            let broken = |text: &str| {
                let mut bytes = text.as_bytes().to_vec();
                let at = place.index(bytes.len());
                bytes[at] = byte;
                String::from_utf8_lossy(&bytes).into_owned()
            };
            survives(&if seal { resealed(text, broken) } else { broken(text) });
            Ok(())
        })
        .unwrap();
}

#[test]
fn sim_files_with_other_numbers_are_refused_or_whole() {
    let (setup, mut memory, text) = saved();
    let shared = std::cell::RefCell::new(&mut memory);
    survives_numbers(&text, |text| survives(&setup, &mut shared.borrow_mut(), text));
    setup.assert_usable(&setup.stream());
}

/// Gives `survives` the file with other numbers in the place of each.
pub(super) fn survives_numbers(text: &str, survives: impl Fn(&str)) {
    let numbers: Vec<(usize, usize)> = {
        let digits: Vec<usize> =
            text.char_indices().filter(|(_, one)| one.is_ascii_digit()).map(|(at, _)| at).collect();
        let starts = digits.iter().filter(|at| !digits.contains(&at.wrapping_sub(1)));
        let end = |start: usize| (start..).find(|at| !digits.contains(at)).unwrap_or(start);
        starts.map(|start| (*start, end(*start))).collect()
    };
    let first_of_graph = text.find('\n').unwrap() + 1;
    for (start, end) in numbers.into_iter().filter(|(start, _)| *start > first_of_graph) {
        for number in [
            "0",
            "1",
            "2",
            "3",
            "65536",
            "4294967295",
            "9223372036854775808",
            "18446744073709551615",
            "-1",
            "1e9",
        ] {
            let changed = format!("{}{number}{}", &text[..start], &text[end..]);
            let graph = changed[first_of_graph..].to_owned();
            survives(&resealed(text, |_| graph));
        }
    }
}
