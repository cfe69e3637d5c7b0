//! C against itself: what the method makes of two programs that are alike.

fn main() {
    grapture_bench::run::<grapture_bench::C<true>>();
}
