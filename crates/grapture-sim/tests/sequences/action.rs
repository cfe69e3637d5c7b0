//! Actions of one thread on streams, events, memory and graphs, each held against the [`Model`].

use std::collections::BTreeMap;

use grapture_sys::*;

use crate::common::Setup;
use crate::model::Model;
use crate::source::Source;
use crate::{call, make};

const STEPS: usize = 60;
const MOST: usize = 4;
/// The handles of a kind by the model's number, and those that are gone.
type Handles<T> = (BTreeMap<usize, T>, Vec<T>);

/// A driver beside the model.
struct Pair {
    t: Setup,
    model: Model,
    source: Source,
    log: Vec<String>,
    last: usize,
    buffer: CUdeviceptr,
    memory: Vec<CUdeviceptr>,
    streams: Handles<CUstream>,
    events: Handles<CUevent>,
    graphs: Handles<CUgraph>,
    execs: Handles<CUgraphExec>,
}

/// Runs the sequence of a seed.
pub fn sequence_holds(seed: u64) {
    let t = Setup::new();
    let buffer = t.alloc(64);
    let mut pair = Pair {
        t,
        model: Model::default(),
        source: Source::new(seed),
        log: Vec::new(),
        last: 0,
        buffer,
        memory: Vec::new(),
        streams: Default::default(),
        events: Default::default(),
        graphs: Default::default(),
        execs: Default::default(),
    };
    for _ in 0..STEPS {
        pair.step();
        pair.compare();
    }
    pair.finish();
}

impl Pair {
    /// Holds a code against the one that the rules give.
    fn expect(&mut self, what: String, code: u32, expected: u32) -> bool {
        self.log.push(format!("{what} = {code}"));
        assert_eq!(code, expected, "{:#?}", self.log);
        code == 0
    }

    fn step(&mut self) {
        let (stream, event) = (self.pick(0), self.pick(1));
        match (self.source.below(24), stream, event) {
            (0, None, _) | (0 | 1, _, _) if self.streams.0.len() < MOST => self.new_stream(),
            (2, _, None) | (2 | 3, _, _) if self.events.0.len() < MOST => self.new_event(),
            (4, Some(stream), _) => self.destroy_stream(stream),
            (5, _, Some(event)) => self.destroy_event(event),
            (6 | 7, Some(stream), _) => self.begin(stream),
            (8 | 9, Some(stream), _) => self.end(stream),
            (10 | 11, Some(stream), _) => self.work(stream),
            (12 | 13, Some(stream), Some(event)) => self.record(event, stream),
            (14 | 15, Some(stream), Some(event)) => self.wait(stream, event),
            (16, Some(stream), _) => self.ask_stream(stream),
            (17, _, Some(event)) => self.ask_event(event),
            (18, ..) => self.allocate(),
            (19, ..) => self.exchange(),
            (20, ..) => self.instantiate(),
            (21, Some(stream), _) => self.launch(stream),
            (22, ..) => self.drop_graph_or_exec(),
            _ => self.illegal(),
        }
    }

    /// The number of a stream (0) or an event (1).
    fn pick(&mut self, kind: usize) -> Option<usize> {
        let numbers: Vec<usize> = match kind {
            0 => self.streams.0.keys().copied().collect(),
            _ => self.events.0.keys().copied().collect(),
        };
        self.source.of(&numbers)
    }

    fn number(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    fn new_stream(&mut self) {
        let (number, stream) = (self.number(), self.t.stream());
        self.streams.0.insert(number, stream);
        self.model.streams.insert(number, None);
        self.log.push(format!("stream {number}"));
    }

    fn new_event(&mut self) {
        let (number, event) = (self.number(), self.t.event());
        self.events.0.insert(number, event);
        self.model.events.insert(number, Default::default());
        self.log.push(format!("event {number}"));
    }

    fn destroy_stream(&mut self, stream: usize) {
        let handle = self.streams.0.remove(&stream).unwrap();
        let code = call!(self.t, cuStreamDestroy_v2(handle));
        self.expect(format!("destroy stream {stream}"), code, 0);
        self.streams.1.push(handle);
        self.model.destroy_stream(stream);
    }

    fn destroy_event(&mut self, event: usize) {
        let handle = self.events.0.remove(&event).unwrap();
        let code = call!(self.t, cuEventDestroy_v2(handle));
        self.expect(format!("destroy event {event}"), code, 0);
        self.events.1.push(handle);
        self.model.events.remove(&event);
    }

    fn begin(&mut self, stream: usize) {
        let mode = self.source.below(3) as u32;
        let handle = self.streams.0[&stream];
        let code = call!(self.t, cuStreamBeginCapture_v2(handle, CUstreamCaptureMode(mode)));
        let expected = self.model.begin(stream, mode);
        self.expect(format!("begin {stream} in {mode}"), code, expected);
    }

    fn end(&mut self, stream: usize) {
        let mut graph: CUgraph = std::ptr::dangling_mut();
        let code = call!(self.t, cuStreamEndCapture(self.streams.0[&stream], &mut graph));
        let expected = self.model.end(stream);
        let good = self.expect(format!("end {stream}"), code, expected.err().unwrap_or(0));
        let Ok(size) = expected else { return };
        assert!(good);
        let (mut nodes, mut edges) = (0, 0);
        let none = std::ptr::null_mut();
        assert_eq!(call!(self.t, cuGraphGetNodes(graph, none, &mut nodes)), 0);
        let none = std::ptr::null_mut();
        assert_eq!(call!(self.t, cuGraphGetEdges(graph, none, none, &mut edges)), 0);
        assert_eq!((nodes, edges), size, "{:#?}", self.log);
        let number = self.number();
        self.graphs.0.insert(number, graph);
    }

    fn work(&mut self, stream: usize) {
        let code = call!(self.t, cuMemsetD32Async(self.buffer, 1, 4, self.streams.0[&stream]));
        let expected = self.model.work(stream);
        self.expect(format!("work on {stream}"), code, expected);
    }

    fn record(&mut self, event: usize, stream: usize) {
        let code = call!(self.t, cuEventRecord(self.events.0[&event], self.streams.0[&stream]));
        let expected = self.model.record(event, stream);
        self.expect(format!("record {event} on {stream}"), code, expected);
    }

    fn wait(&mut self, stream: usize, event: usize) {
        let code =
            call!(self.t, cuStreamWaitEvent(self.streams.0[&stream], self.events.0[&event], 0));
        let expected = self.model.wait(stream, event);
        self.expect(format!("{stream} waits for {event}"), code, expected);
    }

    /// Work that is not done yet answers 600, which says nothing of the rules.
    fn ask_stream(&mut self, stream: usize) {
        let handle = self.streams.0[&stream];
        let code = if self.source.chance(2) {
            call!(self.t, cuStreamQuery(handle))
        } else {
            call!(self.t, cuStreamSynchronize(handle))
        };
        let expected = self.model.ask_stream(stream);
        self.expect(format!("ask stream {stream}"), if code == 600 { 0 } else { code }, expected);
    }

    fn ask_event(&mut self, event: usize) {
        let handle = self.events.0[&event];
        let code = if self.source.chance(2) {
            call!(self.t, cuEventQuery(handle))
        } else {
            call!(self.t, cuEventSynchronize(handle))
        };
        let expected = self.model.ask_event(event);
        self.expect(format!("ask event {event}"), if code == 600 { 0 } else { code }, expected);
    }

    fn allocate(&mut self) {
        let expected = self.model.unsafe_call();
        if self.memory.is_empty() || self.source.chance(2) {
            let mut address = 0;
            let code = call!(self.t, cuMemAlloc_v2(&mut address, 100));
            if self.expect("allocate".to_owned(), code, expected) {
                self.memory.push(address);
            }
        } else {
            let address = self.memory.swap_remove(0);
            let code = call!(self.t, cuMemFree_v2(address));
            if !self.expect("free".to_owned(), code, expected) {
                self.memory.push(address);
            }
        }
    }

    fn exchange(&mut self) {
        let wanted = self.source.below(3) as u32;
        let mut mode = CUstreamCaptureMode(wanted);
        let code = call!(self.t, cuThreadExchangeStreamCaptureMode(&mut mode));
        self.expect(format!("exchange for {wanted}"), code, 0);
        assert_eq!(mode.0, std::mem::replace(&mut self.model.thread_mode, wanted));
    }

    fn instantiate(&mut self) {
        let graphs: Vec<CUgraph> = self.graphs.0.values().copied().collect();
        let Some(graph) = self.source.of(&graphs).filter(|_| self.execs.0.len() < MOST) else {
            return;
        };
        let mut exec = std::ptr::null_mut();
        let code = call!(self.t, cuGraphInstantiateWithFlags(&mut exec, graph, 0));
        let expected = self.model.unsafe_call();
        if self.expect("instantiate".to_owned(), code, expected) {
            let number = self.number();
            self.execs.0.insert(number, exec);
        }
    }

    fn launch(&mut self, stream: usize) {
        let execs: Vec<CUgraphExec> = self.execs.0.values().copied().collect();
        let Some(exec) = self.source.of(&execs) else { return };
        let code = call!(self.t, cuGraphLaunch(exec, self.streams.0[&stream]));
        let expected = self.model.uncapturable(stream);
        self.expect(format!("launch on {stream}"), code, expected);
    }

    fn drop_graph_or_exec(&mut self) {
        if self.source.chance(2)
            && let Some((number, graph)) = self.graphs.0.pop_first()
        {
            let code = call!(self.t, cuGraphDestroy(graph));
            self.expect(format!("destroy graph {number}"), code, 0);
            self.graphs.1.push(graph);
        } else if let Some((number, exec)) = self.execs.0.pop_first() {
            let code = call!(self.t, cuGraphExecDestroy(exec));
            let expected = self.model.unsafe_call();
            if self.expect(format!("destroy executable {number}"), code, expected) {
                self.execs.1.push(exec);
            } else {
                self.execs.0.insert(number, exec);
            }
        }
    }

    /// A call with a handle that names nothing of its kind fails, and nothing else happens.
    fn illegal(&mut self) {
        let bad = self.bad_handle();
        let stream: CUstream = self.streams.1.last().copied().unwrap_or(bad.cast());
        let event: CUevent = self.events.1.last().copied().unwrap_or(bad.cast());
        let graph: CUgraph = self.graphs.1.last().copied().unwrap_or(bad.cast());
        let exec: CUgraphExec = self.execs.1.last().copied().unwrap_or(bad.cast());
        let mut out = 0;
        let mut handle = std::ptr::null_mut();
        let t = &self.t;
        let code = match self.source.below(12) {
            0 => call!(t, cuStreamSynchronize(stream)),
            1 => call!(t, cuStreamQuery(bad.cast())),
            2 => call!(t, cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)),
            3 => call!(t, cuStreamEndCapture(bad.cast(), &mut handle)),
            4 => call!(t, cuStreamDestroy_v2(stream)),
            5 => call!(t, cuStreamGetId(bad.cast(), &mut out)),
            6 => call!(t, cuEventDestroy_v2(event)),
            7 => call!(t, cuEventRecord(event, bad.cast())),
            8 => call!(t, cuGraphDestroy(graph)),
            9 => call!(t, cuGraphClone(&mut handle, bad.cast())),
            10 => call!(t, cuGraphLaunch(exec, bad.cast())),
            _ => call!(t, cuModuleUnload(bad.cast())),
        };
        self.log.push(format!("illegal = {code}"));
        assert_ne!(code, 0, "{:#?}", self.log);
    }

    /// A handle of another kind, one that was never given out, or (for what is no stream) null.
    fn bad_handle(&mut self) -> *mut core::ffi::c_void {
        let context = self.t.context.cast();
        let numbers = [0x1230, 0x22ff_ffff_f000_0010, usize::MAX];
        match self.source.below(4) {
            0 => context,
            index => std::ptr::without_provenance_mut(numbers[index - 1]),
        }
    }

    /// Holds what the driver says of itself against the model.
    fn compare(&self) {
        for (number, stream) in &self.streams.0 {
            let mut status = CUstreamCaptureStatus(9);
            assert_eq!(call!(self.t, cuStreamIsCapturing(*stream, &mut status)), 0);
            assert_eq!(status.0, self.model.status(*number), "{number}: {:#?}", self.log);
        }
        let live = self.t.sim.live();
        let (captures, capturing) = self.model.capturing();
        let counted = [
            live.streams,
            live.events,
            live.graphs,
            live.execs,
            live.device_allocations,
            live.captures,
        ];
        let expected = [
            self.streams.0.len(),
            self.events.0.len(),
            self.graphs.0.len() + captures,
            self.execs.0.len(),
            self.memory.len() + 1,
            capturing,
        ];
        assert_eq!(counted, expected, "{:#?}", self.log);
    }

    fn finish(mut self) {
        for (_, stream) in std::mem::take(&mut self.streams.0) {
            assert_eq!(call!(self.t, cuStreamDestroy_v2(stream)), 0);
        }
        self.events.0.values().for_each(|event| {
            assert_eq!(call!(self.t, cuEventDestroy_v2(*event)), 0);
        });
        self.execs.0.values().for_each(|exec| {
            assert_eq!(call!(self.t, cuGraphExecDestroy(*exec)), 0);
        });
        self.graphs.0.values().for_each(|graph| {
            assert_eq!(call!(self.t, cuGraphDestroy(*graph)), 0);
        });
        self.memory.iter().chain([&self.buffer]).for_each(|address| {
            assert_eq!(call!(self.t, cuMemFree_v2(*address)), 0);
        });
        let mut mode = CUstreamCaptureMode(0);
        assert_eq!(call!(self.t, cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
        let _: CUcontext = make!(self.t, cuCtxGetCurrent());
        self.t.finish();
    }
}
