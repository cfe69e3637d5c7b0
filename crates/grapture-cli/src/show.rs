//! `grapture show`: a saved graph, or the topology of one, as a list or a picture.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use grapture::Topology;

use crate::failure::Failure;

#[derive(Args)]
pub struct Options {
    /// What `Graph::save` wrote, or `Topology::to_json` gave
    file: PathBuf,
    /// How it is shown
    #[arg(long = "as", value_enum, default_value_t = Form::List)]
    form: Form,
    /// Says what changed from FILE to this one
    #[arg(long, value_name = "OTHER", conflicts_with = "form")]
    diff: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// One line for each node
    List,
    /// In the language of Graphviz
    Dot,
    /// As a flowchart in the language of Mermaid
    Mermaid,
    /// As JSON
    Json,
}

/// Prints the graph of the file, or what changed. It needs no driver.
pub fn run(options: &Options) -> Result<(), Failure> {
    let topology = read(&options.file)?;
    if let Some(other) = &options.diff {
        println!("{}", topology.diff(&read(other)?));
        return Ok(());
    }
    match options.form {
        Form::List => println!("{topology}"),
        Form::Dot => print!("{}", topology.to_dot()),
        Form::Mermaid => print!("{}", topology.to_mermaid()),
        Form::Json => println!("{}", topology.to_json()),
    }
    Ok(())
}

fn read(path: &Path) -> Result<Topology, Failure> {
    let failed = |reason: String| Failure::cannot(format!("show {}", path.display()), reason);
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    // A saved graph begins with a line that says so; anything else is taken for a topology.
    let topology = match text.starts_with("{\"format\":") {
        true => Topology::from_saved(&text),
        false => Topology::from_json(&text),
    };
    topology.map_err(|error| failed(error.to_string()))
}
