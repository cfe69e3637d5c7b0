//! Compiles the program in C into the library that every program links.

fn main() {
    println!("cargo::rerun-if-changed=c/bench.c");
    cc::Build::new()
        .file("c/bench.c")
        .std("gnu11")
        .opt_level(2)
        .warnings_into_errors(true)
        .compile("bench_c");
    println!("cargo::rustc-link-lib=dl");
}
