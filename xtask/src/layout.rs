//! `cargo xtask layout`: what the tree must not hold.
//!
//! Each rule is a function over a root, and each is shown to fail on a planted fault.

mod dependencies;
mod files;
mod reports;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

/// One fault: where, and which rule it breaks.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, relative to the root.
    file: String,
    /// The line, counted from 1; 0 where it is the whole file.
    line: usize,
    /// What is wrong, and the rule.
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// Prints the faults of the tree; fails if there are any.
pub fn run(root: &Path) -> Result<()> {
    let faults = check(root)?;
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        bail!("the layout has {} faults", faults.len());
    }
    println!("the layout is as designed");
    Ok(())
}

/// All faults of the tree under `root`.
pub fn check(root: &Path) -> Result<Vec<Fault>> {
    let mut faults = dependencies::check(root)?;
    faults.extend(files::check(root)?);
    faults.extend(reports::check(root)?);
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A tree of two sound crates, to which a test adds one fault.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            tree.put("crates/grapture-sys/Cargo.toml", "[package]\nname = \"grapture-sys\"\n");
            tree.put(
                "crates/grapture/Cargo.toml",
                "[package]\nname = \"grapture\"\n[features]\nsim = [\"dep:grapture-sim\"]\n\
                 [dependencies]\ngrapture-sys.workspace = true\n\
                 grapture-sim = { workspace = true, optional = true }\n\
                 [dev-dependencies]\ngrapture-sim.workspace = true\n",
            );
            tree.put("crates/grapture/src/lib.rs", "//! Sound.\n");
            tree
        }

        fn put(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// The faults, as they are printed.
        fn faults(&self) -> Vec<String> {
            check(self.0.path()).unwrap().iter().map(ToString::to_string).collect()
        }

        #[track_caller]
        fn has_one(&self, start: &str) {
            let faults = self.faults();
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].starts_with(start), "{faults:?}");
        }
    }

    #[test]
    fn this_repository_is_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let faults: Vec<_> = check(root).unwrap().iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn a_sound_tree_has_no_fault() {
        assert_eq!(Tree::new().faults(), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_reported() {
        let tree = Tree::new();
        tree.put(
            "crates/grapture-sys/Cargo.toml",
            "[package]\nname = \"grapture-sys\"\n[dependencies]\ngrapture.workspace = true\n",
        );
        tree.has_one("crates/grapture-sys/Cargo.toml: depends on grapture");
    }

    #[test]
    fn a_dependency_for_one_target_is_seen_too() {
        let tree = Tree::new();
        tree.put(
            "crates/grapture-sim/Cargo.toml",
            "[package]\nname = \"grapture-sim\"\n\
             [target.'cfg(unix)'.dependencies]\ngrapture-cli.path = \"../grapture-cli\"\n",
        );
        tree.has_one("crates/grapture-sim/Cargo.toml: depends on grapture-cli");
    }

    #[test]
    fn the_library_may_not_always_depend_on_the_simulator() {
        let tree = Tree::new();
        tree.put(
            "crates/grapture/Cargo.toml",
            "[package]\nname = \"grapture\"\n[dependencies]\ngrapture-sim.workspace = true\n",
        );
        tree.has_one("crates/grapture/Cargo.toml: depends on grapture-sim without `optional`");
    }

    #[test]
    fn the_simulator_is_no_default_feature() {
        let tree = Tree::new();
        tree.put(
            "crates/grapture/Cargo.toml",
            "[package]\nname = \"grapture\"\n[features]\ndefault = [\"sim\"]\n\
             sim = [\"dep:grapture-sim\"]\n[dependencies]\n\
             grapture-sim = { workspace = true, optional = true }\n",
        );
        tree.has_one("crates/grapture/Cargo.toml: has the feature `sim` on by default");
    }

    #[test]
    fn a_crate_that_the_design_does_not_know_is_reported() {
        let tree = Tree::new();
        tree.put("crates/other/Cargo.toml", "[package]\nname = \"other\"\n");
        tree.has_one("crates/other/Cargo.toml: is a crate that the layout does not know");
    }

    #[test]
    fn a_long_file_is_reported_unless_it_is_generated() {
        let tree = Tree::new();
        let long = "// A line.\n".repeat(601);
        tree.put("crates/grapture/src/long.rs", &long);
        tree.put("crates/grapture/src/made.rs", &format!("// Written. Do not edit.\n{long}"));
        tree.put("crates/grapture/src/just.rs", &"// A line.\n".repeat(600));
        tree.has_one("crates/grapture/src/long.rs: has 601 lines");
    }

    #[test]
    fn foreign_text_is_reported_in_any_file_and_case() {
        for text in files::foreign_text() {
            let tree = Tree::new();
            tree.put("fixtures/a.ptx", &format!(".version 7.0\n// {}\n", text.to_uppercase()));
            tree.has_one("fixtures/a.ptx:2: holds text of NVIDIA's");
        }
    }

    #[test]
    fn a_copyright_line_of_nvidia_is_reported() {
        let tree = Tree::new();
        let line = ["* Copyr", "ight 1993-2025 NVIDIA Corp", "oration"].concat();
        tree.put("bench/c/cuda.h", &format!("/*\n{line}\n*/\n"));
        tree.has_one("bench/c/cuda.h:2: holds text of NVIDIA's");
    }

    #[test]
    fn a_path_of_someones_machine_is_reported() {
        for path in files::machine_paths() {
            let tree = Tree::new();
            tree.put("docs/a.md", &format!("run it in `{path}x/y`\n"));
            tree.has_one("docs/a.md:1: names a path of one machine");
        }
    }

    #[test]
    fn a_field_report_without_its_test_is_reported() {
        let tree = Tree::new();
        tree.put("crates/grapture/tests/suite/a.rs", "fn there(setup: &Setup) {}\n");
        tree.put("crates/grapture/tests/ui/b.rs", "fn main() {}\n");
        let head = "| row | reported | wrong | here | tests |\n|---|---|---|---|---|\n";
        let good = "| 1 | x | y | z | `suite::a::there`, `ui::b` |\n| 2 | x | no test: z | | |\n";
        tree.put("docs/field-reports.md", &format!("{head}{good}"));
        assert_eq!(tree.faults(), Vec::<String>::new());
        for (row, fault) in [
            ("| 3 | x | y | z | `suite::a::gone` |", "row 3 names `suite::a::gone`"),
            ("| 3 | x | y | z | `suite::c::there` |", "row 3 names `suite::c::there`"),
            ("| 3 | x | y | z | `ui::c` |", "row 3 names `ui::c`"),
            ("| 3 | x | y | z | |", "row 3 names no test"),
        ] {
            tree.put("docs/field-reports.md", &format!("{head}{good}{row}\n"));
            tree.has_one(&format!("docs/field-reports.md:5: {fault}"));
        }
    }

    #[test]
    fn build_outputs_are_not_looked_at() {
        let tree = Tree::new();
        tree.put("target/a.rs", &"// A line.\n".repeat(700));
        assert_eq!(tree.faults(), Vec::<String>::new());
    }
}
