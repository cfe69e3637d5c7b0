//! The same saxpy in ptoxide.

use std::time::Instant;

use ptoxide::{Argument, Context, LaunchParams};

use crate::kernels::{ELEMENTS, SAXPY};

/// The first kernel of the text alone, as the peer does not know all that the others need.
fn text() -> &'static str {
    let end = SAXPY.match_indices(".visible .entry").nth(1).map_or(SAXPY.len(), |(at, _)| at);
    &SAXPY[..end]
}

/// Runs it once; answers the seconds of the launch alone.
pub fn saxpy() -> f64 {
    let mut context = Context::new_with_module(text()).expect("ptoxide compiles it");
    let values: Vec<f32> = (0..ELEMENTS).map(|i| (i % 97) as f32 / 16.0).collect();
    let (x, y) = (context.alloc(ELEMENTS), context.alloc(ELEMENTS));
    context.write(x, &values);
    context.write(y, &values);
    let params = LaunchParams::func("saxpy").grid1d((ELEMENTS / 256) as u32).block1d(256);
    let arguments = [
        Argument::U32(ELEMENTS as u32),
        Argument::U32(1.5_f32.to_bits()),
        Argument::ptr(x),
        Argument::ptr(y),
    ];
    let start = Instant::now();
    context.run(params, &arguments).expect("ptoxide runs it");
    start.elapsed().as_secs_f64()
}
