//! [`ThreadOwned`]: a value that one thread at a time has for itself.

use std::cell::{RefCell, RefMut};

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_number;

/// A value that a thread claims, uses without a lock, and releases.
///
/// To use it costs a comparison. A lock would cost an atomic exchange, which waits for all that
/// the processor has still to write, such as what the driver has just written.
#[derive(Default)]
pub(crate) struct ThreadOwned<T> {
    /// The number of the thread that has it; 0: none.
    owner: AtomicU64,
    value: RefCell<T>,
}

// SAFETY: only the thread whose number is in `owner` reaches the value, and numbers are never used
// twice. The number is changed from 0 by an exchange that one thread wins, and back to 0 by that
// thread alone, released to the next exchange, which acquires it. So the value is sent from thread
// to thread, which `T: Send` allows, and never shared.
unsafe impl<T: Send> Sync for ThreadOwned<T> {}

impl<T> ThreadOwned<T> {
    /// Takes the value for this thread. False: another thread has it, or this one already.
    pub(crate) fn claim(&self) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.owner.compare_exchange(0, thread_number(), acquire, relaxed).is_ok()
    }

    /// The value, if this thread has it.
    ///
    /// # Panics
    ///
    /// This thread is using it already.
    #[inline]
    pub(crate) fn get(&self) -> Option<RefMut<'_, T>> {
        if self.is_owned() { Some(self.value.borrow_mut()) } else { None }
    }

    /// Gives the value up, if this thread has it.
    ///
    /// # Panics
    ///
    /// This thread is using it.
    pub(crate) fn release(&self) {
        if self.is_owned() {
            drop(self.value.borrow_mut());
            self.owner.store(0, Ordering::Release);
        }
    }

    /// Whether this thread has the value. Its own number is there only if it wrote that itself, so
    /// nothing need be ordered.
    #[inline]
    fn is_owned(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_number()
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadOwned;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let value = ThreadOwned::<u32>::default();
        assert!(value.get().is_none());
        assert!(value.claim());
        assert!(!value.claim());
        *value.get().unwrap() = 3;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                value.release();
                (value.get().is_none(), value.claim())
            });
            assert_eq!(other.join().unwrap(), (true, false));
        });
        value.release();
        let seen = std::thread::scope(|scope| {
            let other = scope.spawn(|| value.claim().then(|| *value.get().unwrap()));
            other.join().unwrap()
        });
        assert_eq!(seen, Some(3));
        assert!(value.get().is_none());
    }

    #[test]
    #[should_panic(expected = "already")]
    fn it_is_not_given_up_while_it_is_used() {
        let value = ThreadOwned::<u32>::default();
        assert!(value.claim());
        let _used = value.get();
        value.release();
    }
}
