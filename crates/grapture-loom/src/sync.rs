//! What the library's `sync` has, by loom.

use std::time::Duration;

pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Atomic numbers. Loom knows sequential consistency of fences only, and takes such a load or store
/// for an acquiring or releasing one. A fence between the two of them does the same where one
/// thread writes, and then looks at what another one writes; the models run with both places for
/// it, so that neither access can lose its order unseen.
pub(crate) mod atomic {
    use std::sync::atomic::AtomicBool as Switch;

    pub(crate) use loom::sync::atomic::Ordering;
    use loom::sync::atomic::fence;

    /// Whether the fence stands before loads; else after what writes.
    static BEFORE_LOADS: Switch = Switch::new(false);

    pub(crate) fn fences_before_loads(before: bool) {
        BEFORE_LOADS.store(before, Ordering::SeqCst);
    }

    fn before_load(order: Ordering) {
        if order == Ordering::SeqCst && BEFORE_LOADS.load(Ordering::SeqCst) {
            fence(Ordering::SeqCst);
        }
    }

    fn after_write(order: Ordering) {
        if order == Ordering::SeqCst && !BEFORE_LOADS.load(Ordering::SeqCst) {
            fence(Ordering::SeqCst);
        }
    }

    macro_rules! atomics {
        ($($name:ident: $value:ty [$($count:ident),*];)*) => {$(
            #[derive(Debug, Default)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    before_load(order);
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, order);
                    after_write(order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    let old = self.0.swap(value, order);
                    after_write(order);
                    old
                }

                pub(crate) fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.0.compare_exchange(current, new, success, failure)
                }

                $(
                    pub(crate) fn $count(&self, value: $value, order: Ordering) -> $value {
                        let old = self.0.$count(value, order);
                        after_write(order);
                        old
                    }
                )*
            }
        )*};
    }

    atomics! {
        AtomicBool: bool [];
        AtomicU64: u64 [fetch_add, fetch_sub];
        AtomicUsize: usize [fetch_add, fetch_sub];
    }
}

/// Whoever waits by looking again lets the others go on.
pub(crate) fn pause(_: Duration) {
    loom::thread::yield_now();
}

/// The models do not come back to where they are.
pub(crate) struct Within;

impl Within {
    pub(crate) fn enter<T>(_: &T) -> Within {
        Within
    }
}

/// A number of the calling thread of the model, never 0.
pub(crate) fn thread_number() -> u64 {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    loom::thread_local! {
        static NUMBER: Cell<u64> = Cell::new(0);
    }
    static LAST: AtomicU64 = AtomicU64::new(0);

    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}
