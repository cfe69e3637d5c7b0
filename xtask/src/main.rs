//! Maintainer jobs, run as `cargo xtask <job>`.

fn main() {}
