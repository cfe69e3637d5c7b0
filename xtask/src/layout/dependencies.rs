//! Dependencies between the crates point one way.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Fault;

/// Each crate, what it may depend on, and what it may depend on where that is optional.
const ALLOWED: &[(&str, &[&str], &[&str])] = &[
    ("grapture-sys", &[], &[]),
    ("grapture", &["grapture-sys"], &["grapture-sim"]),
    ("grapture-loom", &["grapture-sys"], &[]),
    ("grapture-sim", &["grapture-sys"], &[]),
    ("grapture-cli", &["grapture-sys", "grapture", "grapture-sim"], &[]),
    ("xtask", &[], &[]),
];

/// The crates of the workspace under `root`, against the table.
pub fn check(root: &Path) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for manifest in manifests(root)? {
        let path = root.join(&manifest);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {manifest}"))?;
        let table: Table = text.parse().with_context(|| format!("cannot parse {manifest}"))?;
        faults.extend(check_crate(&table).into_iter().map(|what| Fault {
            file: manifest.clone(),
            line: 0,
            what,
        }));
    }
    Ok(faults)
}

/// The manifests of the crates, relative to the root, in order.
fn manifests(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("cannot list crates/")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.push(format!("crates/{name}/Cargo.toml"));
    }
    found.push("xtask/Cargo.toml".to_owned());
    found.retain(|manifest| root.join(manifest).is_file());
    found.sort();
    Ok(found)
}

/// What is wrong with one crate.
fn check_crate(manifest: &Table) -> Vec<String> {
    let name = manifest.get("package").and_then(|package| package.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let Some((_, always, optional)) = ALLOWED.iter().find(|(known, _, _)| *known == name) else {
        return vec!["is a crate that the layout does not know".to_owned()];
    };
    let mut faults = Vec::new();
    for (dependency, how) in dependencies(manifest) {
        let ours = ALLOWED.iter().any(|(known, _, _)| *known == dependency);
        if !ours || always.contains(&dependency) {
            continue;
        }
        if !optional.contains(&dependency) {
            faults.push(format!("depends on {dependency}, against the direction of the design"));
        } else if how.get("optional").and_then(Value::as_bool) != Some(true) {
            faults.push(format!("depends on {dependency} without `optional`"));
        }
    }
    let features = manifest.get("features").and_then(|features| features.get("default"));
    let defaults = features.and_then(Value::as_array).into_iter().flatten();
    if name == "grapture" && defaults.filter_map(Value::as_str).any(|feature| feature == "sim") {
        faults.push("has the feature `sim` on by default".to_owned());
    }
    faults
}

/// What a crate needs in order to be built, for any target. What only its tests need is free.
fn dependencies(manifest: &Table) -> Vec<(&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flatten().filter_map(|(_, target)| target.as_table());
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|section| table.get(section)))
        .flatten()
        .filter_map(Value::as_table)
        .flatten()
        .map(|(name, how)| {
            (how.get("package").and_then(Value::as_str).unwrap_or(name.as_str()), how)
        })
        .collect()
}
