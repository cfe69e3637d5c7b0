//! Programs in C++ against NVIDIA's headers.

use std::process::Command;

use anyhow::{Context, Result};

use super::Place;
use super::outcome::Outcome;
use crate::process;

/// The program on the driver API.
pub fn driver(place: &Place) -> Result<Vec<Outcome>> {
    build_and_run(place, "driver_cases", "driver", &["-lcuda"])
}

/// The same, compiled for a null stream of each thread.
pub fn driver_per_thread(place: &Place) -> Result<Vec<Outcome>> {
    let options = ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "-lcuda"];
    build_and_run(place, "driver_cases", "driver-per-thread", &options)
}

/// The program on the CUDA runtime.
pub fn runtime(place: &Place) -> Result<Vec<Outcome>> {
    build_and_run(place, "runtime_cases", "runtime", &["-l:libcudart.so.13"])
}

fn build_and_run(
    place: &Place,
    source: &str,
    name: &str,
    options: &[&str],
) -> Result<Vec<Outcome>> {
    let program = place.work.join(name);
    let source = place.root.join("clients/cpp").join(source).with_extension("cpp");
    let mut build = Command::new("g++");
    build.args(["-std=c++17", "-O1", "-Wall", "-pthread", "-I"]).arg(place.python.headers());
    build.arg(&source).arg("-o").arg(&program);
    build.arg("-L").arg(&place.driver).arg("-L").arg(place.python.libraries()).args(options);
    process::run(&mut build)?;
    let mut run = Command::new(&program);
    run.env("LD_LIBRARY_PATH", place.library_path()).env("GRAPTURE_KERNELS", place.kernels());
    let text = process::output(&mut run).context("the cases did not all run")?;
    Ok(Outcome::read_all(&text))
}
