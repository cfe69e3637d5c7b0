//! [`UserObject`]: a counted reference to something of the program's, with its destructor.
//!
//! The destructor is a C function of the program, so it must never run under a lock of the
//! simulator: whatever holds a [`UserRef`] is dropped after the lock is released, or by a thread of
//! the engine when the launch that held it is done.

use core::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUresult, CUuserObject_st};

use crate::handle::{Kind, Object};
use crate::work::call_program;

/// What a user object is to the program.
#[derive(Debug)]
struct Core {
    references: AtomicU64,
    destroy: unsafe extern "C" fn(*mut c_void),
    argument: usize,
}

/// A user object as its handle names it. It holds no reference itself.
#[derive(Clone, Debug)]
pub(crate) struct UserObject {
    core: Arc<Core>,
}

impl Object for UserObject {
    const KIND: Kind = Kind::UserObject;
    type Raw = CUuserObject_st;
}

impl UserObject {
    /// An object with so many references of the program's.
    pub(crate) fn new(
        destroy: unsafe extern "C" fn(*mut c_void),
        argument: usize,
        references: u32,
    ) -> UserObject {
        let references = AtomicU64::new(u64::from(references));
        UserObject { core: Arc::new(Core { references, destroy, argument }) }
    }

    /// Whether any reference is left.
    pub(crate) fn is_alive(&self) -> bool {
        self.core.references.load(Ordering::Acquire) > 0
    }

    /// Adds references of the program's.
    pub(crate) fn retain(&self, count: u64) {
        self.core.references.fetch_add(count, Ordering::AcqRel);
    }

    /// New references for a graph.
    pub(crate) fn share(&self, count: u64) -> UserRef {
        self.retain(count);
        self.adopt(count)
    }

    /// References that the program gives to a graph.
    pub(crate) fn adopt(&self, count: u64) -> UserRef {
        UserRef { object: self.clone(), count }
    }

    /// Drops references of the program's. The last one runs the destructor here and now; dropping
    /// more than there are does nothing.
    pub(crate) fn release(&self, count: u64) {
        let left = self
            .core
            .references
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| held.checked_sub(count));
        if left == Ok(count) {
            let argument = std::ptr::with_exposed_provenance_mut(self.core.argument);
            call_program(|| {
                // SAFETY: the caller of `cuUserObjectCreate` gave this function and this argument
                // to be called once, on any thread, when the last reference is gone; the count,
                // which only now reached zero, says so.
                unsafe { (self.core.destroy)(argument) };
            });
        }
    }

    fn is(&self, other: &UserObject) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

/// References that a graph, an executable or a launch holds; dropping it gives them up.
#[derive(Debug)]
pub(crate) struct UserRef {
    object: UserObject,
    count: u64,
}

impl Drop for UserRef {
    fn drop(&mut self) {
        if self.count > 0 {
            self.object.release(self.count);
        }
    }
}

impl Clone for UserRef {
    fn clone(&self) -> UserRef {
        self.object.share(self.count)
    }
}

/// All references that one graph holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserRefs {
    held: Vec<UserRef>,
}

impl UserRefs {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Adds references.
    pub(crate) fn add(&mut self, mut more: UserRef) {
        match self.held.iter_mut().find(|there| there.object.is(&more.object)) {
            Some(there) => {
                // The references move: `more` has none left to give up.
                there.count += std::mem::take(&mut more.count);
            }
            None => self.held.push(more),
        }
    }

    /// Takes references out, as far as there are so many, to be dropped without a lock.
    pub(crate) fn take(&mut self, object: &UserObject, count: u64) -> Result<UserRef, CUresult> {
        let there = self.held.iter_mut().find(|there| there.object.is(object));
        let there = there.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let count = count.min(there.count);
        there.count -= count;
        let taken = UserRef { object: object.clone(), count };
        self.held.retain(|there| there.count > 0);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    unsafe extern "C" fn count_up(argument: *mut c_void) {
        // SAFETY: the tests below give the address of a counter that outlives the object.
        let counter = unsafe { &*argument.cast::<AtomicUsize>() };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    fn object(counter: &AtomicUsize, references: u32) -> UserObject {
        let argument = std::ptr::from_ref(counter).expose_provenance();
        UserObject::new(count_up, argument, references)
    }

    #[test]
    fn the_last_reference_destroys_once() {
        let counter = AtomicUsize::new(0);
        let object = object(&counter, 2);
        let mut graph = UserRefs::default();
        graph.add(object.share(1));
        graph.add(object.adopt(1));
        object.release(1);
        let exec = graph.clone();
        drop(graph);
        assert_eq!(counter.load(Ordering::SeqCst), 0);
        drop(exec);
        assert_eq!(counter.load(Ordering::SeqCst), 1);
        assert!(!object.is_alive());
    }

    #[test]
    fn releasing_more_than_is_held_gives_up_what_is_held() {
        let counter = AtomicUsize::new(0);
        let object = object(&counter, 1);
        object.release(3);
        assert_eq!(counter.load(Ordering::SeqCst), 0);
        let mut graph = UserRefs::default();
        assert!(graph.take(&object, 1).is_err());
        graph.add(object.adopt(1));
        drop(graph.take(&object, 2).expect("one is held"));
        assert_eq!(counter.load(Ordering::SeqCst), 1);
    }
}
