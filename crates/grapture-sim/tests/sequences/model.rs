//! [`Model`]: what the rules of captures say, with nothing of how the simulation keeps them.
//!
//! A capture is a set of nodes, each with all its ancestors. A stream in it has a frontier: the nodes
//! that its next one comes after. An event recorded there remembers the frontier.

use std::collections::{BTreeMap, BTreeSet};

type Nodes = BTreeSet<usize>;

/// What an event was last recorded as.
#[derive(Clone, Debug, Default)]
pub enum Recorded {
    #[default]
    Never,
    Outside,
    In {
        capture: usize,
        frontier: Nodes,
    },
}

#[derive(Clone, Debug)]
struct Capture {
    origin: usize,
    mode: u32,
    broken: bool,
    /// The ancestors of each node, itself among them.
    ancestors: Vec<Nodes>,
    edges: usize,
    frontiers: BTreeMap<usize, Nodes>,
}

/// What the end of a capture gives: its nodes and edges.
pub type Size = (usize, usize);

#[derive(Debug, Default)]
pub struct Model {
    /// The streams that there are, each with its capture.
    pub streams: BTreeMap<usize, Option<usize>>,
    pub events: BTreeMap<usize, Recorded>,
    captures: BTreeMap<usize, Capture>,
    last_capture: usize,
    pub thread_mode: u32,
}

impl Model {
    /// 0, 1 or 2, as `cuStreamIsCapturing` says it.
    pub fn status(&self, stream: usize) -> u32 {
        match self.streams[&stream] {
            None => 0,
            Some(capture) => 1 + u32::from(self.captures[&capture].broken),
        }
    }

    /// How many captures are not over, and how many streams are in them.
    pub fn capturing(&self) -> (usize, usize) {
        let streams = self.streams.values().filter(|capture| capture.is_some()).count();
        (self.captures.len(), streams)
    }

    fn sound(&mut self, stream: usize) -> Result<Option<&mut Capture>, u32> {
        let Some(id) = self.streams[&stream] else { return Ok(None) };
        let capture = self.captures.get_mut(&id).unwrap();
        if capture.broken { Err(901) } else { Ok(Some(capture)) }
    }

    pub fn begin(&mut self, stream: usize, mode: u32) -> u32 {
        if self.streams[&stream].is_some() {
            return 401;
        }
        self.last_capture += 1;
        let capture = Capture {
            origin: stream,
            mode,
            broken: false,
            ancestors: Vec::new(),
            edges: 0,
            frontiers: BTreeMap::from([(stream, Nodes::new())]),
        };
        self.captures.insert(self.last_capture, capture);
        self.streams.insert(stream, Some(self.last_capture));
        0
    }

    pub fn end(&mut self, stream: usize) -> Result<Size, u32> {
        let id = self.streams[&stream].ok_or(401_u32)?;
        let capture = self.captures.get_mut(&id).unwrap();
        if capture.origin != stream {
            capture.broken = true;
            return Err(903);
        }
        let capture = self.leave(id);
        if capture.broken {
            return Err(901);
        }
        let joined: Nodes = capture.frontiers[&stream]
            .iter()
            .flat_map(|node| capture.ancestors[*node].iter().copied())
            .collect();
        let all = capture.ancestors.len();
        if joined.len() == all { Ok((all, capture.edges)) } else { Err(904) }
    }

    fn leave(&mut self, id: usize) -> Capture {
        for member_of in self.streams.values_mut().filter(|capture| **capture == Some(id)) {
            *member_of = None;
        }
        self.captures.remove(&id).unwrap()
    }

    /// Work that a graph can hold.
    pub fn work(&mut self, stream: usize) -> u32 {
        let capture = match self.sound(stream) {
            Ok(Some(capture)) => capture,
            Ok(None) => return 0,
            Err(code) => return code,
        };
        let node = capture.ancestors.len();
        let frontier = capture.frontiers.get_mut(&stream).unwrap();
        let before = std::mem::replace(frontier, Nodes::from([node]));
        capture.edges += before.len();
        let mut ancestors: Nodes =
            before.iter().flat_map(|node| capture.ancestors[*node].iter().copied()).collect();
        ancestors.insert(node);
        capture.ancestors.push(ancestors);
        0
    }

    /// What no graph can hold, and what asks after a stream.
    pub fn uncapturable(&mut self, stream: usize) -> u32 {
        let Some(id) = self.streams[&stream] else { return 0 };
        self.break_with(id, 900)
    }

    pub fn record(&mut self, event: usize, stream: usize) -> u32 {
        let recorded = match self.sound(stream) {
            Err(code) => return code,
            Ok(None) => Recorded::Outside,
            Ok(Some(capture)) => {
                let frontier = capture.frontiers[&stream].clone();
                Recorded::In { capture: self.streams[&stream].unwrap(), frontier }
            }
        };
        self.events.insert(event, recorded);
        0
    }

    pub fn wait(&mut self, stream: usize, event: usize) -> u32 {
        let of_stream = self.streams[&stream];
        if let Err(code) = self.sound(stream) {
            return code;
        }
        let is_open = |model: &Model, id| model.captures.get(id).is_some_and(|c| !c.broken);
        match (of_stream, self.events[&event].clone()) {
            (None, Recorded::In { capture, frontier }) if is_open(self, &capture) => {
                self.streams.insert(stream, Some(capture));
                self.merge(capture, stream, frontier)
            }
            (None, Recorded::In { .. }) => 1,
            (None, _) | (Some(_), Recorded::Never) => 0,
            (Some(own), Recorded::Outside) => self.break_with(own, 905),
            (Some(own), Recorded::In { capture, frontier }) if own == capture => {
                self.merge(own, stream, frontier)
            }
            (Some(own), Recorded::In { capture, .. }) if is_open(self, &capture) => {
                self.break_with(capture, 0);
                self.break_with(own, 902)
            }
            (Some(own), Recorded::In { .. }) => self.break_with(own, 1),
        }
    }

    fn merge(&mut self, capture: usize, stream: usize, frontier: Nodes) -> u32 {
        let capture = self.captures.get_mut(&capture).unwrap();
        capture.frontiers.entry(stream).or_default().extend(frontier);
        0
    }

    fn break_with(&mut self, capture: usize, code: u32) -> u32 {
        self.captures.get_mut(&capture).unwrap().broken = true;
        code
    }

    /// A call that captures of this thread bar, unless they or the thread are relaxed.
    pub fn unsafe_call(&mut self) -> u32 {
        const RELAXED: u32 = 2;
        if self.thread_mode == RELAXED {
            return 0;
        }
        let mut code = 0;
        for capture in self.captures.values_mut().filter(|capture| capture.mode != RELAXED) {
            capture.broken = true;
            code = 900;
        }
        code
    }

    /// A wait for a stream or a question after it.
    pub fn ask_stream(&mut self, stream: usize) -> u32 {
        match self.uncapturable(stream) {
            0 => self.unsafe_call(),
            code => code,
        }
    }

    pub fn ask_event(&mut self, event: usize) -> u32 {
        match &self.events[&event] {
            Recorded::In { capture, .. } => match self.captures.get_mut(capture) {
                Some(capture) if !capture.broken => {
                    capture.broken = true;
                    907
                }
                _ => 1,
            },
            _ => self.unsafe_call(),
        }
    }

    /// A stream goes: its own capture ends, and one that it joined goes on without it.
    pub fn destroy_stream(&mut self, stream: usize) {
        if let Some(id) = self.streams[&stream] {
            if self.captures[&id].origin == stream {
                self.leave(id);
            } else {
                self.captures.get_mut(&id).unwrap().frontiers.remove(&stream);
            }
        }
        self.streams.remove(&stream);
    }
}
