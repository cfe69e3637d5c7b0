//! Work that escapes from a capture: submitted by the capturing thread to a stream outside of it,
//! it runs at once and is missing from the graph.

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::context::Context;
use crate::context_lost::remembers_launches;
use crate::operation::{Operation, OperationSite};

/// How many escaped operations are named.
const NAMED: usize = 8;

/// What becomes of work that the capturing thread submits to a stream outside of its capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EscapePolicy {
    /// It is not looked for.
    Ignore,
    /// It is counted, and the end of the capture tells of it as a `tracing` event of level warn.
    #[default]
    Warn,
    /// It is counted, and the end of the capture fails and gives no graph.
    Error,
}

/// The operations that escaped from a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Escapes {
    count: u64,
    first: Vec<OperationSite>,
}

impl Escapes {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first ones: at most eight.
    pub fn first(&self) -> &[OperationSite] {
        &self.first
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Escapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "s" };
        write!(
            f,
            "{} operation{plural} of this thread ran outside of it at once and ",
            self.count
        )?;
        f.write_str(if self.count == 1 { "is" } else { "are" })?;
        f.write_str(" missing from the graph")?;
        for (index, site) in self.first.iter().enumerate() {
            write!(f, "{} {site}", if index == 0 { ":" } else { "," })?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Not asked yet whether launches are to be remembered.
const UNKNOWN: u32 = 1 << 31;
/// Launches are to be remembered.
const REMEMBERS: u32 = 1 << 30;

thread_local! {
    /// How many captures of this thread want to know, and whether launches are to be remembered.
    /// Looked at by every operation that runs.
    static WATCHING: Cell<u32> = const { Cell::new(UNKNOWN) };
    /// How many operations have escaped since one of those began.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// How many of them had when the newest of those began.
    static NEWEST: Cell<u64> = const { Cell::new(0) };
    /// The first of them for each of those, with their places.
    static NAMES: RefCell<Vec<(u64, OperationSite)>> = const { RefCell::new(Vec::new()) };
}

/// Tells of an operation of this thread that was submitted to run, in a context.
#[inline]
pub(crate) fn note(operation: &Operation, context: &Context) {
    if WATCHING.get() != 0 {
        watched(operation, context);
    }
}

#[cold]
#[inline(never)]
fn watched(operation: &Operation, context: &Context) {
    if WATCHING.get() & UNKNOWN != 0 {
        let remembers = if remembers_launches() { REMEMBERS } else { 0 };
        WATCHING.set(WATCHING.get() & !UNKNOWN | remembers);
    }
    // SAFETY: in the call that submits the operation.
    let site = || unsafe { operation.site() };
    if WATCHING.get() & REMEMBERS != 0 {
        context.remember(site());
    }
    if WATCHING.get() & !REMEMBERS != 0 {
        count(site);
    }
}

fn count(site: impl FnOnce() -> OperationSite) {
    let (place, newest) = (COUNT.get(), NEWEST.get());
    COUNT.set(place + 1);
    // At the end of the thread nothing more is told.
    let _ = NAMES.try_with(|names| {
        let mut names = names.borrow_mut();
        if names.iter().filter(|(place, _)| *place >= newest).count() < NAMED {
            names.push((place, site()));
        }
    });
}

/// Work of the library's own that no capture is meant to record: nothing of it has escaped.
pub(crate) fn ignored<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHING.set(self.0);
        }
    }
    let _restore = Restore(WATCHING.replace(0));
    work()
}

/// Counts what escapes from one capture, until it is dropped, on the thread that made it.
pub(super) struct Watch {
    policy: EscapePolicy,
    /// How many had escaped before it began.
    before: u64,
}

impl Watch {
    pub(super) fn new(policy: EscapePolicy) -> Watch {
        let before = COUNT.get();
        if policy != EscapePolicy::Ignore {
            WATCHING.set(WATCHING.get() + 1);
            NEWEST.set(before);
        }
        Watch { policy, before }
    }

    pub(super) fn policy(&self) -> EscapePolicy {
        self.policy
    }

    /// How many operations have escaped so far.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        match self.policy {
            EscapePolicy::Ignore => 0,
            EscapePolicy::Warn | EscapePolicy::Error => COUNT.get() - self.before,
        }
    }

    /// What has escaped so far.
    #[cold]
    pub(super) fn escapes(&self) -> Escapes {
        let count = self.count();
        if count == 0 {
            return Escapes::default();
        }
        let named = NAMES.try_with(|names| {
            let names = names.borrow();
            let own = names.iter().filter(|(place, _)| *place >= self.before);
            own.take(NAMED).map(|(_, site)| site.clone()).collect()
        });
        Escapes { count, first: named.unwrap_or_default() }
    }
}

impl Drop for Watch {
    #[inline]
    fn drop(&mut self) {
        if self.policy != EscapePolicy::Ignore {
            WATCHING.set(WATCHING.get() - 1);
            if COUNT.get() != 0 {
                forget();
            }
        }
    }
}

/// Forgets what has escaped, if nobody wants to know any more.
#[cold]
fn forget() {
    if WATCHING.get() & !(UNKNOWN | REMEMBERS) == 0 {
        COUNT.set(0);
        NEWEST.set(0);
        let _ = NAMES.try_with(|names| names.borrow_mut().clear());
    }
}
