//! A driver in plain Rust that Miri can run: the least that captures, launches and releases need.
//!
//! Memory is the heap's, freed when the library says so, and work runs when somebody waits for it.
//! So a release that comes too early is a use after free, and one that never comes is a leak, and
//! Miri tells of both. Unlike a real driver it waits for nothing in a release: what an executable
//! uses must be kept by the library until the launch is done. Handles are numbers: one that is gone
//! is not found, which is taken down as a violation.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grapture_sys::{CUDA_ERROR_INVALID_HANDLE, CUDA_SUCCESS, CUdeviceptr, CUresult};

/// What is done to memory, or called.
#[derive(Clone, Copy)]
pub enum Work {
    /// So many words from an address on are set.
    Fill(CUdeviceptr, u32, usize),
    /// So many bytes are copied.
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    /// `*word += value`
    Add(CUdeviceptr, u32),
    Call(unsafe extern "C" fn(*mut c_void), usize),
    /// An event is reached that was recorded for the so many-th time.
    Reach(usize, u64),
    Free(CUdeviceptr),
}

#[derive(Default)]
pub struct State {
    last: usize,
    /// The number of the capture that records a stream, if there is one.
    pub streams: HashMap<usize, Option<u64>>,
    pub captures: HashMap<u64, Vec<Work>>,
    pub graphs: HashMap<usize, Vec<Work>>,
    pub execs: HashMap<usize, Vec<Work>>,
    pub events: HashMap<usize, Event>,
    /// The lengths of what is allocated, by address.
    pub memory: HashMap<usize, usize>,
    pub modules: HashMap<usize, ()>,
    pub retains: usize,
    /// What is submitted and has not run, in the order of its submission, which is one in which
    /// all streams and events agree.
    pub queue: VecDeque<Work>,
    pub violations: Vec<String>,
}

#[derive(Default)]
pub struct Event {
    pub recorded: u64,
    pub reached: u64,
    /// The capture in which it was recorded last.
    pub capture: Option<u64>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Held by whoever runs work: one thing runs after the other.
static RUNS: Mutex<()> = Mutex::new(());

/// What the driver has. A value of the guard is `Some` from the first use on.
pub struct Locked(MutexGuard<'static, Option<State>>);

impl std::ops::Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("made by `state`")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("made by `state`")
    }
}

pub fn state() -> Locked {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.get_or_insert_default();
    Locked(state)
}

impl State {
    pub fn handle(&mut self) -> usize {
        self.last += 1;
        // No handle looks like one of the default streams.
        0x1000 + self.last * 16
    }

    /// Takes a mistake of the library down.
    pub fn violation(&mut self, what: &str) -> CUresult {
        self.violations.push(what.to_owned());
        CUDA_ERROR_INVALID_HANDLE
    }

    /// What the stream is given: recorded, or to be run.
    pub fn submit(&mut self, stream: usize, work: impl IntoIterator<Item = Work>) -> CUresult {
        let Some(capture) = self.streams.get(&stream).copied() else {
            return self.violation("work on a stream that is gone");
        };
        match capture.and_then(|capture| self.captures.get_mut(&capture)) {
            Some(nodes) => nodes.extend(work),
            None => self.queue.extend(work),
        }
        CUDA_SUCCESS
    }

    pub fn allocate(&mut self, bytes: usize) -> usize {
        let words = vec![0u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
        let length = words.len();
        let address = Box::into_raw(words).cast::<u64>().expose_provenance();
        self.memory.insert(address, length);
        address
    }

    pub fn free(&mut self, address: usize) -> CUresult {
        let Some(length) = self.memory.remove(&address) else {
            return self.violation("memory is freed that is not allocated");
        };
        let words = ptr::with_exposed_provenance_mut::<u64>(address);
        // SAFETY: `allocate` made it of a box of that length, and it was in the list: it is freed
        // once.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(words, length)) });
        CUDA_SUCCESS
    }
}

/// Runs all that is submitted. The driver's lock is not held over what is called.
pub fn run() {
    let _runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(work) = state().queue.pop_front() else { return };
        // SAFETY: the library's promise, which Miri holds it to.
        unsafe { run_one(work) };
    }
}

/// # Safety
///
/// What the work uses is alive.
unsafe fn run_one(work: Work) {
    match work {
        Work::Fill(to, value, count) => {
            let words = ptr::with_exposed_provenance_mut::<u32>(to as usize);
            for index in 0..count {
                // SAFETY: the caller's promise.
                let word = unsafe { words.add(index) };
                // SAFETY: the caller's promise.
                unsafe { word.write(value) };
            }
        }
        Work::Copy { to, from, bytes } => {
            let to = ptr::with_exposed_provenance_mut::<u8>(to);
            // SAFETY: the caller's promise.
            unsafe { ptr::copy(ptr::with_exposed_provenance(from), to, bytes) };
        }
        Work::Add(word, value) => {
            let word = ptr::with_exposed_provenance_mut::<u32>(word as usize);
            // SAFETY: the caller's promise.
            let old = unsafe { word.read() };
            // SAFETY: the caller's promise.
            unsafe { word.write(old.wrapping_add(value)) };
        }
        // SAFETY: the caller's promise.
        Work::Call(function, data) => unsafe { function(ptr::with_exposed_provenance_mut(data)) },
        Work::Reach(event, turn) => {
            // An event that is destroyed before it is reached goes when it is.
            if let Some(event) = state().events.get_mut(&event) {
                event.reached = turn;
            }
        }
        Work::Free(address) => _ = state().free(address as usize),
    }
}
