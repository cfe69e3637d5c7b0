//! Buffers, views, copies and fills, submitted at once.

use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use bytemuck::Pod;
use grapture::{Context, CudaError, DeviceBuffer, DeviceSlice, Driver, Region2d, Stream};
use grapture_sim::SimConfig;

both_tiers!(
    elements_of_every_size_come_back,
    a_zeroed_buffer_is_zero,
    views_narrow_the_range,
    split_views_copy_into_each_other,
    ranges_outside_are_refused,
    lengths_that_differ_are_refused,
    fills_set_every_element,
    fills_that_the_device_cannot_are_refused,
    rectangles_are_copied,
    rectangles_are_filled,
    bad_rectangles_are_refused,
    empty_buffers_do_nothing,
    elements_without_bytes_are_counted,
    sizes_beyond_the_memory_are_refused,
    a_drop_waits_for_the_work_in_flight,
    foreign_memory_is_borrowed_and_taken_over,
    default_streams_take_copies,
);

fn upload<T: Pod>(setup: &Setup, elements: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

fn elements_of_every_size_come_back(setup: &Setup) {
    #[track_caller]
    fn round_trip<T: Pod + PartialEq + std::fmt::Debug>(setup: &Setup, elements: &[T]) {
        let stream = setup.stream();
        let mut buffer = DeviceBuffer::<T>::alloc(&setup.context, elements.len()).unwrap();
        assert_eq!(buffer.len(), elements.len());
        assert_eq!(buffer.size_bytes(), size_of_val(elements));
        buffer.copy_from_host(elements, &stream).unwrap();
        assert_eq!(buffer.to_vec(&stream).unwrap(), elements);
        let mut target = DeviceBuffer::<T>::zeroed(&setup.context, elements.len()).unwrap();
        target.copy_from(&buffer, &stream).unwrap();
        assert_eq!(target.to_vec(&stream).unwrap(), elements);
    }
    round_trip(setup, &[1u8, 2, 255]);
    round_trip(setup, &[1i16, -2, i16::MIN]);
    round_trip(setup, &[1.5f32, f32::MIN, f32::INFINITY]);
    round_trip(setup, &[u64::MAX, 0, 1]);
    round_trip(setup, &[[1u8, 2, 3], [4, 5, 6]]);
    let large: Vec<u32> = (0..1 << 20).collect();
    round_trip(setup, &large);
}

fn a_zeroed_buffer_is_zero(setup: &Setup) {
    let stream = setup.stream();
    let buffer = DeviceBuffer::<u64>::zeroed(&setup.context, 1_000).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), vec![0; 1_000]);
}

fn views_narrow_the_range(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = upload(setup, &[0u32, 1, 2, 3, 4, 5, 6, 7]);
    let view = buffer.view(2..6).unwrap();
    assert_eq!((view.len(), view.size_bytes(), view.is_empty()), (4, 16, false));
    assert_eq!(view.as_raw(), buffer.as_raw() + 8);
    assert_eq!(view.view(1..=2).unwrap().to_vec(&stream).unwrap(), [3, 4]);
    assert!(view.view(4..).unwrap().is_empty());

    let mut view = buffer.view_mut(4..).unwrap();
    view.view_mut(..2).unwrap().copy_from_host(&[40, 50], &stream).unwrap();
    view.reborrow().into_fill(9, &stream);
    assert_eq!(buffer.to_vec(&stream).unwrap(), [0, 1, 2, 3, 9, 9, 9, 9]);
}

/// Takes a view by value, as a function of a program does.
trait IntoFill {
    fn into_fill(self, value: u32, stream: &Stream);
}

impl IntoFill for grapture::DeviceViewMut<'_, u32> {
    fn into_fill(mut self, value: u32, stream: &Stream) {
        self.fill(value, stream).unwrap();
    }
}

fn split_views_copy_into_each_other(setup: &Setup) {
    fn sum(slice: &impl DeviceSlice<u16>, target: &mut DeviceBuffer<u16>, stream: &Stream) {
        target.copy_from(slice, stream).unwrap();
    }
    let stream = setup.stream();
    let mut buffer = upload(setup, &[1u16, 2, 3, 4]);
    let (mut front, back) = buffer.split_at_mut(2).unwrap();
    front.copy_from(&back, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [3, 4, 3, 4]);

    let mut two = DeviceBuffer::<u16>::zeroed(&setup.context, 2).unwrap();
    sum(&buffer.view(1..3).unwrap(), &mut two, &stream);
    assert_eq!(two.to_vec(&stream).unwrap(), [4, 3]);
    let text = refusal(buffer.split_at_mut(5));
    assert_eq!(text, "memory.range: 5..4 begins after its end");
}

fn ranges_outside_are_refused(setup: &Setup) {
    let mut buffer = upload(setup, &[0u32; 16]);
    assert_eq!(
        refusal(buffer.view(10..20)),
        "memory.range: 10..20 reaches past the end of a buffer of 16 elements"
    );
    #[allow(clippy::reversed_empty_ranges, reason = "that it is reversed is the test")]
    let reversed = refusal(buffer.view_mut(3..2));
    assert_eq!(reversed, "memory.range: 3..2 begins after its end");
    assert!(refusal(buffer.view(..=usize::MAX)).contains("past the end"));
    let mut half = buffer.view_mut(8..).unwrap();
    assert!(refusal(half.view(..9)).contains("past the end of a buffer of 8 elements"));
    assert!(refusal(half.view_mut(8..=8)).contains("past the end"));
}

fn lengths_that_differ_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = upload(setup, &[7u32; 4]);
    let shorter = upload(setup, &[1u32; 3]);
    let text =
        "copy.len: the source has 3 elements and the target 4: take a view of the longer one";
    assert_eq!(refusal(buffer.copy_from(&shorter, &stream)), text);
    assert_eq!(refusal(buffer.copy_from_host(&[1; 3], &stream)), text);
    assert!(refusal(buffer.copy_to_host(&mut [0; 5], &stream)).contains("has 4 elements"));
    assert_eq!(buffer.to_vec(&stream).unwrap(), [7; 4]);
    buffer.view_mut(1..).unwrap().copy_from(&shorter, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [7, 1, 1, 1]);
}

fn fills_set_every_element(setup: &Setup) {
    #[track_caller]
    fn filled<T: Pod + PartialEq + std::fmt::Debug>(setup: &Setup, value: T) {
        let stream = setup.stream();
        let mut buffer = DeviceBuffer::<T>::zeroed(&setup.context, 9).unwrap();
        buffer.view_mut(1..8).unwrap().fill(value, &stream).unwrap();
        let mut expected = [value; 9];
        (expected[0], expected[8]) = (T::zeroed(), T::zeroed());
        assert_eq!(buffer.to_vec(&stream).unwrap(), expected);
    }
    filled(setup, 0x12u8);
    filled(setup, 0x1234u16);
    filled(setup, -1.25f32);
    filled(setup, -1i64);
    filled(setup, 0x1234_5678_1234_5678u64);
    filled(setup, [9u8; 3]);
    filled(setup, [1u16, 2, 1, 2]);
}

fn fills_that_the_device_cannot_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = upload(setup, &[1.0f64; 2]);
    assert_eq!(
        refusal(buffer.fill(1.5, &stream)),
        "fill.value: an element of 8 bytes can be filled only if its bytes repeat after 1, 2 or 4: \
         copy from the host, or let a kernel write it"
    );
    buffer.fill(0.0, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [0.0; 2]);
}

fn rectangles_are_copied(setup: &Setup) {
    let stream = setup.stream();
    // Rows of 4: 0 1 2 3 / 4 5 6 7 / 8 9 10 11
    let source = upload(setup, &std::array::from_fn::<u32, 12, _>(|index| index as u32));
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 10).unwrap();
    let from = Region2d::new(2, 3).pitch(4).offset(1);
    let to = Region2d::new(2, 3).pitch(3).offset(2);
    target.copy_2d_from(to, &source, from, &stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [0, 0, 1, 2, 0, 5, 6, 0, 9, 10]);
    let nothing = Region2d::new(0, 3).pitch(4);
    target.copy_2d_from(nothing, &source, nothing, &stream).unwrap();
}

fn rectangles_are_filled(setup: &Setup) {
    #[track_caller]
    fn filled<T: Pod + PartialEq + std::fmt::Debug>(setup: &Setup, value: T) {
        let stream = setup.stream();
        let mut buffer = DeviceBuffer::<T>::zeroed(&setup.context, 8).unwrap();
        let region = Region2d::new(2, 2).pitch(3).offset(1);
        buffer.fill_2d(value, region, &stream).unwrap();
        let zero = T::zeroed();
        let expected = [zero, value, value, zero, value, value, zero, zero];
        assert_eq!(buffer.to_vec(&stream).unwrap(), expected);
    }
    filled(setup, 0x12u8);
    filled(setup, 0x1234u16);
    filled(setup, 0x1234_5678u32);
    filled(setup, -1i64);
}

fn bad_rectangles_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = upload(setup, &[0u32; 12]);
    let other = upload(setup, &[0u32; 12]);
    let whole = Region2d::new(4, 3);
    for (region, text) in [
        (Region2d::new(4, 3).pitch(3), "its pitch of 3 elements is below its width of 4"),
        (Region2d::new(4, 4), "reaches past the end of memory of 12 elements"),
        (Region2d::new(4, 3).offset(1), "reaches past the end"),
        (Region2d::new(2, 3).pitch(6), "reaches past the end"),
        (Region2d::new(0, 0).offset(13), "reaches past the end"),
        (Region2d::new(1, usize::MAX), "reaches past the end"),
        (Region2d::new(1, 2).pitch(usize::MAX), "reaches past the end"),
    ] {
        let refused = refusal(buffer.fill_2d(1, region, &stream));
        assert!(refused.starts_with("fill.region: ") && refused.contains(text), "{refused}");
        let refused = refusal(buffer.copy_2d_from(region, &other, whole, &stream));
        assert!(refused.starts_with("copy.region: ") && refused.contains(text), "{refused}");
        let refused = refusal(buffer.copy_2d_from(whole, &other, region, &stream));
        assert!(refused.starts_with("copy.source_region: "), "{refused}");
    }
    let refused = refusal(buffer.copy_2d_from(whole, &other, Region2d::new(3, 4), &stream));
    assert_eq!(refused, "copy.region: it has 4 x 3 elements and the source 3 x 4");
    buffer.fill_2d(1, whole, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [1; 12]);
}

fn empty_buffers_do_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = DeviceBuffer::<u32>::alloc(&setup.context, 0).unwrap();
    assert_eq!((buffer.len(), buffer.as_raw()), (0, 0));
    assert!(buffer.is_empty());
    buffer.copy_from_host(&[], &stream).unwrap();
    buffer.fill(7, &stream).unwrap();
    buffer.fill_2d(7, Region2d::new(0, 0), &stream).unwrap();
    let other = DeviceBuffer::<u32>::zeroed(&setup.context, 0).unwrap();
    buffer.copy_from(&other, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [0u32; 0]);
    assert!(refusal(buffer.view(..1)).contains("of a buffer of 0 elements"));
    assert_eq!(DeviceBuffer::<u8>::alloc_async(&stream, 0).unwrap().len(), 0);
}

fn elements_without_bytes_are_counted(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = DeviceBuffer::<()>::zeroed(&setup.context, 5).unwrap();
    assert_eq!((buffer.len(), buffer.size_bytes()), (5, 0));
    buffer.copy_from_host(&[(); 5], &stream).unwrap();
    assert_eq!(buffer.view(2..).unwrap().to_vec(&stream).unwrap(), [(); 3]);
    assert!(refusal(buffer.copy_from_host(&[(); 4], &stream)).contains("has 4 elements"));
}

fn sizes_beyond_the_memory_are_refused(setup: &Setup) {
    assert_eq!(
        refusal(DeviceBuffer::<u64>::alloc(&setup.context, usize::MAX)),
        "memory.len: 18446744073709551615 elements of 8 bytes are more than an address space has"
    );
    let stream = setup.stream();
    assert!(refusal(DeviceBuffer::<u16>::alloc_async(&stream, 1 << 63)).contains("memory.len"));
    let large = 1 << 50;
    let error = DeviceBuffer::<u8>::alloc(&setup.context, large).unwrap_err();
    assert_eq!(error, CudaError::OutOfMemory);
    assert_eq!(upload(setup, &[5u8]).to_vec(&stream).unwrap(), [5]);
}

fn a_drop_waits_for_the_work_in_flight(setup: &Setup) {
    let stream = setup.stream();
    let source = upload(setup, &[3u32; 1_000]);
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 1_000).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    target.copy_from(&source, &stream).unwrap();
    std::thread::scope(|scope| {
        let dropped = scope.spawn(move || drop(source));
        gate.wait_until_reached();
        assert!(!dropped.is_finished());
        gate.open();
    });
    assert_eq!(target.to_vec(&stream).unwrap(), [3; 1_000]);
}

fn foreign_memory_is_borrowed_and_taken_over(setup: &Setup) {
    let stream = setup.stream();
    let owner = upload(setup, &[1u32, 2, 3]);
    // SAFETY: `owner` has room for three elements and outlives the buffer and its work.
    let mut borrowed =
        unsafe { DeviceBuffer::<u32>::borrow_raw(&setup.context, owner.as_raw(), 3) }.unwrap();
    borrowed.view_mut(1..).unwrap().fill(9, &stream).unwrap();
    drop(borrowed);
    assert_eq!(owner.to_vec(&stream).unwrap(), [1, 9, 9]);

    let address = owner.as_raw();
    std::mem::forget(owner);
    // SAFETY: the allocation is of this context, and the buffer that had it is forgotten.
    let taken = unsafe { DeviceBuffer::<u32>::from_raw(&setup.context, address, 3) }.unwrap();
    assert_eq!(taken.to_vec(&stream).unwrap(), [1, 9, 9]);
    // SAFETY: nothing is made: the size is refused before.
    let huge = unsafe { DeviceBuffer::<u32>::from_raw(&setup.context, address, usize::MAX) };
    assert!(refusal(huge).contains("memory.len"));
}

fn default_streams_take_copies(setup: &Setup) {
    for stream in [Stream::legacy(&setup.context), Stream::per_thread(&setup.context)] {
        let mut buffer = DeviceBuffer::<u32>::alloc(&setup.context, 2).unwrap();
        buffer.copy_from_host(&[1, 2], &stream).unwrap();
        buffer.view_mut(1..).unwrap().fill(5, &stream).unwrap();
        assert_eq!(buffer.to_vec(&stream).unwrap(), [1, 5]);
    }
}

#[test]
fn sim_memory_of_another_context_is_refused() {
    let config = SimConfig::default().devices(2);
    let driver = Driver::from(grapture_sim::driver(config));
    let contexts = [0, 1].map(|ordinal| Context::new(&driver.device(ordinal).unwrap()).unwrap());
    let stream = Stream::new(&contexts[0]).unwrap();
    let mut ours = DeviceBuffer::from_slice(&contexts[0], &[1u32, 2]).unwrap();
    let mut theirs = DeviceBuffer::from_slice(&contexts[1], &[3u32, 4]).unwrap();
    let mut pinned = grapture::PinnedBuffer::<u32>::zeroed(&contexts[1], 2).unwrap();
    let region = Region2d::new(2, 1);
    let text = "belongs to another context than the stream";
    for refused in [
        refusal(theirs.copy_from_host(&[5, 6], &stream)),
        refusal(theirs.to_vec(&stream)),
        refusal(theirs.fill(0, &stream)),
        refusal(theirs.fill_2d(0, region, &stream)),
        refusal(ours.copy_from_pinned(&pinned, &stream)),
        refusal(ours.copy_to_pinned(&mut pinned, &stream)),
    ] {
        assert!(refused.contains(text), "{refused}");
    }
    assert_eq!(ours.to_vec(&stream).unwrap(), [1, 2]);
    let second = Stream::new(&contexts[1]).unwrap();
    assert_eq!(theirs.to_vec(&second).unwrap(), [3, 4]);
}

#[test]
fn handles_of_memory_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<DeviceBuffer<u32>>();
    shared::<grapture::DeviceView<'_, u32>>();
    shared::<grapture::DeviceViewMut<'_, u32>>();
    shared::<grapture::PinnedBuffer<u32>>();
    shared::<grapture::Device>();
}
