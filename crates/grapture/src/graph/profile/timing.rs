//! [`Timing`]: the least, the middle and the most of several times.

use std::fmt;
use std::time::Duration;

/// The least, the middle and the most of several measured times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// The least.
    pub min: Duration,
    /// As many were less as were more.
    pub median: Duration,
    /// The most.
    pub max: Duration,
}

impl Timing {
    /// Of these; zero if there are none.
    pub(super) fn of(mut times: Vec<Duration>) -> Timing {
        times.sort_unstable();
        Timing {
            min: times.first().copied().unwrap_or_default(),
            median: middle(&times),
            max: times.last().copied().unwrap_or_default(),
        }
    }

    #[cfg(test)]
    pub(super) fn same(time: Duration) -> Timing {
        Timing { min: time, median: time, max: time }
    }
}

/// The middle of sorted times; of an even number the mean of the two in the middle.
fn middle(sorted: &[Duration]) -> Duration {
    let half = sorted.len() / 2;
    let upper = sorted.get(half).copied().unwrap_or_default();
    if sorted.len() % 2 == 1 {
        return upper;
    }
    let lower = half.checked_sub(1).and_then(|lower| sorted.get(lower)).copied();
    (lower.unwrap_or_default() + upper) / 2
}

/// Microseconds, with hundredths.
pub(super) fn microseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e6)
}

impl fmt::Display for Timing {
    /// The median, the least and the most in microseconds, each in a column of 10.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, min, max] = [self.median, self.min, self.max].map(microseconds);
        write!(f, "{median:>10} {min:>10} {max:>10}")
    }
}

#[cfg(test)]
mod tests {
    use super::Timing;
    use std::time::Duration;

    #[test]
    fn the_middle_is_between_as_many_on_both_sides() {
        let of =
            |times: &[u64]| Timing::of(times.iter().map(|t| Duration::from_micros(*t)).collect());
        assert_eq!(of(&[]), Timing::default());
        assert_eq!(of(&[7]), Timing::same(Duration::from_micros(7)));
        let three = of(&[9, 1, 4]);
        assert_eq!(
            (three.min.as_micros(), three.median.as_micros(), three.max.as_micros()),
            (1, 4, 9)
        );
        assert_eq!(of(&[8, 2, 4, 6]).median.as_micros(), 5);
        assert_eq!(three.to_string(), "      4.00       1.00       9.00");
    }
}
