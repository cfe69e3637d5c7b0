//! Ranges and rectangles of any size and place: what is accepted lies within the memory and does
//! what it says, and everything else is refused.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use grapture::{CudaError, CudaResult, DeviceBuffer, Region2d};

checked_tiers! {
    a_rectangle_is_copied_within_the_memory_or_refused,
    a_rectangle_is_filled_within_the_memory_or_refused,
    a_view_of_a_view_is_within_it_or_refused,
}

/// A rectangle, as the library and the test know it.
#[derive(Clone, Copy, Debug)]
struct Rectangle {
    width: usize,
    height: usize,
    pitch: usize,
    offset: usize,
}

impl Rectangle {
    fn region(self) -> Region2d {
        Region2d::new(self.width, self.height).pitch(self.pitch).offset(self.offset)
    }

    /// The elements, row by row, if all of them are within `len`.
    fn elements(self, len: usize) -> Option<Vec<usize>> {
        // No driver can take a longer pitch, and one row has none.
        let too_long = self.height > 1 && self.pitch > i32::MAX as usize / size_of::<u16>();
        if self.pitch < self.width || self.offset > len || too_long {
            return None;
        }
        if self.width == 0 || self.height == 0 {
            return Some(Vec::new());
        }
        let last = (self.height as u128 - 1) * self.pitch as u128
            + self.width as u128
            + self.offset as u128;
        let rows = 0..self.height;
        (last <= len as u128).then(|| {
            rows.flat_map(|row| (0..self.width).map(move |x| self.offset + row * self.pitch + x))
                .collect()
        })
    }
}

/// Mostly small numbers, and some at the ends of what a number can be.
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![
        20 => 0..7_usize,
        4 => 7..24_usize,
        1 => Just(usize::MAX),
        1 => Just(usize::MAX / 2),
        1 => Just(1 << 61),
    ]
}

fn rectangle() -> impl Strategy<Value = Rectangle> {
    (number(), number(), number(), number()).prop_map(|(width, height, pitch, offset)| Rectangle {
        width,
        height,
        pitch,
        offset,
    })
}

fn run<S: Strategy>(strategy: S, test: impl Fn(S::Value)) {
    let config = Config { failure_persistence: None, cases: 600, ..Config::default() };
    let numbers = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, numbers);
    let tested = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    tested.unwrap();
}

#[track_caller]
fn assert_refused(result: CudaResult<()>) {
    assert!(matches!(result, Err(CudaError::Refused(_))), "{result:?}");
}

const LEN: usize = 20;

fn numbered() -> Vec<u16> {
    (0..LEN as u16).collect()
}

fn a_rectangle_is_copied_within_the_memory_or_refused(setup: &Setup) {
    let stream = setup.stream();
    let source = DeviceBuffer::from_slice(&setup.context, &numbered()).unwrap();
    let target = std::cell::RefCell::new(DeviceBuffer::alloc(&setup.context, LEN).unwrap());
    run((rectangle(), rectangle()), |(to, from)| {
        let mut target = target.borrow_mut();
        target.fill(999, &stream).unwrap();
        let copied = target.copy_2d_from(to.region(), &source, from.region(), &stream);
        let ends = to.elements(LEN).zip(from.elements(LEN));
        let same = (to.width, to.height) == (from.width, from.height);
        let Some((to, from)) = ends.filter(|_| same) else { return assert_refused(copied) };
        copied.unwrap();
        let mut expected = vec![999; LEN];
        to.iter().zip(from).for_each(|(to, from)| expected[*to] = from as u16);
        assert_eq!(target.to_vec(&stream).unwrap(), expected);
    });
}

fn a_rectangle_is_filled_within_the_memory_or_refused(setup: &Setup) {
    let stream = setup.stream();
    let target = std::cell::RefCell::new(DeviceBuffer::alloc(&setup.context, LEN).unwrap());
    run(rectangle(), |rectangle| {
        let mut target = target.borrow_mut();
        target.fill(999_u16, &stream).unwrap();
        let filled = target.fill_2d(7, rectangle.region(), &stream);
        let Some(elements) = rectangle.elements(LEN) else { return assert_refused(filled) };
        filled.unwrap();
        let mut expected = vec![999; LEN];
        elements.iter().for_each(|element| expected[*element] = 7);
        assert_eq!(target.to_vec(&stream).unwrap(), expected);
    });
}

fn a_view_of_a_view_is_within_it_or_refused(setup: &Setup) {
    let stream = setup.stream();
    let buffer = DeviceBuffer::from_slice(&setup.context, &numbered()).unwrap();
    let range = || (number(), number());
    run((range(), range()), |((from, to), (start, end))| {
        let elements = numbered();
        let expected = elements.get(from..to).and_then(|outer| outer.get(start..end));
        let view = buffer.view(from..to).and_then(|outer| outer.view(start..end));
        match expected {
            Some(expected) => assert_eq!(view.unwrap().to_vec(&stream).unwrap(), expected),
            None => assert_refused(view.map(|_| ())),
        }
    });
}
