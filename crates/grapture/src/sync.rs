//! What the lock-free parts are made of. The crate `grapture-loom` compiles them with loom's in the
//! place of these.

use std::cell::Cell;

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::thread::sleep as pause;

use atomic::{AtomicU64, Ordering};

/// A number of the calling thread, never 0 and never another's.
#[inline]
pub(crate) fn thread_number() -> u64 {
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    static LAST: AtomicU64 = AtomicU64::new(0);

    let number = NUMBER.get();
    if number != 0 {
        return number;
    }
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    NUMBER.set(number);
    number
}
