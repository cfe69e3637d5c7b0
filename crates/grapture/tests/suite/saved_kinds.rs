//! What else graphs in files have: functions, events, batches, memory of the graph, conditional nodes,
//! images of modules, labels and lines.

use super::conditional::PTX;
use super::saved::{load, refusal, resealed, survives_damage, survives_numbers};
use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    BatchNode, Bindings, CaptureMode, Context, CopyNode, CudaResult, DeviceBuffer, Event, FillNode,
    Graph, Module, Stream, Topology, WaitFor, WordCondition,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

both_tiers! {
    every_kind_comes_back,
    captured_branches_and_loops_come_back,
    conditions_of_kernels_come_back,
    memory_of_a_capture_comes_back,
    memory_of_a_child_comes_back,
    images_in_the_file_are_loaded,
    what_cannot_be_saved_says_what_to_do,
    what_is_not_bound_is_named,
    files_that_cannot_be_are_refused,
    a_file_is_looked_at_without_a_driver,
}

fn words(context: &Context, len: usize) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(context, len).unwrap()
}

/// What the graphs of this file use.
struct World {
    x: DeviceBuffer<u32>,
    y: DeviceBuffer<u32>,
    done: Event,
    calls: Arc<AtomicU32>,
    module: Module,
    own: Module,
}

impl World {
    fn new(setup: &Setup) -> World {
        World {
            x: words(&setup.context, 16),
            y: words(&setup.context, 16),
            done: Event::new(&setup.context).unwrap(),
            calls: Arc::default(),
            module: setup.module.clone(),
            own: setup.context.load_ptx(PTX).unwrap(),
        }
    }

    fn bindings(&mut self, setup: &Setup) -> Bindings {
        let calls = self.calls.clone();
        Bindings::new(&setup.context)
            .module(&self.module, KERNELS.as_bytes())
            .and_then(|all| all.module(&self.own, PTX.as_bytes()))
            .and_then(|all| all.memory("x", &mut self.x))
            .and_then(|all| all.memory("y", &mut self.y))
            .and_then(|all| all.event("done", &self.done))
            .and_then(|all| all.host("count", move || _ = calls.fetch_add(1, Ordering::Relaxed)))
            .unwrap()
    }

    fn results(&self, stream: &Stream) -> (Vec<u32>, Vec<u32>) {
        (self.x.to_vec(stream).unwrap(), self.y.to_vec(stream).unwrap())
    }
}

/// A node of each kind that the builder has.
fn built(setup: &Setup, world: &mut World) -> CudaResult<Graph> {
    let add = world.module.kernel("add")?;
    let mut graph = Graph::new(&setup.context)?;
    let fill = graph.add_fill(FillNode::new(&mut world.x, 3)?, &[])?;
    graph.set_label(fill, "fill \"x\"\n")?;
    let host = graph.add_host(|| {}, &[fill])?;
    graph.set_label(host, "count")?;
    let record = graph.add_event_record(&world.done, &[host])?;
    let wait = graph.add_event_wait(&world.done, &[record])?;
    let batch = BatchNode::new(&setup.context)
        .write(&mut world.x.view_mut(1..2)?, 40u32)?
        .wait(&world.x.view(1..2)?, WaitFor::AtLeast(40))?
        .barrier()?;
    let batch = graph.add_batch(batch, &[wait])?;
    let mut scratch = graph.add_alloc::<u32>(4, &[])?;
    let into = graph.add_fill(FillNode::new(&mut scratch, 5)?, &[batch])?;
    // SAFETY: `add` takes the address of a word and a value.
    let sum = unsafe {
        graph.add_kernel(add.launch_builder(1, 1).arg_mut(&mut scratch).value(2u32), &[into])
    }?;
    let out = CopyNode::device(&mut world.y.view_mut(..4)?, &scratch)?;
    let out = graph.add_copy(out, &[sum])?;
    let free = graph.add_free(&scratch, &[])?;
    let condition = graph.condition(1)?;
    let last = graph.add_switch(&condition, 3, &[out, free], |case, body| {
        let mut target = world.y.view_mut(4 + case..5 + case)?;
        body.add_fill(FillNode::new(&mut target, 9)?, &[]).map(drop)
    })?;
    let rounds = WordCondition::new(&world.x.view(2..)?)?;
    graph.add_while(&rounds, &[last], |body| {
        let (mut left, mut sum) = (world.x.view_mut(2..)?, world.y.view_mut(10..)?);
        let launch = add.launch_builder(1, 1).arg_mut(&mut left).value(u32::MAX);
        // SAFETY: as above.
        let down = unsafe { body.add_kernel(launch, &[]) }?;
        let launch = add.launch_builder(1, 1).arg_mut(&mut sum).value(1u32);
        // SAFETY: as above.
        unsafe { body.add_kernel(launch, &[down]) }.map(drop)
    })?;
    Ok(graph)
}

/// Saves and loads the graph, and runs both: they leave the same.
#[track_caller]
fn same_after(setup: &Setup, record: impl Fn(&mut World) -> CudaResult<Graph>) -> String {
    let stream = setup.stream();
    let mut world = World::new(setup);
    let graph = record(&mut world).unwrap();
    let text = graph.to_saved(&world.bindings(setup)).unwrap();
    assert_eq!(text, graph.to_saved(&world.bindings(setup)).unwrap(), "the same text each time");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let mut other = World::new(setup);
    let loaded = load(&text, &other.bindings(setup));
    let topology = loaded.topology().unwrap();
    assert_eq!(topology.to_string(), graph.topology().unwrap().to_string());
    let exec = loaded.instantiate().unwrap();
    drop(loaded);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(other.results(&stream), world.results(&stream), "{topology}");
    // And so does what is loaded be saved.
    let again = load(&text, &other.bindings(setup));
    let text_of =
        |graph: &Graph, world: &mut World| graph.to_saved(&world.bindings(setup)).unwrap();
    assert_eq!(text_of(&again, &mut other), text);
    setup.assert_usable(&stream);
    text
}

fn every_kind_comes_back(setup: &Setup) {
    let text = same_after(setup, |world| built(setup, world));
    let stream = setup.stream();
    let mut world = World::new(setup);
    let graph = load(&text, &world.bindings(setup));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let (x, y) = world.results(&stream);
    assert_eq!(x[..4], [3, 40, 0, 3]);
    assert_eq!(y[..11], [7, 5, 5, 5, 0, 9, 0, 0, 0, 0, 3]);
    assert_eq!(world.calls.load(Ordering::Relaxed), 1);
    assert_eq!(graph.topology().unwrap().nodes()[0].label(), Some("fill \"x\"\n"));
}

fn captured_branches_and_loops_come_back(setup: &Setup) {
    same_after(setup, |world| {
        let stream = setup.stream();
        let rounds = WordCondition::new(&world.x)?;
        let World { x, y, .. } = world;
        stream.capture(CaptureMode::ThreadLocal, |capture| {
            x.fill(3, &stream)?;
            capture.labelled("rounds", || {
                capture.while_(&rounds, |round| {
                    round.if_(&rounds, |body| setup.add(y, 1, body.stream()))?;
                    setup.add(x, u32::MAX, round.stream())
                })
            })?;
            setup.add(y, 10, &stream)
        })
    });
}

fn conditions_of_kernels_come_back(setup: &Setup) {
    same_after(setup, |world| {
        let stream = setup.stream();
        let count = world.own.kernel("count")?;
        let World { x, y, .. } = world;
        stream.capture(CaptureMode::ThreadLocal, |capture| {
            let (second, first) = (capture.condition(1)?, capture.condition(1)?);
            for (condition, word, limit) in [(first, x, 5u32), (second, y, 7)] {
                capture.while_(&condition, |body| {
                    let launch =
                        count.launch_builder(1, 1).condition(&condition).arg_mut(word).value(limit);
                    // SAFETY: `count` takes a condition, the address of a word, and a value.
                    unsafe { launch.launch(body.stream()) }
                })?;
            }
            Ok(())
        })
    });
}

fn memory_of_a_capture_comes_back(setup: &Setup) {
    same_after(setup, |world| {
        let stream = setup.stream();
        let World { x, y, .. } = world;
        stream.capture(CaptureMode::ThreadLocal, |capture| {
            for value in [3, 4] {
                let mut scratch = capture.alloc_temporary::<u32>(16)?;
                scratch.fill(value, &stream)?;
                x.fill(1, &stream)?;
                let target = if value == 3 { &mut *x } else { &mut *y };
                target.view_mut(..8)?.copy_from(&scratch.view(..8)?, &stream)?;
            }
            Ok(())
        })
    });
}

fn memory_of_a_child_comes_back(setup: &Setup) {
    same_after(setup, |world| {
        let mut child = Graph::new(&setup.context)?;
        let mut scratch = child.add_alloc::<u32>(4, &[])?;
        let fill = child.add_fill(FillNode::new(&mut scratch, 6)?, &[])?;
        child.add_copy(CopyNode::device(&mut world.x.view_mut(..4)?, &scratch)?, &[fill])?;
        child.add_free(&scratch, &[])?;
        let mut graph = Graph::new(&setup.context)?;
        let fill = graph.add_fill(FillNode::new(&mut world.y, 2)?, &[])?;
        graph.add_child_moved(child, &[fill])?;
        Ok(graph)
    });
}

fn images_in_the_file_are_loaded(setup: &Setup) {
    let stream = setup.stream();
    let mut word = words(&setup.context, 1);
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| setup.add(&mut word, 5, &stream));
    let graph = graph.unwrap();
    let bindings = Bindings::new(&setup.context).memory("word", &mut word).unwrap();
    let bindings = bindings.embedded_module(&setup.module, KERNELS.as_bytes()).unwrap();
    let text = graph.to_saved(&bindings).unwrap();
    drop((graph, bindings));
    let mut other = words(&setup.context, 1);
    let bindings = Bindings::new(&setup.context).memory("word", &mut other).unwrap();
    let exec = load(&text, &bindings).instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(other.to_vec(&stream).unwrap(), [5]);
    let changed = resealed(&text, |graph| graph.replacen("ld.param", "ld.Param", 1));
    assert!(refusal(&changed, &bindings).contains("is another one"), "the image was changed");
    let changed = resealed(&text, |graph| graph.replacen("\"text\"", "\"bytes\"", 1));
    assert!(refusal(&changed, &bindings).contains("is another one"), "no hexadecimal");
    // Bytes that are no text stand in hexadecimal, and no module comes of them here.
    let image = [0x7f, b'E', b'L', b'F', 0xff, 0];
    let binary = Bindings::new(&setup.context).embedded_module(&setup.module, &image).unwrap();
    let text = Graph::new(&setup.context).unwrap().to_saved(&binary).unwrap();
    assert!(text.contains("\"bytes\": \"7f454c46ff00\""), "{text}");
    assert!(load(&text, &binary).nodes().unwrap().is_empty());
    setup.assert_usable(&stream);
}

fn what_cannot_be_saved_says_what_to_do(setup: &Setup) {
    let stream = setup.stream();
    let none = || Bindings::new(&setup.context);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(|| {}, &[]).unwrap();
    let error = |graph: &Graph| graph.to_saved(&none()).unwrap_err().to_string();
    assert_eq!(
        error(&graph),
        "graph.nodes: node 0: it calls a function of the host, and has no label: label the node with \
         a name that `Bindings::host` gives a function"
    );
    graph.set_label(node, "tick").unwrap();
    assert!(error(&graph).contains("none is bound by its label \"tick\""), "{}", error(&graph));
    assert!(graph.to_saved(&none().host("tick", || {}).unwrap()).is_ok());

    let event = Event::new(&setup.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_event_record(&event, &[]).unwrap();
    let expected = "graph.nodes: node 0: its event is not bound: `Bindings::event` adds it";
    assert_eq!(error(&graph), expected);
    let other = none().event("other", &Event::new(&setup.context).unwrap()).unwrap();
    assert_eq!(graph.to_saved(&other).unwrap_err().to_string(), expected);

    let graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            capture.alloc_temporary::<u32>(4)?.into_output();
            Ok(())
        })
        .unwrap();
    assert_eq!(error(&graph), "graph.nodes: node 0: no node frees the memory that it allocates");
    let word = words(&setup.context, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_if(&WordCondition::new(&word).unwrap(), &[], |_| Ok(())).unwrap();
    assert!(
        error(&graph).contains("node 0: it uses memory that is not bound"),
        "{}",
        error(&graph)
    );
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut out = words(&setup.context, 1);
    let condition = graph.condition(1).unwrap();
    let built = graph
        .add_if(&condition, &[], |body| body.add_fill(FillNode::new(&mut out, 1)?, &[]).map(drop));
    built.unwrap();
    assert!(error(&graph).contains("node 0.body 0.0: it uses memory"), "{}", error(&graph));
    graph.condition(1).unwrap();
    let bound = none().memory("out", &mut out).unwrap();
    assert!(graph.to_saved(&bound).is_ok(), "the last condition is in no argument");
    let tick = none().host("tick", || {}).and_then(|all| all.host("tick", || {}));
    let expected = "name: \"tick\" is bound already: give each thing a name of its own";
    assert_eq!(tick.unwrap_err().to_string(), expected);
    let twice = none().event("e", &event).and_then(|all| all.event("e", &event));
    assert!(twice.unwrap_err().to_string().contains("\"e\" is bound already"));
}

fn what_is_not_bound_is_named(setup: &Setup) {
    let mut world = World::new(setup);
    let text = built(setup, &mut world).unwrap().to_saved(&world.bindings(setup)).unwrap();
    let bound = || {
        let bindings = Bindings::new(&setup.context).module(&setup.module, KERNELS.as_bytes());
        let mut other = World::new(setup);
        let bindings = bindings.and_then(|all| all.module(&other.own, PTX.as_bytes()));
        let bindings = bindings.and_then(|all| all.memory("x", &mut other.x));
        bindings.and_then(|all| all.memory("y", &mut other.y)).unwrap()
    };
    let refused = refusal(&text, &bound());
    assert!(refused.ends_with("the function \"count\" is not bound"), "{refused}");
    let refused = refusal(&text, &bound().host("count", || {}).unwrap());
    assert!(refused.ends_with("the event \"done\" is not bound"), "{refused}");
    setup.assert_usable(&setup.stream());
}

fn files_that_cannot_be_are_refused(setup: &Setup) {
    let mut world = World::new(setup);
    let text = built(setup, &mut world).unwrap().to_saved(&world.bindings(setup)).unwrap();
    let bindings = world.bindings(setup);
    for (from, to, reason) in [
        ("\"allocate\": 2", "\"allocate\": 1", "no node"),
        ("\"allocate\": 2", "\"free\": 2", "a second time"),
        ("\"free\": 2", "\"free\": 9", "no node frees the memory"),
        ("\"form\": \"switch\"", "\"form\": \"while\"", "it is a `While` of 3 bodies"),
        ("\"form\": \"switch\"", "\"form\": \"for\"", "unknown variant `for`"),
        ("\"condition\": 0", "\"condition\": 7", "it names condition 7, and there is none"),
        ("\"condition\": 0", "\"condition\": 1", "a conditional node goes by it already"),
        ("\"host\": \"count\"", "\"host\": \"mount\"", "the function \"mount\" is not bound"),
        ("\"event_wait\": \"done\"", "\"event_wait\": \"gone\"", "the event \"gone\" is not bound"),
        ("\"at_least\"", "\"at_most\"", "unknown variant `at_most`"),
        ("\"kind\": \"graph\"", "\"kind\": \"device\"", "is not bound"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let changed = resealed(&text, |graph| graph.replacen(from, to, 1));
        let refused = refusal(&changed, &bindings);
        assert!(refused.contains(reason), "{from} to {to}: {refused}");
    }
    // A body that calls the host, and memory that is used too early.
    let of = |nodes: &str, edges: &str| {
        let graph = format!(
            "{{\"modules\": [], \"memory\": [{{\"name\": \"g\", \"kind\": \"graph\", \"bytes\": 64}}], \
             \"conditions\": [1], \"top\": {{\"nodes\": [{nodes}], \"edges\": [{edges}]}}}}"
        );
        refusal(&resealed(&text, |_| graph), &bindings)
    };
    let host = r#"{"nodes": [{"do": {"host": "count"}}], "edges": []}"#;
    let branch =
        format!(r#"{{"do": {{"branch": {{"form": "if", "condition": 0, "bodies": [{host}]}}}}}}"#);
    let refused = of(&branch, "");
    assert!(refused.contains("node 0 of body 0 is a host function"), "{refused}");
    let (alloc, free) = (r#"{"do": {"allocate": 0}}"#, r#"{"do": {"free": 0}}"#);
    let fill = r#"{"do": {"fill": {"to": {"memory": 0, "offset": 0}, "pitch": 0, "value": 1,
        "element_bytes": 4, "row_elements": 16, "rows": 1}}}"#;
    let nodes = format!("{alloc}, {fill}, {free}");
    let edge = |from: usize, to: usize| format!("{{\"from\": {from}, \"to\": {to}}}");
    for edges in [
        String::new(),
        edge(0, 1),
        [edge(0, 2), edge(0, 1)].join(","),
        [edge(1, 0), edge(0, 2)].join(","),
    ] {
        let refused = of(&nodes, &edges);
        assert!(refused.contains("uses memory before it is there"), "{edges}: {refused}");
    }
    assert!(
        of(&format!("{fill}, {alloc}, {free}"), &[edge(1, 0), edge(0, 2)].join(","))
            .contains("that no node before it allocates")
    );
    setup.assert_usable(&setup.stream());
}

fn a_file_is_looked_at_without_a_driver(setup: &Setup) {
    let mut world = World::new(setup);
    let graph = built(setup, &mut world).unwrap();
    let text = graph.to_saved(&world.bindings(setup)).unwrap();
    let (looked, told) = (Topology::from_saved(&text).unwrap(), graph.topology().unwrap());
    assert_eq!(looked, told, "{looked}\n{told}");
    let differ: Vec<_> = looked.diff(&told).changes().iter().map(ToString::to_string).collect();
    assert!(differ.iter().all(|change| change.contains(": ")), "names alone: {differ:?}");
    let list = looked.to_string();
    for part in [
        "to x, labelled \"fill \\\"x\\\"\\n\", from ",
        "host function, function count, labelled \"count\"",
        "event record, event done",
        "operation 1 wait for x + 4 >= 0x28 in 4 bytes, operation 2 barrier",
        "switch of 3 bodies, by condition 0x1, default 0x1",
        "while of 1 body, by x + 8",
        "allocation of 16 bytes, memory allocated by node 5",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let lines = |topology: &Topology| -> Vec<_> {
        topology.nodes().iter().map(|node| node.line().cloned()).collect()
    };
    assert_eq!(lines(&looked), lines(&told));
    assert!(Topology::from_saved("nonsense").unwrap_err().to_string().contains("no saved graph"));
}

/// A simulated driver, and a file with every kind of node.
fn rich() -> (Setup, World, String) {
    let setup = Setup::simulated();
    let mut world = World::new(&setup);
    let graph = built(&setup, &mut world).unwrap();
    let text = graph.to_saved(&world.bindings(&setup)).unwrap();
    (setup, world, text)
}

#[test]
fn sim_damaged_files_of_every_kind_never_crash() {
    let (setup, mut world, text) = rich();
    let bindings = world.bindings(&setup);
    survives_damage(&text, |text| survives(text, &bindings));
    setup.assert_usable(&setup.stream());
}

#[test]
fn sim_files_of_every_kind_with_other_numbers_are_refused_or_whole() {
    let (setup, mut world, text) = rich();
    let bindings = world.bindings(&setup);
    survives_numbers(&text, |text| survives(text, &bindings));
    setup.assert_usable(&setup.stream());
}

/// Whatever the file holds, it is refused or gives a graph.
fn survives(text: &str, bindings: &Bindings) {
    let _ = Topology::from_saved(text);
    // SAFETY: the graph is never launched.
    if let Ok(graph) = unsafe { Graph::from_saved(text, bindings) } {
        graph.topology().unwrap();
        let _ = graph.instantiate();
    }
}
