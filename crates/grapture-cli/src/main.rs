//! `grapture`: a demo of capture and replay on a real image, a doctor for the CUDA driver, and a look at
//! saved graphs.

mod demo;
mod doctor;
mod driver;
mod failure;
mod show;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Records live CUDA streams into graphs and replays them.
#[derive(Parser)]
#[command(name = "grapture", version, about, arg_required_else_help = true)]
#[command(after_help = "\
Environment:
  GRAPTURE_DRIVER   the CUDA driver to use: unset for the system's, a path to a library,
                    or `sim` for the simulated driver

Exit codes: 0 done, 1 a result was wrong, 2 it could not be done.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Finds the edges of an image, frame after frame: call by call, and as a replayed graph
    ///
    /// The same ten operations (an upload, a fill, seven kernels, a download) are submitted one by
    /// one, and captured once and replayed. Both must give the same bits in every frame. Without a
    /// GPU the simulated driver runs them.
    Demo(demo::Options),
    /// Says which CUDA driver there is, what it can do, and if there is none, why
    Doctor,
    /// Shows a graph that was saved to a file, or what changed from one to another; needs no driver
    Show(show::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Doctor => doctor::run(),
        Command::Show(options) => show::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("grapture: {failure}");
            failure.exit_code()
        }
    }
}
