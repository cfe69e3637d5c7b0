//! [`DeviceView`] and [`DeviceViewMut`]: ranges of a buffer.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUdeviceptr;

use crate::context::Context;
use crate::error::CudaResult;
use crate::memory::methods::{device_read_methods, device_write_methods};
use crate::memory::slice::{RawSlice, resolve, sealed};
use crate::memory::{BufferInner, DeviceSlice, DeviceSliceMut, copy, fill};
use crate::stream::Stream;

/// A range of a [`DeviceBuffer`](crate::DeviceBuffer), to read.
pub struct DeviceView<'a, T: Pod> {
    inner: &'a Arc<BufferInner>,
    address: CUdeviceptr,
    len: usize,
    _elements: PhantomData<&'a [T]>,
}

/// A range of a [`DeviceBuffer`](crate::DeviceBuffer), to read and write. No other view of the
/// buffer that lives at the same time has one of its elements.
pub struct DeviceViewMut<'a, T: Pod> {
    inner: &'a Arc<BufferInner>,
    address: CUdeviceptr,
    len: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> DeviceView<'a, T> {
    #[inline]
    pub(crate) fn of(inner: &'a Arc<BufferInner>, address: CUdeviceptr, len: usize) -> Self {
        DeviceView { inner, address, len, _elements: PhantomData }
    }

    /// `start` and `len` are within it.
    #[inline]
    pub(crate) fn part(self, start: usize, len: usize) -> Self {
        DeviceView::of(self.inner, offset::<T>(self.address, start), len)
    }

    /// A range of its elements.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a range that reaches past the end.
    pub fn view(&self, range: impl RangeBounds<usize>) -> CudaResult<DeviceView<'a, T>> {
        let (start, len) = resolve(&range, self.len)?;
        Ok(self.part(start, len))
    }
}

impl<'a, T: Pod> DeviceViewMut<'a, T> {
    #[inline]
    pub(crate) fn of(inner: &'a Arc<BufferInner>, address: CUdeviceptr, len: usize) -> Self {
        DeviceViewMut { inner, address, len, _elements: PhantomData }
    }

    /// `start` and `len` are within it.
    #[inline]
    pub(crate) fn into_part(self, start: usize, len: usize) -> Self {
        DeviceViewMut::of(self.inner, offset::<T>(self.address, start), len)
    }

    pub(super) fn into_split(self, middle: usize) -> CudaResult<(Self, Self)> {
        let (start, rest) = resolve(&(middle..), self.len)?;
        let behind = DeviceViewMut::of(self.inner, offset::<T>(self.address, start), rest);
        Ok((self.into_part(0, middle), behind))
    }

    /// The same elements, borrowed for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> DeviceViewMut<'_, T> {
        DeviceViewMut::of(self.inner, self.address, self.len)
    }

    /// All of its elements, to read.
    #[inline]
    pub fn as_view(&self) -> DeviceView<'_, T> {
        DeviceView::of(self.inner, self.address, self.len)
    }

    /// A range of its elements, to read.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a range that reaches past the end.
    pub fn view(&self, range: impl RangeBounds<usize>) -> CudaResult<DeviceView<'_, T>> {
        self.as_view().view(range)
    }

    /// A range of its elements, to read and write.
    ///
    /// # Errors
    ///
    /// As [`view`](DeviceViewMut::view).
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> CudaResult<DeviceViewMut<'_, T>> {
        let (start, len) = resolve(&range, self.len)?;
        Ok(self.reborrow().into_part(start, len))
    }

    /// The elements before `middle`, and those from it on, to read and write apart.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) if `middle` is past the end.
    pub fn split_at_mut(
        &mut self,
        middle: usize,
    ) -> CudaResult<(DeviceViewMut<'_, T>, DeviceViewMut<'_, T>)> {
        self.reborrow().into_split(middle)
    }
}

/// The address of an element that is within an allocation, or just behind it: no overflow.
#[inline]
fn offset<T>(address: CUdeviceptr, elements: usize) -> CUdeviceptr {
    address + (elements * size_of::<T>()) as CUdeviceptr
}

device_read_methods!(impl DeviceView<'_, T>);
device_read_methods!(impl DeviceViewMut<'_, T>);
device_write_methods!(impl DeviceViewMut<'_, T>);

impl<T: Pod> Clone for DeviceView<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for DeviceView<'_, T> {}

impl<T: Pod> sealed::Sealed for DeviceView<'_, T> {}
impl<T: Pod> sealed::Sealed for DeviceViewMut<'_, T> {}

impl<T: Pod> DeviceSlice<T> for DeviceView<'_, T> {
    #[inline]
    fn raw(&self) -> RawSlice<'_> {
        let bytes = self.len * size_of::<T>();
        RawSlice { address: self.address, bytes, owner: self.inner }
    }
}

impl<T: Pod> DeviceSlice<T> for DeviceViewMut<'_, T> {
    #[inline]
    fn raw(&self) -> RawSlice<'_> {
        let bytes = self.len * size_of::<T>();
        RawSlice { address: self.address, bytes, owner: self.inner }
    }
}

impl<T: Pod> DeviceSliceMut<T> for DeviceViewMut<'_, T> {}

impl<T: Pod> fmt::Debug for DeviceView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceView({} elements at {:#x})", self.len, self.address)
    }
}

impl<T: Pod> fmt::Debug for DeviceViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceViewMut({} elements at {:#x})", self.len, self.address)
    }
}
