//! [`GraphCache`]: one executable graph for each key, within limits.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grapture_sys::Function;

use crate::capture::{CaptureMode, StreamGraphCapture};
use crate::context::Context;
use crate::error::CudaResult;
use crate::graph::{Graph, GraphExec, UpdateOptions};
use crate::retain::HeldMemory;
use crate::stream::{Stream, other_context_than};

/// Executable graphs by key, such as a shape or the bucket of a batch: each is captured when its
/// key is first asked for, and replayed from then on.
///
/// Within its limits, the least recently used are given up first, and never while a launch of them
/// is in flight or somebody holds their handle: then the cache is over its limits until the next
/// one is added. What is given up serves the new key where the graphs have the same shape, which
/// costs a tenth of making one anew.
///
/// One thread can use it, or many. No lock is held while something is captured.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut x = DeviceBuffer::<u32>::zeroed(&context, 64)?;
/// let cache = GraphCache::new(&context, CacheLimits::new().entries(8));
/// let batches = Buckets::powers_of_two(64);
/// for len in [3, 4, 50, 64, 2] {
///     let bucket = batches.fit(len).unwrap_or(64);
///     let exec = cache.get_or_capture(bucket, &stream, |_| x.view_mut(..bucket)?.fill(7, &stream))?;
///     exec.launch(&stream)?;
/// }
/// let counters = cache.counters();
/// assert_eq!((counters.hits, counters.captures), (2, 3));
/// # Ok::<(), CudaError>(())
/// ```
pub struct GraphCache<K> {
    context: Context,
    limits: CacheLimits,
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    entries: HashMap<K, Entry>,
    /// Counts the uses, to find the least recent.
    uses: u64,
    counters: CacheCounters,
}

struct Entry {
    exec: CachedExec,
    last_use: u64,
    /// The last use after which it was found idle.
    idle_since: Option<u64>,
    cost: Cost,
}

/// What an entry takes of the device's memory, in bytes.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// What was allocated while it was captured, and is still there.
    captured: usize,
    /// What the driver needs for the executable.
    executable: usize,
}

impl Entry {
    /// Whether nobody has a handle, and no launch is in flight.
    fn is_idle(&self) -> bool {
        // Who launches it has a handle, and who gets one makes another use of it.
        let noted = || self.idle_since == Some(self.last_use);
        let done = || self.exec.lock().is_done().unwrap_or(false);
        Arc::strong_count(&self.exec.inner) == 1 && (noted() || done())
    }
}

impl Cost {
    fn bytes(self) -> usize {
        self.captured + self.executable
    }
}

/// How much a cache keeps. Without a limit it keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLimits {
    entries: Option<usize>,
    bytes: Option<usize>,
}

impl CacheLimits {
    /// No limits.
    pub fn new() -> CacheLimits {
        CacheLimits::default()
    }

    /// The most executables; at least one is kept.
    pub fn entries(mut self, entries: usize) -> CacheLimits {
        self.entries = Some(entries);
        self
    }

    /// The most memory of the device, in bytes, as [`CacheCounters::bytes`] measures it. The newest
    /// is kept, however large it is.
    pub fn bytes(mut self, bytes: usize) -> CacheLimits {
        self.bytes = Some(bytes);
        self
    }
}

/// What a cache has done, and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounters {
    /// How often an executable was there.
    pub hits: u64,
    /// How often one was captured or built.
    pub captures: u64,
    /// How many of these were served by an executable that was given up, by an update.
    pub updates: u64,
    /// How many were given up to stay within the limits.
    pub evictions: u64,
    /// How many there are.
    pub entries: usize,
    /// What they take of the device's memory, in bytes: by how much less of it was free after each
    /// was captured, made executable and uploaded than before. What others allocate meanwhile, on
    /// other threads or in other processes, is counted too.
    pub bytes: usize,
}

impl<K: Hash + Eq + Clone> GraphCache<K> {
    /// An empty cache for graphs of the context.
    pub fn new(context: &Context, limits: CacheLimits) -> GraphCache<K> {
        let counters = CacheCounters::default();
        let inner = Inner { entries: HashMap::new(), uses: 0, counters };
        GraphCache { context: context.clone(), limits, inner: Mutex::new(inner) }
    }

    /// The executable of the key, if it is there. Makes no driver call.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<CachedExec>
    where
        K: Borrow<Q>,
    {
        let mut inner = self.lock();
        let Inner { entries, uses, counters } = &mut *inner;
        let entry = entries.get_mut(key)?;
        *uses += 1;
        entry.last_use = *uses;
        counters.hits += 1;
        Some(entry.exec.clone())
    }

    /// The executable of the key; if there is none, `record` is captured on the stream, in the mode
    /// of [`CaptureMode::ThreadLocal`], and made executable.
    ///
    /// # Errors
    ///
    /// As [`Stream::capture`], [`Graph::instantiate`] and `record` answer; the cache is as before.
    /// [`Refused`](crate::CudaError::Refused): a stream of another context.
    pub fn get_or_capture(
        &self,
        key: K,
        stream: &Stream,
        record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    ) -> CudaResult<CachedExec> {
        self.get_or_build(key, stream, || stream.capture(CaptureMode::ThreadLocal, record))
    }

    /// The executable of the key; if there is none, that of the graph that `build` gives. It is
    /// uploaded on the stream.
    ///
    /// If several threads ask for a new key at once, each builds a graph, and the first is kept.
    ///
    /// # Errors
    ///
    /// As [`Graph::instantiate`] and `build` answer; the cache is as before.
    /// [`Refused`](crate::CudaError::Refused): a stream or a graph of another context.
    pub fn get_or_build(
        &self,
        key: K,
        stream: &Stream,
        build: impl FnOnce() -> CudaResult<Graph>,
    ) -> CudaResult<CachedExec> {
        if let Some(exec) = self.get(&key) {
            return Ok(exec);
        }
        stream.require_context(&self.context, "stream")?;
        self.lock().note_idle();
        let before = self.free_bytes()?;
        let graph = build()?;
        if !self.context.same(graph.context()) {
            return Err(other_context_than("graph", "cache"));
        }
        let built = self.free_bytes()?;
        let captured = before.saturating_sub(built);
        if let Some((exec, executable)) = self.reuse(&graph) {
            return Ok(self.insert(key, exec, Cost { captured, executable }, true));
        }
        // With the graph at hand its slots can be set, and no copy of it is made.
        let exec = match graph.share().has_slots() {
            true => graph.into_exec()?,
            false => graph.instantiate()?,
        };
        // Else its first launch uploads it.
        if self.context.driver().has(Function::cuGraphUpload) && !stream.is_capturing() {
            exec.upload(stream)?;
        }
        let executable = built.saturating_sub(self.free_bytes()?);
        Ok(self.insert(key, exec, Cost { captured, executable }, false))
    }

    /// Captures what is not there yet of the keys, such as [`Buckets::sizes`](crate::Buckets::sizes),
    /// the last one first to be given up.
    ///
    /// # Errors
    ///
    /// As [`get_or_capture`](GraphCache::get_or_capture), at the first key that fails.
    pub fn warm_up(
        &self,
        keys: impl IntoIterator<Item = K>,
        stream: &Stream,
        mut record: impl FnMut(&K, &StreamGraphCapture<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        keys.into_iter().try_for_each(|key| {
            self.get_or_capture(key.clone(), stream, |capture| record(&key, capture)).map(drop)
        })
    }

    /// Gives up the executable of a key. Launches in flight and handles of it go on. Gives whether
    /// there was one.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let mut inner = self.lock();
        let removed = inner.entries.remove_entry(key);
        if let Some((_, entry)) = &removed {
            inner.forget(entry.cost);
        }
        // The key, or a value that the graph owned, may use the cache in its drop.
        drop(inner);
        removed.is_some()
    }

    /// Gives up all of them, as [`remove`](GraphCache::remove) does.
    pub fn clear(&self) {
        let mut inner = self.lock();
        let entries = mem::take(&mut inner.entries);
        (inner.counters.entries, inner.counters.bytes) = (0, 0);
        drop(inner);
        drop(entries);
    }

    /// What it has done, and has.
    pub fn counters(&self) -> CacheCounters {
        self.lock().counters
    }

    /// Has an executable that is to be given up take the graph, if there is one with its shape.
    /// Gives what the driver needs for it, too.
    fn reuse(&self, graph: &Graph) -> Option<(GraphExec, usize)> {
        let most = self.limits.entries?.max(1);
        let mut inner = self.lock();
        let entry = if inner.entries.len() >= most { inner.take_idle(None) } else { None };
        drop(inner);
        let (_key, Entry { exec, cost, .. }) = entry?;
        let mut exec = exec.into_inner()?;
        let updated = exec.update_with(graph, UpdateOptions::new().strict(true));
        updated.is_ok().then_some((exec, cost.executable))
    }

    fn insert(&self, key: K, exec: GraphExec, cost: Cost, updated: bool) -> CachedExec {
        let exec = CachedExec::new(exec, cost.executable);
        let mut inner = self.lock();
        inner.counters.captures += 1;
        inner.counters.updates += u64::from(updated);
        inner.uses += 1;
        let last_use = inner.uses;
        if let Some(entry) = inner.entries.get_mut(&key) {
            // Another thread was faster.
            entry.last_use = last_use;
            let first = entry.exec.clone();
            drop(inner);
            drop(exec);
            return first;
        }
        inner
            .entries
            .insert(key.clone(), Entry { exec: exec.clone(), last_use, idle_since: None, cost });
        inner.counters.entries = inner.entries.len();
        inner.counters.bytes = inner.counters.bytes.saturating_add(cost.bytes());
        let mut given_up = Vec::new();
        while self.is_over(&inner) {
            match inner.take_idle(Some(&key)) {
                Some(entry) => given_up.push(entry),
                None => break,
            }
        }
        drop(inner);
        drop(given_up);
        exec
    }

    fn is_over(&self, inner: &Inner<K>) -> bool {
        let CacheLimits { entries, bytes } = self.limits;
        entries.is_some_and(|most| inner.entries.len() > most.max(1))
            || bytes.is_some_and(|most| inner.counters.bytes > most)
    }

    fn free_bytes(&self) -> CudaResult<usize> {
        self.context.driver().relaxed(|_| Ok(self.context.memory_info()?.free_bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone> Inner<K> {
    /// Finds out which are idle before work for another one is submitted to the same streams.
    fn note_idle(&mut self) {
        for entry in self.entries.values_mut() {
            if entry.is_idle() {
                entry.idle_since = Some(entry.last_use);
            }
        }
    }

    /// Takes out the least recently used one that nobody holds and no launch runs, but for `kept`.
    fn take_idle(&mut self, kept: Option<&K>) -> Option<(K, Entry)> {
        let mut by_use: Vec<_> =
            self.entries.iter().filter(|(key, _)| Some(*key) != kept).collect();
        by_use.sort_unstable_by_key(|(_, entry)| entry.last_use);
        let idle = by_use.into_iter().find(|(_, entry)| entry.is_idle());
        // Each use has a number of its own.
        let last_use = idle.map(|(_, entry)| entry.last_use)?;
        let taken = self.entries.extract_if(|_, entry| entry.last_use == last_use).next()?;
        self.counters.evictions += 1;
        self.forget(taken.1.cost);
        Some(taken)
    }

    fn forget(&mut self, cost: Cost) {
        self.counters.entries = self.entries.len();
        self.counters.bytes = self.counters.bytes.saturating_sub(cost.bytes());
    }
}

impl<K> fmt::Debug for GraphCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("GraphCache")
            .field("limits", &self.limits)
            .field("counters", &inner.counters)
            .finish_non_exhaustive()
    }
}

/// A handle of an executable graph in a [`GraphCache`]. As long as it lives, the cache keeps the
/// executable; a clone is the same one.
#[derive(Clone)]
pub struct CachedExec {
    inner: Arc<Cached>,
}

struct Cached {
    exec: Mutex<GraphExec>,
    /// What the driver needs for it, as it was measured.
    executable_bytes: usize,
}

impl CachedExec {
    fn new(exec: GraphExec, executable_bytes: usize) -> CachedExec {
        CachedExec { inner: Arc::new(Cached { exec: Mutex::new(exec), executable_bytes }) }
    }

    /// Runs the graph once, in the order of the stream: see [`GraphExec::launch`]. Waits only for
    /// another thread that launches the same one now.
    ///
    /// # Errors
    ///
    /// As [`GraphExec::launch`].
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> CudaResult<()> {
        self.lock().launch(stream)
    }

    /// How much memory it holds, as [`GraphExec::memory`] tells it, with what the driver needs for
    /// the executable as it was measured when it was made.
    pub fn memory(&self) -> HeldMemory {
        let executable_bytes = Some(self.inner.executable_bytes);
        HeldMemory { executable_bytes, ..self.lock().memory() }
    }

    /// The executable graph, for this thread alone: others wait until the guard is dropped. The
    /// same thread must not ask for it a second time, or launch by a handle, meanwhile: it would
    /// wait for itself.
    pub fn lock(&self) -> MutexGuard<'_, GraphExec> {
        self.inner.exec.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_inner(self) -> Option<GraphExec> {
        let cached = Arc::into_inner(self.inner)?;
        Some(cached.exec.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for CachedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedExec").finish_non_exhaustive()
    }
}
