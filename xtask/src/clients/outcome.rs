//! [`Outcome`]: what became of a case of a client, held against what is explained.

use std::fmt;

/// Cases that do not hold, and the reason in a few words; `docs/simulator.md` has it at length.
const EXPLAINED: &[(&str, &str)] = &[
    ("test_default_pinned_host_reads_are_faster_than_write_combined", "compares times"),
    ("test_pinned_copy_is_faster", "compares times"),
    ("test_par_launch", "compares times"),
    ("test_device_side_assert", "an earlier call than on a GPU may see the error"),
    ("test_launch_with_half", "compiles for a device that the compiler does not know"),
    ("12-context-config", "asks for a limit that an H200 does not have"),
    ("a_device_is_found_on_the_bus", "asks the CUDA runtime"),
    ("the_runtime_counts_devices", "the runtime needs tables that NVIDIA does not document"),
    ("the_runtime_allocates", "the runtime needs tables that NVIDIA does not document"),
    ("the_runtime_captures_and_replays", "the runtime needs tables that NVIDIA does not document"),
];
/// Of these, some hold at times: whether they do says nothing.
const UNSTEADY: &[&str] = &["compares times", "an earlier call than on a GPU may see the error"];

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    name: String,
    /// What went wrong.
    problem: Option<String>,
}

impl Outcome {
    /// Of a case that held, or with what went wrong.
    pub fn new(name: impl Into<String>, problem: Option<String>) -> Outcome {
        Outcome { name: name.into(), problem }
    }

    /// Reads the lines `ok NAME` and `failed NAME: WHY`.
    pub fn read_all(text: &str) -> Vec<Outcome> {
        let read = |line: &str| {
            if let Some(name) = line.strip_prefix("ok ") {
                return Some(Outcome::new(name, None));
            }
            let (name, problem) = line.strip_prefix("failed ")?.split_once(": ")?;
            Some(Outcome::new(name, Some(problem.to_owned())))
        };
        text.lines().filter_map(read).collect()
    }

    /// Why it may fail.
    fn explanation(&self) -> Option<&'static str> {
        let last = self.name.rsplit("::").next().unwrap_or_default();
        EXPLAINED.iter().find(|(name, _)| *name == last).map(|(_, reason)| *reason)
    }

    /// Whether it is as it is explained to be.
    fn is_as_explained(&self) -> bool {
        match (self.problem.is_some(), self.explanation()) {
            (failed, None) => !failed,
            (_, Some(reason)) if UNSTEADY.contains(&reason) => true,
            (failed, Some(_)) => failed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            None => write!(f, "ok     {}", self.name)?,
            Some(problem) => write!(f, "FAILED {}: {problem}", self.name)?,
        }
        match self.explanation() {
            Some(reason) => write!(f, " [explained: {reason}]"),
            None => Ok(()),
        }
    }
}

/// How many cases of a client hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Sum {
    name: String,
    held: usize,
    all: usize,
    failed: Vec<String>,
    /// How many are not as they are explained to be.
    pub unexplained: usize,
}

impl Sum {
    /// Of the cases of a client. One without cases has not run.
    pub fn new(name: &str, outcomes: &[Outcome]) -> Sum {
        let failed: Vec<String> =
            outcomes.iter().filter(|o| o.problem.is_some()).map(|o| o.name.clone()).collect();
        let unexplained = outcomes.iter().filter(|outcome| !outcome.is_as_explained()).count();
        Sum {
            name: name.to_owned(),
            held: outcomes.len() - failed.len(),
            all: outcomes.len(),
            failed,
            unexplained: unexplained.max(usize::from(outcomes.is_empty())),
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.name, self.held, self.all)?;
        if self.failed.is_empty() { Ok(()) } else { write!(f, "; not {}", self.failed.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_held_against_what_is_explained() {
        let text = "noise\nok a\nfailed b: why: so\nfailed the_runtime_allocates: 1\n";
        let outcomes = Outcome::read_all(text);
        assert_eq!(outcomes.len(), 3);
        assert_eq!(outcomes[1].problem.as_deref(), Some("why: so"));
        let sum = Sum::new("c", &outcomes);
        assert_eq!((sum.held, sum.all, sum.unexplained), (1, 3, 1));
        assert_eq!(sum.to_string(), "c: 1 of 3; not b, the_runtime_allocates");
        let fixed = [Outcome::new("x::the_runtime_allocates", None)];
        assert_eq!(Sum::new("c", &fixed).unexplained, 1);
        assert_eq!(Sum::new("c", &[]).unexplained, 1);
    }
}
