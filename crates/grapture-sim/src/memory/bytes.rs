//! Bytes that several threads may touch at once.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst,
};

use super::rows;
use super::shadow::Shadow;

/// The alignment of a region that was allocated here.
const ALIGN: usize = 256;

/// Why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// It reaches past the end.
    OutOfRange,
    /// Its address is not a multiple of its size.
    Misaligned,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "access past the end of the region",
            Self::Misaligned => "address is not a multiple of the access size",
        })
    }
}

impl std::error::Error for AccessError {}

/// A byte region of fixed length that many threads read and write without further locks.
///
/// Every access is a relaxed atomic one, so a race between threads of a kernel gives some value and
/// never undefined behaviour. Accesses of different widths to the same bytes at the same time are
/// the one thing that neither Rust nor PTX defines; on the hosts that are supported they act as
/// the hardware's loads and stores do.
pub struct SharedBytes {
    start: NonNull<u8>,
    len: usize,
    owned: bool,
    /// Which bytes were written, where that is asked.
    shadow: Option<Shadow>,
    /// Whether the allocation has ended.
    retired: AtomicBool,
}

// SAFETY: the region is reached only through atomics, so moving the handle to another thread
// moves no unsynchronised access; owned memory comes from the global allocator, which may free
// from any thread, and `from_raw` demands memory that any thread may access.
unsafe impl Send for SharedBytes {}

// SAFETY: all methods take `&self` and touch the bytes only through atomics, so that concurrent
// calls are not data races; `start`, `len` and `owned` never change, and the rest is atomic.
unsafe impl Sync for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBytes").field("len", &self.len).field("owned", &self.owned).finish()
    }
}

/// Defines load, store and compare-exchange for one width.
macro_rules! width {
    ($int:ty, $atomic:ty, $cell:ident, $load:ident, $store:ident, $exchange:ident) => {
        fn $cell(&self, offset: usize) -> Result<&$atomic, AccessError> {
            let at = self.checked::<$int>(offset)?;
            // SAFETY: `checked` has shown that the bytes from `at` on lie inside the region and
            // that `at` is aligned for the atomic; the region lives as long as `self`, and it is
            // accessed only through atomics (by the methods here, and by `from_raw`'s contract).
            Ok(unsafe { &*at.cast::<$atomic>() })
        }

        /// Loads at an aligned offset.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        #[inline]
        pub fn $load(&self, offset: usize) -> Result<$int, AccessError> {
            Ok(self.$cell(offset)?.load(Relaxed))
        }

        /// Stores at an aligned offset.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        #[inline]
        pub fn $store(&self, offset: usize, value: $int) -> Result<(), AccessError> {
            self.$cell(offset)?.store(value, Relaxed);
            self.note_write(offset, size_of::<$int>());
            Ok(())
        }

        /// Stores `new` if the current value is `current`; answers the value found.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        pub fn $exchange(
            &self,
            offset: usize,
            current: $int,
            new: $int,
        ) -> Result<$int, AccessError> {
            let found = self.$cell(offset)?.compare_exchange(current, new, SeqCst, SeqCst);
            self.note_write(offset, size_of::<$int>());
            Ok(found.unwrap_or_else(|other| other))
        }
    };
}

/// Defines the arithmetic read-modify-writes for one width.
macro_rules! fetch {
    ($int:ty, $cell:ident, $($name:ident = $method:ident),+) => {$(
        /// The atomic read-modify-write that its name says; answers the old value.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        pub fn $name(&self, offset: usize, value: $int) -> Result<$int, AccessError> {
            let old = self.$cell(offset)?.$method(value, SeqCst);
            self.note_write(offset, size_of::<$int>());
            Ok(old)
        }
    )+};
}

/// Defines access to neighbouring values.
macro_rules! many {
    ($int:ty, $atomic:ty, $cells:ident, $load:ident, $store:ident) => {
        #[inline(always)]
        fn $cells(&self, offset: usize, count: usize) -> Result<&[$atomic], AccessError> {
            let bytes = count.checked_mul(size_of::<$int>()).ok_or(AccessError::OutOfRange)?;
            self.check_range(offset, bytes)?;
            if count == 0 {
                return Ok(&[]);
            }
            let at = self.checked::<$int>(offset)?;
            // SAFETY: `check_range` has shown that `count` values from `at` on lie inside the
            // region, `checked` that `at` is aligned; the region lives as long as `self` and is
            // accessed only through atomics.
            Ok(unsafe { std::slice::from_raw_parts(at.cast::<$atomic>(), count) })
        }

        /// Loads neighbouring values from an aligned offset on.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        #[inline(always)]
        pub fn $load(&self, offset: usize, into: &mut [$int]) -> Result<(), AccessError> {
            let cells = self.$cells(offset, into.len())?;
            let done = load_steps(cells, into);
            for (value, cell) in into.iter_mut().zip(cells).skip(done) {
                *value = cell.load(Relaxed);
            }
            Ok(())
        }

        /// Stores neighbouring values from an aligned offset on.
        ///
        /// # Errors
        /// When the access is out of range or not aligned.
        #[inline(always)]
        pub fn $store(&self, offset: usize, from: &[$int]) -> Result<(), AccessError> {
            let cells = self.$cells(offset, from.len())?;
            let done = store_steps(cells, from);
            self.note_write(offset, size_of_val(from));
            for (value, cell) in from.iter().zip(cells).skip(done) {
                cell.store(*value, Relaxed);
            }
            Ok(())
        }
    };
}

/// The bytes of so many that are copied in whole steps.
fn whole_steps(len: usize) -> usize {
    if rows::VECTORS { len / rows::STEP * rows::STEP } else { 0 }
}

/// Loads as many values as whole steps hold; answers how many.
#[inline(always)]
fn load_steps<A, T>(cells: &[A], into: &mut [T]) -> usize {
    const { assert!(size_of::<A>() == size_of::<T>()) };
    let bytes = whole_steps(size_of_val(into).min(size_of_val(cells)));
    let (from, into) = (cells.as_ptr().cast(), into.as_mut_ptr().cast());
    // SAFETY: both are at least so many bytes long; the cells are accessed only through atomics,
    // and `into` by nobody else.
    unsafe { rows::copy_steps(from, into, bytes / rows::STEP) };
    bytes / size_of::<T>()
}

/// Stores as many values as whole steps hold; answers how many.
#[inline(always)]
fn store_steps<A, T>(cells: &[A], from: &[T]) -> usize {
    const { assert!(size_of::<A>() == size_of::<T>()) };
    let bytes = whole_steps(size_of_val(from).min(size_of_val(cells)));
    let (from, into) = (from.as_ptr().cast(), cells.as_ptr().cast_mut().cast());
    // SAFETY: both are at least so many bytes long; atomics may be written through a shared
    // reference, and these are accessed only as such.
    unsafe { rows::copy_steps(from, into, bytes / rows::STEP) };
    bytes / size_of::<T>()
}

impl SharedBytes {
    /// Allocates `len` zero bytes, aligned to 256.
    ///
    /// Running out of memory ends the process, as for a `Vec`; [`try_new`](Self::try_new) does not.
    #[must_use]
    pub fn new(len: usize) -> Self {
        match Self::try_new(len) {
            Some(bytes) => bytes,
            None => handle_alloc_error(Layout::new::<u8>()),
        }
    }

    /// Allocates `len` zero bytes, aligned to 256; `None` when there is no memory for them.
    #[must_use]
    pub fn try_new(len: usize) -> Option<Self> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout's size is not zero, because `layout` rounds up to at least `ALIGN`.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Self::of(NonNull::new(start)?, len, true))
    }

    fn of(start: NonNull<u8>, len: usize, owned: bool) -> Self {
        Self { start, len, owned, shadow: None, retired: AtomicBool::new(false) }
    }

    /// The same bytes; from now on it is known which of them were written.
    #[must_use]
    pub(crate) fn shadowed(mut self) -> Self {
        self.shadow = Some(Shadow::new(self.len));
        self
    }

    /// Whether it is known which bytes were written.
    #[inline(always)]
    pub(crate) fn is_shadowed(&self) -> bool {
        self.shadow.is_some()
    }

    /// Whether all bytes of a range were written, as far as it is known.
    pub(crate) fn is_written(&self, offset: usize, len: usize) -> bool {
        self.shadow.as_ref().is_none_or(|shadow| shadow.has(offset, len))
    }

    /// All bytes count as written.
    pub(crate) fn set_written(&self) {
        self.note_write(0, self.len);
    }

    #[inline(always)]
    fn note_write(&self, offset: usize, len: usize) {
        if let Some(shadow) = &self.shadow {
            shadow.set(offset, len);
        }
    }

    /// The allocation ends; who still has the bytes is told by [`is_retired`](Self::is_retired).
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// Whether the allocation has ended.
    #[inline(always)]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Makes a region of memory that someone else owns.
    ///
    /// # Safety
    /// The `len` bytes from `start` on must be readable and writable from every thread until the
    /// last use of the region, and while a method of the region runs, other accesses to the bytes
    /// that it touches must be atomic too, unless both only read.
    #[must_use]
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self::of(start, len, false)
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1).checked_next_multiple_of(ALIGN)?, ALIGN).ok()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the region starts in the host's memory.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn check_range(&self, offset: usize, bytes: usize) -> Result<(), AccessError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(AccessError::OutOfRange),
        }
    }

    /// The address of a `T` at `offset`, which is in range and aligned.
    #[inline]
    fn checked<T>(&self, offset: usize) -> Result<*mut u8, AccessError> {
        self.check_range(offset, size_of::<T>())?;
        let at = self.start.as_ptr().wrapping_add(offset);
        if at.addr().is_multiple_of(size_of::<T>()) { Ok(at) } else { Err(AccessError::Misaligned) }
    }

    width!(u8, AtomicU8, cell_u8, load_u8, store_u8, compare_exchange_u8);
    width!(u16, AtomicU16, cell_u16, load_u16, store_u16, compare_exchange_u16);
    width!(u32, AtomicU32, cell_u32, load_u32, store_u32, compare_exchange_u32);
    width!(u64, AtomicU64, cell_u64, load_u64, store_u64, compare_exchange_u64);

    many!(u8, AtomicU8, cells_u8, load_u8s, store_u8s);
    many!(u32, AtomicU32, cells_u32, load_u32s, store_u32s);
    many!(u64, AtomicU64, cells_u64, load_u64s, store_u64s);

    fetch!(
        u32,
        cell_u32,
        fetch_add_u32 = fetch_add,
        fetch_and_u32 = fetch_and,
        fetch_or_u32 = fetch_or,
        fetch_xor_u32 = fetch_xor,
        fetch_min_u32 = fetch_min,
        fetch_max_u32 = fetch_max,
        swap_u32 = swap
    );
    fetch!(
        u64,
        cell_u64,
        fetch_add_u64 = fetch_add,
        fetch_and_u64 = fetch_and,
        fetch_or_u64 = fetch_or,
        fetch_xor_u64 = fetch_xor,
        fetch_min_u64 = fetch_min,
        fetch_max_u64 = fetch_max,
        swap_u64 = swap
    );

    /// Replaces the value by what `update` makes of it, atomically; answers the old value.
    ///
    /// # Errors
    /// When the access is out of range or not aligned.
    pub fn update_u32(
        &self,
        offset: usize,
        mut update: impl FnMut(u32) -> u32,
    ) -> Result<u32, AccessError> {
        let cell = self.cell_u32(offset)?;
        self.note_write(offset, 4);
        Ok(cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old))).unwrap_or_else(|old| old))
    }

    /// Replaces the value by what `update` makes of it, atomically; answers the old value.
    ///
    /// # Errors
    /// When the access is out of range or not aligned.
    pub fn update_u64(
        &self,
        offset: usize,
        mut update: impl FnMut(u64) -> u64,
    ) -> Result<u64, AccessError> {
        let cell = self.cell_u64(offset)?;
        self.note_write(offset, 8);
        Ok(cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old))).unwrap_or_else(|old| old))
    }

    /// Replaces the value by what `update` makes of it, atomically; answers the old value.
    ///
    /// # Errors
    /// When the access is out of range or not aligned.
    pub fn update_u16(
        &self,
        offset: usize,
        mut update: impl FnMut(u16) -> u16,
    ) -> Result<u16, AccessError> {
        let cell = self.cell_u16(offset)?;
        self.note_write(offset, 2);
        Ok(cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old))).unwrap_or_else(|old| old))
    }

    /// How many bytes from `offset` on precede the next 8-byte boundary, at most `len`.
    fn head(&self, offset: usize, len: usize) -> usize {
        let address = self.start.as_ptr().wrapping_add(offset).addr();
        (address.next_multiple_of(8) - address).min(len)
    }

    /// Copies bytes out, from any offset.
    ///
    /// # Errors
    /// When the range is not inside the region; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.check_range(offset, into.len())?;
        let (head, rest) = into.split_at_mut(self.head(offset, into.len()));
        self.load_u8s(offset, head)?;
        let mut at = offset + head.len();
        let (steps, rest) = rest.split_at_mut(whole_steps(rest.len()));
        self.load_u8s(at, steps)?;
        at += steps.len();
        let mut words = rest.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.load_u64(at)?.to_ne_bytes());
            at += 8;
        }
        self.load_u8s(at, words.into_remainder())
    }

    /// Copies bytes in, at any offset.
    ///
    /// # Errors
    /// When the range is not inside the region; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), AccessError> {
        self.check_range(offset, from.len())?;
        let (head, rest) = from.split_at(self.head(offset, from.len()));
        self.store_u8s(offset, head)?;
        let mut at = offset + head.len();
        let (steps, rest) = rest.split_at(whole_steps(rest.len()));
        self.store_u8s(at, steps)?;
        at += steps.len();
        let words = rest.chunks_exact(8);
        let tail = words.remainder();
        for word in words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            self.store_u64(at, u64::from_ne_bytes(bytes))?;
            at += 8;
        }
        self.store_u8s(at, tail)
    }

    /// Sets `len` bytes from `offset` on to `value`.
    ///
    /// # Errors
    /// When the range is not inside the region; nothing is written then.
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), AccessError> {
        self.check_range(offset, len)?;
        let head = self.head(offset, len);
        let words = (len - head) / 8;
        for cell in self.cells_u8(offset, head)? {
            cell.store(value, Relaxed);
        }
        for cell in self.cells_u64(offset + head, words)? {
            cell.store(u64::from_ne_bytes([value; 8]), Relaxed);
        }
        self.note_write(offset, len);
        let done = head + 8 * words;
        for cell in self.cells_u8(offset + done, len - done)? {
            cell.store(value, Relaxed);
        }
        Ok(())
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: an owned region was allocated in `try_new` with this very layout, which
            // depends on `len` alone, and `len` never changes; it is freed once, here.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_zeroed_and_aligned() {
        let bytes = SharedBytes::new(100);
        let mut all = [1; 100];
        bytes.read(0, &mut all).unwrap();
        assert_eq!(all, [0; 100]);
        assert_eq!(bytes.as_ptr().addr() % 256, 0);
    }

    #[test]
    fn refuses_what_is_out_of_range_or_misaligned() {
        let bytes = SharedBytes::new(10);
        assert_eq!(bytes.load_u32(8), Err(AccessError::OutOfRange));
        assert_eq!(bytes.load_u32(2), Err(AccessError::Misaligned));
        assert_eq!(bytes.load_u64(usize::MAX), Err(AccessError::OutOfRange));
        assert_eq!(bytes.write(9, &[1, 2]), Err(AccessError::OutOfRange));
        assert_eq!(bytes.fill(0, 11, 1), Err(AccessError::OutOfRange));
        assert_eq!(bytes.load_u32s(4, &mut [0; 2]), Err(AccessError::OutOfRange));
        assert_eq!(bytes.load_u8(9), Ok(0));
        assert!(SharedBytes::new(0).is_empty());
    }

    #[test]
    fn copies_at_any_offset() {
        let bytes = SharedBytes::new(64);
        let source: Vec<u8> = (1..=40).collect();
        for offset in 0..20 {
            bytes.fill(0, 64, 0).unwrap();
            bytes.write(offset, &source).unwrap();
            let mut back = vec![0; 40];
            bytes.read(offset, &mut back).unwrap();
            assert_eq!(back, source);
            bytes.fill(offset, 17, 0xee).unwrap();
            assert_eq!(bytes.load_u8(offset + 16), Ok(0xee));
            assert_eq!(bytes.load_u8(offset + 17), Ok(18));
        }
    }

    #[test]
    fn counts_from_several_threads() {
        let bytes = SharedBytes::new(16);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        bytes.fetch_add_u32(4, 1).unwrap();
                        bytes.update_u64(8, |old| old + 2).unwrap();
                    }
                });
            }
        });
        assert_eq!((bytes.load_u32(4), bytes.load_u64(8)), (Ok(400), Ok(800)));
    }

    #[test]
    fn works_over_foreign_memory() {
        let mut host = [0_u64; 4];
        let start = NonNull::new(host.as_mut_ptr().cast()).unwrap();
        // SAFETY: `host` outlives the region and is not touched while the region is used.
        let bytes = unsafe { SharedBytes::from_raw(start, 32) };
        bytes.store_u64(8, 7).unwrap();
        assert_eq!(bytes.load_u64(8), Ok(7));
        drop(bytes);
        assert_eq!(host, [0, 7, 0, 0]);
    }
}
