//! How long the frames took.

use std::fmt;
use std::time::Duration;

/// The times of one way to run the frames.
#[derive(Default)]
pub struct Times {
    submit: Vec<Duration>,
    whole: Vec<Duration>,
}

impl Times {
    /// Adds a frame: the time until its calls returned, and until its work was done.
    pub fn add(&mut self, submit: Duration, whole: Duration) {
        self.submit.push(submit);
        self.whole.push(whole);
    }

    /// The median time that the CPU spent on the calls of a frame.
    pub fn cpu(&self) -> Micros {
        median(&self.submit)
    }

    /// The median time from the first call of a frame to the end of its work.
    pub fn wall(&self) -> Micros {
        median(&self.whole)
    }
}

fn median(times: &[Duration]) -> Micros {
    let mut times = times.to_vec();
    times.sort_unstable();
    Micros(times.get(times.len() / 2).copied().unwrap_or_default())
}

/// A time in microseconds, as it is shown.
#[derive(Clone, Copy)]
pub struct Micros(Duration);

impl Micros {
    /// How many times longer this is.
    pub fn over(self, other: Micros) -> f64 {
        self.0.as_secs_f64() / other.0.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} µs", self.0.as_secs_f64() * 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_frame() {
        let mut times = Times::default();
        for micros in [900, 3, 4] {
            times.add(Duration::from_micros(micros), Duration::from_micros(2 * micros));
        }
        assert_eq!(times.cpu().to_string(), "4.0 µs");
        assert_eq!(times.wall().to_string(), "8.0 µs");
        assert_eq!(format!("{:>8}", times.cpu()), "  4.0 µs");
    }
}
