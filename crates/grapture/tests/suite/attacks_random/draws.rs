//! The random numbers of a program, which can be drawn again without some of its steps.

/// The numbers that each step draws.
pub struct Draws {
    /// None: those that are there are drawn again.
    random: Option<u64>,
    steps: Vec<Vec<usize>>,
    /// The step that draws now, and how many it has drawn.
    step: usize,
    drawn: usize,
}

impl Draws {
    /// New ones, from a seed, for so many steps.
    pub fn of(seed: u64, steps: usize) -> Draws {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Draws { random: Some(random), ..Draws::again(vec![Vec::new(); steps]) }
    }

    /// Those of steps that have drawn before.
    pub fn again(steps: Vec<Vec<usize>>) -> Draws {
        Draws { random: None, steps, step: 0, drawn: 0 }
    }

    pub fn steps(&self) -> &[Vec<usize>] {
        &self.steps
    }

    pub fn start(&mut self, step: usize) {
        (self.step, self.drawn) = (step, 0);
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        let step = &mut self.steps[self.step];
        let Some(random) = &mut self.random else {
            // Without what came before it, a step may come to draw more.
            return step.get(self.drawn - 1).copied().unwrap_or(0) % limit;
        };
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let drawn = (*random >> 11) as usize;
        step.push(drawn);
        drawn % limit
    }
}

/// The fewest steps, of those that are left if pieces of them are taken out, with which it still
/// `fails`.
pub fn shortest(
    mut steps: Vec<Vec<usize>>,
    mut fails: impl FnMut(&[Vec<usize>]) -> bool,
) -> Vec<Vec<usize>> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut less = steps.clone();
            less.drain(from..(from + size).min(steps.len()));
            if fails(&less) {
                steps = less;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    steps
}
