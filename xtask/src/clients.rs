//! `cargo xtask clients`: programs that others wrote, on the simulated driver in the place of
//! `libcuda.so.1`. What they are made of is fetched into `target/xtask/`; nothing of it is
//! committed. `docs/simulator.md` explains each case that does not hold.

mod cpp;
mod cudarc;
mod outcome;
mod python;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{process, pypi, sim_lib};
use outcome::{Outcome, Sum};

/// Which clients to run.
#[derive(clap::Args)]
pub struct Options {
    /// Only the clients whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// Where everything is that a client needs.
pub struct Place {
    root: PathBuf,
    /// The folder for what the job builds.
    work: PathBuf,
    /// The folder with the simulated `libcuda.so.1`.
    driver: PathBuf,
    /// The interpreter with NVIDIA's packages, and their libraries and headers.
    python: python::Environment,
}

impl Place {
    fn prepare(root: &Path) -> Result<Place> {
        sim_lib::run(root)?;
        let work = pypi::cache(root).join("clients");
        std::fs::create_dir_all(&work)?;
        let driver = process::target(root).join("sim");
        let python = python::Environment::prepare(&work)?;
        Ok(Place { root: root.to_path_buf(), work, driver, python })
    }

    /// What a program finds libraries by.
    fn library_path(&self) -> String {
        format!("{}:{}", self.driver.display(), self.python.libraries().display())
    }

    /// The kernels of the cases.
    fn kernels(&self) -> PathBuf {
        self.root.join("crates/grapture/fixtures/kernels.ptx")
    }
}

type Client = (&'static str, fn(&Place) -> Result<Vec<Outcome>>);

const CLIENTS: &[Client] = &[
    ("cudarc, its own tests", cudarc::tests),
    ("cudarc, its examples", cudarc::examples),
    ("cuda-bindings, driver API", |place| python::cases(place, "bindings_cases.py")),
    ("cuda-bindings, graphs", |place| python::cases(place, "graph_cases.py")),
    ("cuda.core", |place| python::cases(place, "core_cases.py")),
    ("C++ on cuda.h", cpp::driver),
    ("C++ on cuda.h, a null stream per thread", cpp::driver_per_thread),
    ("C++ on the CUDA runtime", cpp::runtime),
];

/// Sets the clients up, runs them, and prints for each how many of its cases hold and which do
/// not. Fails where a case does not hold that is not explained, or one holds that is.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let place = Place::prepare(root)?;
    let wanted = options.only.as_deref().unwrap_or_default();
    let mut sums = Vec::new();
    for (name, run) in CLIENTS.iter().filter(|(name, _)| name.contains(wanted)) {
        println!("\n== {name}");
        let outcomes = run(&place)?;
        outcomes.iter().for_each(|outcome| println!("{outcome}"));
        sums.push(Sum::new(name, &outcomes));
    }
    println!();
    sums.iter().for_each(|sum| println!("{sum}"));
    let unexplained: usize = sums.iter().map(|sum| sum.unexplained).sum();
    if unexplained > 0 {
        bail!("{unexplained} cases are not as docs/simulator.md explains them");
    }
    Ok(())
}
