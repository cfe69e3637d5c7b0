//! Programs of nested conditional nodes, made at random: what they leave is what a plain evaluation
//! of the same program leaves.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::Rig;
use crate::steering::{IF, SWITCH, Steering, WHILE, add, bodies, conditional, handle};

tiers! {
    both {
        programs_leave_what_their_evaluation_leaves,
    }
}

/// What a program does, one after the other.
type Program = Vec<Step>;

enum Step {
    /// Appends a digit to the result.
    Push(u32),
    /// Runs the first program unless the value is zero, else the second, if there is one.
    If(u32, Vec<Program>),
    /// Runs the program with this number, if there is one.
    Switch(u32, Vec<Program>),
    /// Runs the program so many times.
    Repeat(u32, Vec<Program>),
}

/// Numbers by a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    /// A number less than `sides`.
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(sides)) as u32
    }

    fn program(&mut self, depth: u32) -> Program {
        let len = 1 + self.roll(3);
        (0..len).map(|_| self.step(depth)).collect()
    }

    fn programs(&mut self, count: u32, depth: u32) -> Vec<Program> {
        (0..count).map(|_| self.program(depth - 1)).collect()
    }

    fn step(&mut self, depth: u32) -> Step {
        let kind = if depth == 0 { 0 } else { self.roll(4) };
        let count = 1 + self.roll(3);
        match kind {
            1 => Step::If(self.roll(3), self.programs(count.min(2), depth)),
            2 => Step::Switch(self.roll(4), self.programs(count, depth)),
            3 => Step::Repeat(self.roll(4), self.programs(1, depth)),
            _ => Step::Push(1 + self.roll(9)),
        }
    }
}

fn evaluate(program: &Program, result: &mut u32) {
    for step in program {
        match step {
            Step::Push(digit) => *result = result.wrapping_mul(10).wrapping_add(*digit),
            Step::If(value, programs) => {
                let chosen = programs.get(usize::from(*value == 0));
                chosen.into_iter().for_each(|program| evaluate(program, result));
            }
            Step::Switch(value, programs) => {
                let chosen = programs.get(*value as usize);
                chosen.into_iter().for_each(|program| evaluate(program, result));
            }
            Step::Repeat(rounds, programs) => {
                (0..*rounds).for_each(|_| evaluate(&programs[0], result));
            }
        }
    }
}

/// Makes nodes of programs in one graph and its bodies.
struct Builder<'r> {
    rig: &'r Rig,
    steering: &'r Steering<'r>,
    root: CUgraph,
    /// The words in use: the result, and a counter for each loop.
    words: usize,
}

impl Builder<'_> {
    /// Adds a program behind some nodes; gives the last node.
    fn program(
        &mut self,
        graph: CUgraph,
        after: &[CUgraphNode],
        program: &Program,
    ) -> Vec<CUgraphNode> {
        let mut last = after.to_vec();
        for step in program {
            last = vec![match step {
                Step::Push(digit) => self.steering.pushes(graph, &last, 0, *digit),
                Step::If(value, programs) => self.choice(graph, &last, IF, *value, programs),
                Step::Switch(value, programs) => {
                    self.choice(graph, &last, SWITCH, *value, programs)
                }
                Step::Repeat(rounds, programs) => self.repeat(graph, &last, *rounds, &programs[0]),
            }];
        }
        last
    }

    fn node(
        &self,
        graph: CUgraph,
        after: CUgraphNode,
        handle: u64,
        (kind, size): (CUgraphConditionalNodeType, usize),
    ) -> (CUgraphNode, CUgraphNodeParams) {
        let mut params = conditional(self.rig, handle, kind, size as u32);
        let (code, node) = add(self.rig, graph, &[after], &mut params);
        assert_eq!(code, 0, "cuGraphAddNode");
        (node, params)
    }

    fn choice(
        &mut self,
        graph: CUgraph,
        after: &[CUgraphNode],
        kind: CUgraphConditionalNodeType,
        value: u32,
        programs: &[Program],
    ) -> CUgraphNode {
        let made = handle(self.rig, self.root, 7);
        let decides = self.steering.sets(graph, after, made, value);
        let (node, params) = self.node(graph, decides, made, (kind, programs.len()));
        let bodies = match programs.len() {
            1 => bodies::<1>(&params).to_vec(),
            2 => bodies::<2>(&params).to_vec(),
            _ => bodies::<3>(&params).to_vec(),
        };
        for (body, program) in bodies.into_iter().zip(programs) {
            self.program(body, &[], program);
        }
        node
    }

    fn repeat(
        &mut self,
        graph: CUgraph,
        after: &[CUgraphNode],
        rounds: u32,
        program: &Program,
    ) -> CUgraphNode {
        let (made, word) = (handle(self.rig, self.root, 7), self.words);
        self.words += 1;
        let zero = CUDA_MEMSET_NODE_PARAMS_v1 {
            dst: self.rig.buffer + 4 * word as u64,
            elementSize: 4,
            width: 1,
            height: 1,
            ..Default::default()
        };
        let (list, count, context) = (after.as_ptr(), after.len(), self.rig.context);
        let mut cleared = null_mut();
        ok!(self.rig, cuGraphAddMemsetNode(&mut cleared, graph, list, count, &zero, context));
        let decides = self.steering.sets(graph, &[cleared], made, rounds);
        let (node, params) = self.node(graph, decides, made, (WHILE, 1));
        let [body] = bodies(&params);
        let last = self.program(body, &[], program);
        self.steering.counts(body, &last, made, (word, rounds));
        node
    }
}

fn programs_leave_what_their_evaluation_leaves(rig: &Rig) {
    let steering = Steering::new(rig);
    for seed in 0..24 {
        let program = Dice(seed).program(4);
        let mut expected = 0;
        evaluate(&program, &mut expected);
        let graph = rig.new_graph();
        let mut builder = Builder { rig, steering: &steering, root: graph, words: 1 };
        builder.program(graph, &[], &program);
        let exec = rig.instantiate(graph);
        for _ in 0..2 {
            let [result] = steering.run(exec);
            assert_eq!(result, expected, "the program of seed {seed}");
        }
        rig.release(graph, exec);
    }
}
