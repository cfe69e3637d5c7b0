//! A decoder that draws token after token until one ends the text: prompt after prompt, each one
//! launch of one graph, which stops early by itself.
//!
//! `cargo run --release --example decode --features sim`, with `GRAPTURE_DRIVER=sim` in the
//! environment where there is no GPU.

use grapture::{
    CaptureMode, Context, CudaResult, Device, DeviceBuffer, PinnedBuffer, Stream, WordCondition,
};

/// The most tokens that a text can have.
const MOST: usize = 16;
/// The token that ends a text.
const END: u32 = 0;
/// Which token follows which: the whole model.
const NEXT: [u32; 12] = [END, 4, 7, 6, 9, 2, 11, 5, 3, 10, 8, END];

fn main() -> CudaResult<()> {
    let context = Context::new(&Device::get(0)?)?;
    let stream = Stream::new(&context)?;
    let decode = context.load_ptx(include_str!("../fixtures/loops.ptx"))?.kernel("decode")?;
    let next = DeviceBuffer::from_slice(&context, &NEXT)?;
    let mut text = DeviceBuffer::<u32>::zeroed(&context, MOST)?;
    let mut len = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    let mut going = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    // The prompt is read at each launch, as it is then.
    let mut prompt = PinnedBuffer::<u32>::zeroed(&context, 1)?;

    let condition = WordCondition::new(&going)?;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        text.view_mut(..1)?.copy_from_pinned(&prompt, &stream)?;
        len.fill(1, &stream)?;
        going.fill(1, &stream)?;
        capture.while_(&condition, |body| {
            let launch = decode.launch_builder(1, 1).arg_mut(&mut text).arg_mut(&mut len);
            let launch = launch.value(MOST as u32).arg(&next).value(END).arg_mut(&mut going);
            // SAFETY: `decode` writes one token at `len`, which is below the most, and the words;
            // it reads the table at a token that the table gave.
            unsafe { launch.launch(body.stream()) }
        })
    })?;
    let exec = graph.instantiate()?;

    for first in [1, 6, 7] {
        prompt.write()?[0] = first;
        exec.launch(&stream)?;
        let len = len.to_vec(&stream)?[0] as usize;
        println!("{first}: {:?}", &text.to_vec(&stream)?[..len]);
    }
    Ok(())
}
