//! The soak: threads that capture, launch, update, hand over and drop at random, and check every result
//! bit for bit.
//!
//! It is short, unless `GRAPTURE_SOAK_SECONDS` says how long it is to last: `cargo xtask soak`. Then it
//! also holds the memory in use flat, of which other processes on the device must have none
//! (`GRAPTURE_SOAK_SHARED`: the device's is told, and nothing is held). `GRAPTURE_SOAK_PLAIN` leaves out
//! what graphs with memory, bodies and children do, and the cache.

mod live;
mod newer;
mod piece;
mod plan;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grapture::{CacheLimits, Driver, GraphCache, set_drop_error_hook};
use grapture_sim::{SimConfig, Simulation};

use crate::common::{Setup, comes_true};
use live::Live;
use piece::{Outcome, Piece};
use plan::Random;

const THREADS: u64 = 8;
/// How often everything is dropped and counted, at least.
const PARTS: u64 = 12;
/// How long a part lasts at most, in seconds.
const LONGEST_PART: u64 = 30;
/// How many steps each thread makes in a part of a short soak.
const SHORT: usize = 4;
/// How many pieces a thread keeps.
const KEPT: usize = 4;
/// How many pieces wait for another thread at most: the driver keeps the memory of as many executables
/// as there ever were at once.
const PASSED: usize = 16;
/// By how much memory may be more in the last third than in the one before it, in bytes: allocators
/// keep some. The first third is for the driver and the allocators to take what they keep.
const SLACK: usize = 48 << 20;

mod sim_tier {
    use super::*;

    #[test]
    fn threads_at_random_leave_nothing() {
        let sim = Simulation::new(SimConfig::default());
        soak(Setup::on(Driver::from(sim.driver())));
        // What was let go of last is released by a thread of the library.
        assert!(comes_true(|| sim.live().is_clean()), "{}", sim.leaks());
    }
}

mod gpu_tier {
    use super::*;

    #[test]
    fn threads_at_random_leave_nothing() {
        soak(Setup::on(live::driver()));
    }
}

/// What all threads share.
struct Field {
    setup: Setup,
    /// Pieces that go from one thread to another.
    passed: Mutex<Vec<Piece>>,
    cache: GraphCache<usize>,
    /// Whether nothing of the newer kind is done.
    plain: bool,
    /// How many values that graphs were given to keep are alive.
    tokens: Arc<AtomicUsize>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    steps: AtomicUsize,
    captures: AtomicUsize,
    launches: AtomicUsize,
    updates: AtomicUsize,
    checks: AtomicUsize,
    newer: AtomicUsize,
    failures: AtomicUsize,
}

fn soak(setup: Setup) {
    let seconds = std::env::var("GRAPTURE_SOAK_SECONDS").ok().map(|text| text.parse().unwrap());
    let seed = std::env::var("GRAPTURE_SOAK_SEED").map_or(1, |text| text.parse().unwrap());
    let reported = Arc::new(AtomicUsize::new(0));
    if seconds.is_some() {
        // Alone in the process: else what other tests bring about would be counted.
        let reported = reported.clone();
        set_drop_error_hook(Some(Box::new(move |function, error| {
            eprintln!("{function}: {error}");
            reported.fetch_add(1, Ordering::SeqCst);
        })));
    }
    let cache = GraphCache::new(&setup.context, CacheLimits::new().entries(3));
    let field = Field {
        setup,
        passed: Mutex::default(),
        cache,
        plain: std::env::var_os("GRAPTURE_SOAK_PLAIN").is_some(),
        tokens: Arc::default(),
        counts: Counts::default(),
    };
    let parts = seconds.map_or(PARTS, |seconds| PARTS.max(seconds / LONGEST_PART));
    let (first, began) = (Live::now(), Instant::now());
    let mut thirds = [Memory::default(); 3];
    for part in 0..parts {
        let until = seconds
            .map(|all: u64| began + Duration::from_secs(all) * (part + 1) as u32 / parts as u32);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (field, seed) = (&field, seed ^ part << 16 ^ thread << 8);
                scope.spawn(move || work(field, Random::new(seed), until));
            }
        });
        let highest = Live::now();
        field.passed.lock().unwrap().drain(..).for_each(|piece| piece.check(&field));
        field.cache.clear();
        field.setup.context.synchronize().unwrap();
        field.setup.driver.reclaim();
        field.setup.wait_until(|| field.tokens.load(Ordering::SeqCst) == 0);
        assert!(comes_true(|| Live::now() == first), "left over: {}, not {first}", Live::now());
        let memory = Memory::now(&field.setup);
        let third = &mut thirds[(3 * part / parts) as usize];
        *third = third.max(memory);
        let seconds = began.elapsed().as_secs();
        println!(
            "{seconds:4} s: {}; {memory}; {} when the threads ended, {first} now",
            field.counts, highest
        );
    }
    println!("at most: {}", thirds.map(|third| third.to_string()).join("; then "));
    if seconds.is_some() {
        thirds[2].assert_flat(thirds[1]);
    }
    drop(field);
    if seconds.is_some() {
        set_drop_error_hook(None);
    }
    assert_eq!(reported.load(Ordering::SeqCst), 0, "releases failed");
}

/// What one thread does in a part.
fn work(field: &Field, mut random: Random, until: Option<Instant>) {
    let mut pieces = Vec::new();
    let streams = piece::streams(field);
    let goes_on = |steps| match until {
        Some(until) => Instant::now() < until,
        None => steps < SHORT,
    };
    let mut steps = 0;
    while goes_on(steps) {
        steps += 1;
        field.counts.steps.fetch_add(1, Ordering::Relaxed);
        step(field, &mut random, &streams, &mut pieces);
    }
    pieces.drain(..).for_each(|piece: Piece| piece.check(field));
}

fn step(field: &Field, random: &mut Random, streams: &piece::Streams, pieces: &mut Vec<Piece>) {
    if pieces.len() >= KEPT || random.below(8) == 0 && !pieces.is_empty() {
        let piece = pieces.swap_remove(random.below(pieces.len()));
        match random.below(4) {
            // While its launches are in flight, in whatever order its parts go.
            0 => piece.tear(random),
            1 => pass(field, piece),
            _ => piece.check(field),
        }
        return;
    }
    match random.below(12) {
        10 | 11 if !field.plain => newer::newer(field, random, streams),
        0 => piece::fail(field, random, streams),
        1 => pieces.extend(field.passed.lock().unwrap().pop()),
        2..=4 => match Piece::capture(field, random, streams) {
            Outcome::Piece(piece) => pieces.push(*piece),
            Outcome::Wanted => {}
        },
        _ if pieces.is_empty() => {}
        5 => {
            let piece = random.below(pieces.len());
            pieces[piece].change(field, random, streams);
        }
        _ => {
            let piece = random.below(pieces.len());
            pieces[piece].launch(field, random, streams);
        }
    }
}

/// Leaves it to another thread.
fn pass(field: &Field, piece: Piece) {
    let mut passed = field.passed.lock().unwrap();
    let first = if passed.len() < PASSED { None } else { Some(passed.remove(0)) };
    passed.push(piece);
    drop(passed);
    if let Some(first) = first {
        first.check(field);
    }
}

#[derive(Clone, Copy, Default)]
struct Memory {
    device: usize,
    host: usize,
}

impl Memory {
    fn now(setup: &Setup) -> Memory {
        let device = setup.context.memory_info().unwrap();
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        let host = resident.unwrap_or(0) * 4096;
        Memory { device: device.total_bytes - device.free_bytes, host }
    }

    fn max(self, other: Memory) -> Memory {
        let (device, host) = (self.device.max(other.device), self.host.max(other.host));
        Memory { device, host }
    }

    #[track_caller]
    fn assert_flat(self, most: Memory) {
        assert!(self.host <= most.host + SLACK, "{self}; before at most {most}");
        // What other processes have of the device is counted too.
        if std::env::var_os("GRAPTURE_SOAK_SHARED").is_none() {
            assert!(self.device <= most.device + SLACK, "{self}; before at most {most}");
        }
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: usize| bytes as f64 / 1_048_576.0;
        write!(f, "device {:.1} MiB, host {:.1} MiB", mib(self.device), mib(self.host))
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} steps, {} captures, {} launches, {} updates, {} checks, {} of the newer kind, {} failures \
             asked for",
            of(&self.steps),
            of(&self.captures),
            of(&self.launches),
            of(&self.updates),
            of(&self.checks),
            of(&self.newer),
            of(&self.failures)
        )
    }
}
