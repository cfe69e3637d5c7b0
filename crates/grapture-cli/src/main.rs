//! The `grapture` program.

fn main() {}
