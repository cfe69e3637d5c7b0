//! Fake drivers: compiled by the test, and loaded in a process of their own, since a process finds
//! libraries where its environment said when it started.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the child to the name of its test.
const CHILD: &str = "GRAPTURE_TEST_CHILD";

/// What a child finds when it looks for a driver.
pub struct Machine {
    folder: PathBuf,
    audit: Option<PathBuf>,
}

impl Machine {
    /// A machine with the fake driver that these macros describe, such as `VERSION=12000`.
    pub fn with_driver(test: &str, macros: &[&str]) -> Machine {
        let machine = Machine::empty(test);
        let macros = macros.iter().map(|name| format!("-D{name}")).collect::<Vec<_>>();
        compile("driver.c", &machine.folder.join("libcuda.so.1"), &macros);
        machine
    }

    /// A machine on which files with the names of a driver hold this.
    pub fn with_files(test: &str, content: &[u8]) -> Machine {
        let machine = Machine::empty(test);
        for name in ["libcuda.so.1", "libcuda.so"] {
            std::fs::write(machine.folder.join(name), content).unwrap();
        }
        machine
    }

    /// A machine with no driver, whatever this one has.
    pub fn without_driver(test: &str) -> Machine {
        let mut machine = Machine::empty(test);
        let audit = machine.folder.join("hide.so");
        compile("hide.c", &audit, &[]);
        machine.audit = Some(audit);
        machine
    }

    fn empty(test: &str) -> Machine {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&folder).unwrap();
        Machine { folder, audit: None }
    }
}

/// Runs `body` in a child process that sees the machine which `machine` makes. `test` is the name
/// of the calling test: the child runs it again, and comes here to its body.
pub fn on(test: &str, machine: impl FnOnce(&str) -> Machine, body: impl FnOnce(&Path)) {
    if std::env::var_os(CHILD).is_some_and(|child| child == test) {
        let folder = std::env::var_os("LD_LIBRARY_PATH").unwrap();
        body(Path::new(&folder));
        println!("{test}: the body ran");
        return;
    }
    let machine = machine(test);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    child.env(CHILD, test).env("LD_LIBRARY_PATH", &machine.folder);
    if let Some(audit) = &machine.audit {
        child.env("LD_AUDIT", audit);
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let ran = text.contains(&format!("{test}: the body ran"));
    assert!(output.status.success() && ran, "the child failed:\n{text}\n{errors}");
}

/// Compiles a C file of this folder to a shared library.
fn compile(source: &str, library: &Path, options: &[String]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-w"])
        .args(options)
        .arg("-o")
        .args([library, &source])
        .output()
        .unwrap_or_else(|error| panic!("a C compiler is needed ({compiler:?}): {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
