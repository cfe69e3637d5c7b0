//! [`Ptr`]: a pointer that a C caller passed.
//!
//! The unsafe part of the ABI is here: what a C caller promises of a pointer is taken on trust
//! once, in [`Argument::wrap`], and the functions of the driver are safe over it.

use core::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUresult};

use crate::sim::Answer;

/// A pointer or handle argument, good for the call `'a`.
///
/// Invariant: it is a handle that is only compared, or null, or the caller passed it where the
/// driver's documentation demands a pointer that is valid for what the function reads and writes
/// through it during the call.
pub(crate) struct Ptr<'a, T> {
    raw: *mut T,
    _call: PhantomData<&'a T>,
}

impl<T> Clone for Ptr<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<'_, T> {}
impl<T> fmt::Debug for Ptr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.raw)
    }
}

impl<'a, T> Ptr<'a, T> {
    /// Takes a pointer on trust that came inside a struct or an array that a caller passed.
    ///
    /// # Safety
    ///
    /// The invariant of the type.
    pub(crate) unsafe fn trust(raw: *const T) -> Ptr<'a, T> {
        Ptr { raw: raw.cast_mut(), _call: PhantomData }
    }

    /// The null pointer.
    pub(crate) fn null() -> Ptr<'a, T> {
        Ptr { raw: std::ptr::null_mut(), _call: PhantomData }
    }

    /// Whether it is null.
    pub(crate) fn is_null(self) -> bool {
        self.raw.is_null()
    }

    /// Its value: what a handle is, and where host memory lies.
    pub(crate) fn address(self) -> usize {
        self.raw.expose_provenance()
    }

    /// The same pointer to other things, where the function's arguments say what they are.
    pub(crate) fn cast<U>(self) -> Ptr<'a, U> {
        Ptr { raw: self.raw.cast(), _call: PhantomData }
    }

    /// 1 if it is null.
    pub(crate) fn required(self) -> Result<Ptr<'a, T>, CUresult> {
        if self.is_null() { Err(CUDA_ERROR_INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes through it; 1 if it is null.
    pub(crate) fn write(self, value: T) -> Answer {
        let raw = self.required()?.raw;
        // SAFETY: not null, so by the type's invariant the caller passed a pointer that this
        // function may write through; it need not be aligned.
        unsafe { raw.write_unaligned(value) };
        Ok(())
    }

    /// Writes through it, or does nothing if it is null: an optional output.
    pub(crate) fn offer(self, value: T) {
        if !self.is_null() {
            // It is not null, so this cannot fail.
            let _ = self.write(value);
        }
    }

    /// Writes the values from there on; 1 if it is null and there are any.
    pub(crate) fn write_all(self, values: impl IntoIterator<Item = T>) -> Answer {
        for (index, value) in values.into_iter().enumerate() {
            self.at(index)?.write(value)?;
        }
        Ok(())
    }

    /// The place of an element of an array; 1 if it is null.
    pub(crate) fn at(self, index: usize) -> Result<Ptr<'a, T>, CUresult> {
        let raw = self.required()?.raw.wrapping_add(index);
        Ok(Ptr { raw, _call: PhantomData })
    }

    /// The C handle or pointer as it came.
    pub(crate) fn raw(self) -> *mut T {
        self.raw
    }
}

impl<'a, T: Copy> Ptr<'a, T> {
    /// Reads through it; 1 if it is null.
    pub(crate) fn read(self) -> Result<T, CUresult> {
        let raw = self.required()?.raw;
        // SAFETY: not null, so by the type's invariant the caller passed a pointer that this
        // function may read through; it need not be aligned: what a file holds lies anywhere.
        Ok(unsafe { raw.read_unaligned() })
    }

    /// Reads `count` values; 1 if it is null and there are any.
    pub(crate) fn read_all(self, count: usize) -> Result<Vec<T>, CUresult> {
        (0..count).map(|index| self.at(index)?.read()).collect()
    }
}

impl<'a, T> Ptr<'a, *mut T> {
    /// The pointer that an array of pointers holds at `index`, on the same trust as the array.
    pub(crate) fn pointee(self, index: usize) -> Result<Ptr<'a, T>, CUresult> {
        let raw = self.at(index)?.read()?;
        Ok(Ptr { raw, _call: PhantomData })
    }
}

impl<'a> Ptr<'a, c_char> {
    /// The NUL-terminated text; 1 if it is null.
    pub(crate) fn text(self) -> Result<&'a CStr, CUresult> {
        let raw = self.required()?.raw;
        // SAFETY: not null, so by the type's invariant the caller passed text that ends in a NUL,
        // which stays as it is during the call `'a`.
        Ok(unsafe { CStr::from_ptr(raw) })
    }
}

/// A C argument and what the implementations take for it.
pub(crate) trait Argument<'a>: Sized {
    /// What the implementation takes.
    type Wrapped;

    /// Takes the argument on trust.
    ///
    /// # Safety
    ///
    /// A pointer obeys the invariant of [`Ptr`] during `'a`.
    unsafe fn wrap(self) -> Self::Wrapped;
}

impl<'a, T: 'static> Argument<'a> for *mut T {
    type Wrapped = Ptr<'a, T>;

    unsafe fn wrap(self) -> Ptr<'a, T> {
        Ptr { raw: self, _call: PhantomData }
    }
}

impl<'a, T: 'static> Argument<'a> for *const T {
    type Wrapped = Ptr<'a, T>;

    unsafe fn wrap(self) -> Ptr<'a, T> {
        Ptr { raw: self.cast_mut(), _call: PhantomData }
    }
}

/// A place for memory, as a caller passed it by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemLocation {
    /// What kind of place.
    pub(crate) kind: grapture_sys::CUmemLocationType,
    /// Which of its kind.
    pub(crate) id: i32,
}

impl Argument<'_> for grapture_sys::CUmemLocation {
    type Wrapped = MemLocation;

    unsafe fn wrap(self) -> MemLocation {
        // SAFETY: the union is 4 bytes that the caller passed by value; of each of its members
        // they are a number.
        let id = unsafe { self.__bindgen_anon_1.id };
        MemLocation { kind: self.type_, id }
    }
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl Argument<'_> for $ty {
            type Wrapped = $ty;

            unsafe fn wrap(self) -> $ty {
                self
            }
        }
    )*};
}

plain! {
    u8, u16, u32, i32, u64, usize,
    CUresult,
    Option<unsafe extern "C" fn(*mut core::ffi::c_void)>,
    grapture_sys::CUstreamCallback,
    grapture_sys::CUoccupancyB2DSize,
    grapture_sys::CUgraphRecaptureCallback,
    grapture_sys::CUstreamCaptureMode,
    grapture_sys::CUdevice_attribute,
    grapture_sys::CUfunction_attribute,
    grapture_sys::CUpointer_attribute,
    grapture_sys::CUlimit,
    grapture_sys::CUmemPool_attribute,
    grapture_sys::CUgraphMem_attribute,
    grapture_sys::CUlaunchAttributeID,
    grapture_sys::CUfunc_cache,
    grapture_sys::CUsharedconfig,
    grapture_sys::CUexecAffinityType,
    grapture_sys::CUdevice_P2PAttribute,
    grapture_sys::CUarray_format,
    grapture_sys::CUmem_advise,
    grapture_sys::CUmem_range_attribute,
    grapture_sys::CUjitInputType,
    grapture_sys::CUmemAllocationType,
}
