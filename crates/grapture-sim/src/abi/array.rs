//! Arrays of the C interface: lists that a program gives, and the protocol by which it asks for
//! one, first for the length and then for the elements.

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUgraphEdgeData, CUresult};

use super::Ptr;
use crate::graph::EdgeData;
use crate::sim::Answer;

/// The elements of a list; 1 for a null list that is said to have some.
pub(super) fn read_handles<T: Copy>(list: Ptr<T>, count: usize) -> Result<Vec<T>, CUresult> {
    if count > 0 { list.read_all(count) } else { Ok(Vec::new()) }
}

/// The edge data of a list, if it is given.
pub(super) fn read_edge_data(
    list: Ptr<CUgraphEdgeData>,
    count: usize,
) -> Result<Option<Vec<EdgeData>>, CUresult> {
    if list.is_null() {
        return Ok(None);
    }
    let raw = list.read_all(count)?;
    raw.into_iter().map(EdgeData::from_raw).collect::<Result<_, _>>().map(Some)
}

/// The room in the arrays of a question, or nothing where only the length is asked for. Arrays
/// without room are refused, also where there is nothing to put into them.
pub(super) fn room<T>(list: Ptr<T>, count: Ptr<usize>) -> Result<Option<usize>, CUresult> {
    count.required()?;
    if list.is_null() {
        return Ok(None);
    }
    match count.read()? {
        0 => Err(CUDA_ERROR_INVALID_VALUE),
        room => Ok(Some(room)),
    }
}

/// Fills an array of a question: room that is left over is set to `filler`.
pub(super) fn fill<T: Copy>(
    list: Ptr<T>,
    room: usize,
    items: impl IntoIterator<Item = T>,
    filler: T,
) -> Answer {
    let items = items.into_iter().chain(std::iter::repeat(filler));
    list.write_all(items.take(room))
}

/// Answers a question for one array.
pub(super) fn answer<T: Copy>(list: Ptr<T>, count: Ptr<usize>, items: Vec<T>, filler: T) -> Answer {
    let len = items.len();
    match room(list, count)? {
        None => count.write(len),
        Some(room) => {
            fill(list, room, items, filler)?;
            count.write(len.min(room))
        }
    }
}

/// Refuses data for elements that are not asked for.
pub(super) fn check_data_alone<T, U>(list: Ptr<T>, data: Ptr<U>) -> Answer {
    if list.is_null() && !data.is_null() { Err(CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
}
