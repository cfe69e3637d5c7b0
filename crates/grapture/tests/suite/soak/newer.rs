//! Pieces of work that are made, launched, checked and dropped at once: graphs that allocate, decide,
//! embed others, are added to, or come from a cache.

use std::sync::atomic::Ordering;

use grapture::{
    CudaError, CudaResult, DeviceBuffer, FillNode, Graph, Stream, StreamGraphCapture, WordCondition,
};

use super::Field;
use super::piece::{Streams, Token, mode};
use super::plan::Random;

const LEN: usize = 256;

/// Does one of them.
pub fn newer(field: &Field, random: &mut Random, streams: &Streams) {
    let (stream, side) = streams.own_and_side();
    let value = random.value();
    match random.below(6) {
        0 => temporary(field, random, stream, value),
        1 => output(field, random, stream, side, value),
        2 => condition(field, random, stream, value),
        3 => embedded(field, random, stream, side, value),
        4 => added_to(field, random, stream, value),
        _ => cached(field, random, stream),
    }
    field.counts.newer.fetch_add(1, Ordering::Relaxed);
}

fn zeroed(field: &Field) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&field.setup.context, LEN).unwrap()
}

fn captured(
    field: &Field,
    random: &mut Random,
    stream: &Stream,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> Graph {
    let graph = stream.capture(mode(random), |capture| {
        capture.retain(Token::new(field));
        record(capture)
    });
    graph.unwrap()
}

fn temporary(field: &Field, random: &mut Random, stream: &Stream, value: u32) {
    let mut words = zeroed(field);
    let graph = captured(field, random, stream, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
        scratch.fill(value, stream)?;
        words.copy_from(&scratch, stream)
    });
    let exec = graph.instantiate().unwrap();
    for _ in 0..2 {
        exec.launch(stream).unwrap();
    }
    assert_eq!(words.to_vec(stream).unwrap(), [value; LEN]);
}

fn output(field: &Field, random: &mut Random, stream: &Stream, side: &Stream, value: u32) {
    let mut output = None;
    let graph = captured(field, random, stream, |capture| {
        let mut left = capture.alloc_temporary::<u32>(LEN)?;
        left.fill(value, stream)?;
        output = Some(left.into_output());
        Ok(())
    });
    let (exec, output) = (graph.instantiate().unwrap(), output.unwrap());
    drop(graph);
    exec.launch(stream).unwrap();
    let taken = output.take().unwrap();
    assert!(matches!(exec.launch(side), Err(CudaError::Refused(_))));
    assert_eq!(taken.to_vec(side).unwrap(), [value; LEN]);
    drop(taken);
    exec.launch(side).unwrap();
    // In flight, in either order, taken or not.
    match random.below(3) {
        0 => drop((exec, output)),
        1 => drop((output, exec)),
        _ => drop((output.take().unwrap(), exec, output)),
    }
}

fn condition(field: &Field, random: &mut Random, stream: &Stream, value: u32) {
    let (mut wanted, mut words) = (zeroed(field), zeroed(field));
    let chosen = random.below(2);
    wanted.fill(chosen as u32, stream).unwrap();
    let condition = WordCondition::new(&wanted.view(..1).unwrap()).unwrap();
    let graph = captured(field, random, stream, |capture| {
        words.fill(1, stream)?;
        capture.if_(&condition, |body| words.fill(value, body.stream()))
    });
    let exec = graph.instantiate().unwrap();
    drop((graph, condition));
    exec.launch(stream).unwrap();
    drop(exec);
    assert_eq!(words.to_vec(stream).unwrap(), [[1, value][chosen]; LEN]);
}

fn embedded(field: &Field, random: &mut Random, stream: &Stream, side: &Stream, value: u32) {
    let mut word = zeroed(field);
    let inner = captured(field, random, side, |_| field.setup.add(&mut word, value, side));
    let outer = captured(field, random, stream, |capture| {
        capture.embed(&inner)?;
        capture.embed(&inner)
    });
    drop(inner);
    let exec = outer.instantiate().unwrap();
    drop(outer);
    exec.launch(side).unwrap();
    exec.launch(stream).unwrap();
    drop(exec);
    assert_eq!(word.to_vec(stream).unwrap()[0], value.wrapping_mul(4));
}

fn added_to(field: &Field, random: &mut Random, stream: &Stream, value: u32) {
    let mut words = zeroed(field);
    let mut graph = Graph::new(&field.setup.context).unwrap();
    let first = graph.add_fill(FillNode::new(&mut words, 1).unwrap(), &[]).unwrap();
    let mode = mode(random);
    let failed = stream.capture_into(&mut graph, &[first], mode, |capture| {
        capture.retain(Token::new(field));
        words.fill(2, stream)?;
        Err(CudaError::NotFound)
    });
    assert_eq!(failed.unwrap_err(), CudaError::NotFound);
    stream
        .capture_into(&mut graph, &[first], mode, |capture| {
            capture.retain(Token::new(field));
            field.setup.add(&mut words, value, stream)
        })
        .unwrap();
    let exec = graph.instantiate().unwrap();
    graph.node_mut(first).unwrap().set_fill(FillNode::new(&mut words, 3).unwrap()).unwrap();
    exec.launch(stream).unwrap();
    drop((graph, exec));
    assert_eq!(words.to_vec(stream).unwrap()[..2], [value.wrapping_add(1), 1]);
}

/// All threads use one cache, which is too small for their keys.
fn cached(field: &Field, random: &mut Random, stream: &Stream) {
    let key = random.below(5);
    let mut words = zeroed(field);
    let exec = field.cache.get_or_capture(key, stream, |capture| {
        capture.retain(Token::new(field));
        (0..=key).try_for_each(|_| field.setup.add(&mut words, 1, stream))
    });
    exec.unwrap().launch(stream).unwrap();
    stream.synchronize().unwrap();
}
