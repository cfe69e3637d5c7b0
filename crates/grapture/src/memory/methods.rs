//! The methods that buffers and views share, each written once.

/// What can be done with device memory that can be read.
macro_rules! device_read_methods {
    (impl $($slice:tt)*) => {
        impl<T: Pod> $($slice)* {
            /// The number of elements.
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are no elements.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// The size, in bytes.
            #[inline]
            pub fn size_bytes(&self) -> usize {
                self.len * size_of::<T>()
            }

            /// The context.
            #[inline]
            pub fn context(&self) -> &Context {
                self.inner.context()
            }

            /// The address on the device; 0 if nothing is allocated. It stays valid as long as the
            /// buffer lives.
            #[inline]
            pub fn as_raw(&self) -> CUdeviceptr {
                DeviceSlice::<T>::raw(self).address
            }

            /// Copies the elements to host memory, in the order of the stream. Blocks until they
            /// are there: [`copy_to_pinned`](Self::copy_to_pinned) does not.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, the
            /// stream is of another context, or it captures (a graph must not hold a borrow of
            /// host memory: use `copy_to_pinned`). An error of earlier work.
            #[doc(alias = "cuMemcpyDtoHAsync")]
            #[track_caller]
            pub fn copy_to_host(&self, host: &mut [T], stream: &Stream) -> CudaResult<()> {
                copy::to_host(DeviceSlice::<T>::raw(self), self.len, host, stream)
            }

            /// A copy of the elements in host memory. Blocks as
            /// [`copy_to_host`](Self::copy_to_host) does.
            ///
            /// # Errors
            ///
            /// As [`copy_to_host`](Self::copy_to_host).
            #[track_caller]
            pub fn to_vec(&self, stream: &Stream) -> CudaResult<Vec<T>> {
                let mut host = vec![T::zeroed(); self.len];
                self.copy_to_host(&mut host, stream)?;
                Ok(host)
            }

            /// Copies the elements to pinned host memory, in the order of the stream. Does not
            /// block; in a capture it becomes a node, and the graph keeps both memories alive.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, one
            /// of them is of another context than the stream, or the host holds `pinned`. An error
            /// of earlier work.
            #[doc(alias = "cuMemcpyDtoHAsync")]
            #[track_caller]
            pub fn copy_to_pinned(
                &self,
                pinned: &mut crate::pinned::PinnedBuffer<T>,
                stream: &Stream,
            ) -> CudaResult<()> {
                if crate::slot::is_slot(self, stream) {
                    let copy = crate::graph::CopyNode::to_pinned(pinned, self)?;
                    return crate::slot::captured_copy(copy, stream);
                }
                copy::to_pinned(DeviceSlice::<T>::raw(self), self.len, pinned, stream)
            }
        }
    };
}

/// What can be done with device memory that can be written.
macro_rules! device_write_methods {
    (impl $($slice:tt)*) => {
        impl<T: Pod> $($slice)* {
            /// Copies the elements from host memory, in the order of the stream. Blocks until they
            /// are on the device: [`copy_from_host_staged`](Self::copy_from_host_staged) and
            /// [`copy_from_pinned`](Self::copy_from_pinned) do not.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, the
            /// stream is of another context, or it captures (a graph must not hold a borrow of
            /// host memory). An error of earlier work.
            #[doc(alias = "cuMemcpyHtoDAsync")]
            #[track_caller]
            pub fn copy_from_host(&mut self, host: &[T], stream: &Stream) -> CudaResult<()> {
                copy::from_host(DeviceSlice::<T>::raw(self), self.len, host, stream)
            }

            /// Copies the elements as they are now from host memory, in the order of the stream.
            /// Does not wait for the stream: the elements are first copied into page-locked memory
            /// of the library's own, which is allocated for this call.
            ///
            /// In a capture it becomes a node, the graph owns that memory, and each launch copies
            /// the same elements. For elements that change from launch to launch use
            /// [`copy_from_pinned`](Self::copy_from_pinned).
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, or
            /// the stream is of another context. [`OutOfMemory`](crate::CudaError::OutOfMemory).
            /// An error of earlier work.
            #[doc(alias = "cuMemcpyHtoDAsync")]
            #[track_caller]
            pub fn copy_from_host_staged(&mut self, host: &[T], stream: &Stream) -> CudaResult<()> {
                if crate::slot::is_slot(&*self, stream) {
                    let copy = crate::graph::CopyNode::from_host(self, host)?;
                    return crate::slot::captured_copy(copy, stream);
                }
                copy::from_host_staged(DeviceSlice::<T>::raw(self), self.len, host, stream)
            }

            /// Copies the elements from pinned host memory, in the order of the stream. Does not
            /// block; in a capture it becomes a node, and the graph keeps both memories alive.
            /// Each launch copies what `pinned` holds then.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, or
            /// one of them is of another context than the stream. An error of earlier work.
            #[doc(alias = "cuMemcpyHtoDAsync")]
            #[track_caller]
            pub fn copy_from_pinned(
                &mut self,
                pinned: &crate::pinned::PinnedBuffer<T>,
                stream: &Stream,
            ) -> CudaResult<()> {
                if crate::slot::is_slot(&*self, stream) {
                    let copy = crate::graph::CopyNode::from_pinned(self, pinned)?;
                    return crate::slot::captured_copy(copy, stream);
                }
                copy::from_pinned(DeviceSlice::<T>::raw(self), self.len, pinned, stream)
            }

            /// Copies the elements from other device memory, in the order of the stream. Does not
            /// block; in a capture it becomes a node, and the graph keeps both memories alive.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the lengths differ, or
            /// one of them is of another context than the stream. An error of earlier work.
            #[doc(alias = "cuMemcpyDtoDAsync")]
            #[track_caller]
            pub fn copy_from<S>(&mut self, source: &S, stream: &Stream) -> CudaResult<()>
            where
                S: DeviceSlice<T> + ?Sized,
            {
                if crate::slot::is_slot(&*self, stream) || crate::slot::is_slot(source, stream) {
                    let copy = crate::graph::CopyNode::device(self, source)?;
                    return crate::slot::captured_copy(copy, stream);
                }
                copy::device(DeviceSlice::<T>::raw(self), source.raw(), size_of::<T>(), stream)
            }

            /// Copies a rectangle of elements from other device memory, in the order of the
            /// stream. Does not block; in a capture it becomes a node, and the graph keeps both
            /// memories alive.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing copied: the rectangles differ
            /// in size, one reaches past the end of its memory, a pitch is below the width or
            /// above what the driver can, or a memory is of another context than the stream. An
            /// error of earlier work.
            #[doc(alias = "cuMemcpy2DAsync")]
            #[track_caller]
            pub fn copy_2d_from<S>(
                &mut self,
                region: crate::memory::Region2d,
                source: &S,
                source_region: crate::memory::Region2d,
                stream: &Stream,
            ) -> CudaResult<()>
            where
                S: DeviceSlice<T> + ?Sized,
            {
                if crate::slot::is_slot(&*self, stream) || crate::slot::is_slot(source, stream) {
                    return Err(crate::slot::no_rectangle());
                }
                let target = (DeviceSlice::<T>::raw(self), region);
                let source = (source.raw(), source_region);
                crate::memory::copy_2d::copy(target, source, size_of::<T>(), stream)
            }

            /// Sets every element to `value`, in the order of the stream. Does not block; in a
            /// capture it becomes a node, and the graph keeps the memory alive.
            ///
            /// The device fills by units of 1, 2 or 4 bytes. A larger element can be filled if its
            /// bytes repeat after such a unit, as those of 0 and of -1 do.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused), with nothing filled: the bytes of `value` do
            /// not repeat so, or the stream is of another context. An error of earlier work.
            #[doc(alias = "cuMemsetD8Async")]
            #[doc(alias = "cuMemsetD16Async")]
            #[doc(alias = "cuMemsetD32Async")]
            #[track_caller]
            pub fn fill(&mut self, value: T, stream: &Stream) -> CudaResult<()> {
                if crate::slot::is_slot(&*self, stream) {
                    let fill = crate::graph::FillNode::new(self, value)?;
                    return crate::slot::captured_fill(fill, stream);
                }
                fill::all(DeviceSlice::<T>::raw(self), bytemuck::bytes_of(&value), stream)
            }

            /// Sets every element of a rectangle to `value`, in the order of the stream, as
            /// [`fill`](Self::fill) does.
            ///
            /// # Errors
            ///
            /// As [`fill`](Self::fill); moreover the rectangle reaches past the end, or its pitch
            /// is below its width or above what the driver can.
            #[doc(alias = "cuMemsetD2D8Async")]
            #[doc(alias = "cuMemsetD2D16Async")]
            #[doc(alias = "cuMemsetD2D32Async")]
            #[track_caller]
            pub fn fill_2d(
                &mut self,
                value: T,
                region: crate::memory::Region2d,
                stream: &Stream,
            ) -> CudaResult<()> {
                if crate::slot::is_slot(&*self, stream) {
                    return Err(crate::slot::no_rectangle());
                }
                let value = bytemuck::bytes_of(&value);
                fill::rectangle(DeviceSlice::<T>::raw(self), value, region, stream)
            }
        }
    };
}

/// The ways into a whole allocation.
macro_rules! device_whole_methods {
    (impl $($buffer:tt)*) => {
        impl<T: Pod> $($buffer)* {
            /// All of it, to read.
            #[inline]
            pub fn as_view(&self) -> DeviceView<'_, T> {
                DeviceView::of(&self.inner, self.inner.address(), self.len)
            }

            /// All of it, to read and write.
            #[inline]
            pub fn as_view_mut(&mut self) -> DeviceViewMut<'_, T> {
                DeviceViewMut::of(&self.inner, self.inner.address(), self.len)
            }

            /// A range of the elements, to read.
            ///
            /// # Errors
            ///
            /// [`Refused`](crate::CudaError::Refused) for a range that reaches past the end.
            pub fn view(&self, range: impl RangeBounds<usize>) -> CudaResult<DeviceView<'_, T>> {
                let (start, len) = resolve(&range, self.len)?;
                Ok(self.as_view().part(start, len))
            }

            /// A range of the elements, to read and write.
            ///
            /// # Errors
            ///
            /// As [`view`](Self::view).
            pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> CudaResult<DeviceViewMut<'_, T>> {
                let (start, len) = resolve(&range, self.len)?;
                Ok(self.as_view_mut().into_part(start, len))
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
                self.as_view_mut().into_split(middle)
            }
        }
    };
}

pub(super) use {device_read_methods, device_whole_methods, device_write_methods};
