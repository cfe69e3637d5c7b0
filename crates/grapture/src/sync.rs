//! What the lock-free parts are made of. The crate `grapture-loom` compiles them with loom's in the
//! place of these.

use std::cell::Cell;
#[cfg(debug_assertions)]
use std::cell::RefCell;

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

/// Holds in debug builds that a thread which is within something does not come back to it: others
/// that wait for it to leave would let it wait too.
pub(crate) struct Within {
    #[cfg(debug_assertions)]
    address: usize,
}

#[cfg(debug_assertions)]
thread_local! {
    static WITHIN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
impl Within {
    pub(crate) fn enter<T>(place: &T) -> Within {
        let address = std::ptr::from_ref(place).addr();
        // A thread that ends may not have the list any more.
        let _ = WITHIN.try_with(|within| {
            let mut within = within.borrow_mut();
            assert!(!within.contains(&address), "a call came back to where it was made");
            within.push(address);
        });
        Within { address }
    }
}

#[cfg(debug_assertions)]
impl Drop for Within {
    fn drop(&mut self) {
        let forget = |within: &RefCell<Vec<usize>>| {
            within.borrow_mut().retain(|address| *address != self.address);
        };
        let _ = WITHIN.try_with(forget);
    }
}

#[cfg(not(debug_assertions))]
impl Within {
    #[inline(always)]
    pub(crate) fn enter<T>(_: &T) -> Within {
        Within {}
    }
}
