//! The public functions of the library, as its sources have them, against the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use crate::all_rows;

/// Functions that make no driver call, or that have no row for another reason. A name that ends
/// in `*` stands for all that begin so.
const WITHOUT_A_ROW: &[(&str, &[&str])] = &[
    (
        "sets an option of a value",
        &[
            "CaptureOptions::*",
            "EventOptions::*",
            "InstantiateOptions::*",
            "JitOptions::*",
            "StreamOptions::*",
            "UpdateOptions::*",
            "LaunchBuilder::address",
            "LaunchBuilder::arg",
            "LaunchBuilder::arg_mut",
            "LaunchBuilder::bytes",
            "LaunchBuilder::memory_sync_domain",
            "LaunchBuilder::shared_bytes",
            "LaunchBuilder::value",
        ],
    ),
    (
        "says what is known already",
        &[
            "Attempt::*",
            "BarredCall::*",
            "CacheLimits::*",
            "CachedExec::lock",
            "CachedExec::memory",
            "CaptureInfo::*",
            "CaptureOutcome::*",
            "Context::device",
            "ContextLost::*",
            "Context::driver",
            "Context::has_peer_access",
            "Device::driver",
            "Device::ordinal",
            "DeviceAttribute::*",
            "Driver::origin",
            "Driver::supports",
            "Driver::version",
            "DriverVersion::*",
            "Edge::*",
            "EdgeData::*",
            "Escapes::*",
            "Event::context",
            "ExecNode::id",
            "Feature::*",
            "Graph::context",
            "Graph::memory",
            "Graph::retained",
            "GraphCache::counters",
            "GraphCache::new",
            "GraphCache::remove",
            "GraphExec::context",
            "GraphExec::graph",
            "GraphExec::memory",
            "GraphExec::node",
            "GraphExec::node_count",
            "Kernel::attributes",
            "Kernel::context",
            "Kernel::max_dynamic_shared_bytes",
            "Kernel::module",
            "Kernel::name",
            "Kernel::parameter_sizes",
            "Memory::context",
            "Memory::is_empty",
            "Memory::len",
            "Memory::size_bytes",
            "GraphPool::allocated_bytes",
            "GraphPool::bounded",
            "GraphPool::context",
            "GraphPool::new",
            "MemoryPool::device",
            "HeldMemory::*",
            "GraphBuffer::is_empty",
            "GraphBuffer::len",
            "GraphOutput::is_empty",
            "GraphOutput::len",
            "GraphBuffer::node",
            "Module::context",
            "Module::log",
            "Node::*",
            "NodeParams::*",
            "NodeParameter::*",
            "NodeProfile::*",
            "NodeRef::id",
            "NodeRef::kind",
            "OperationSite::*",
            "PinnedBuffer::context",
            "PinnedBuffer::is_empty",
            "PinnedBuffer::len",
            "PinnedBuffer::size_bytes",
            "Profile::*",
            "Retained::*",
            "Segment::*",
            "SegmentCapture::capture",
            "SegmentCapture::stream",
            "Segments::exec_mut",
            "Segments::is_empty",
            "Segments::len",
            "Segments::node_count",
            "Segments::segments",
            "SourceLine::*",
            "Stream::context",
            "Stream::driver",
            "Stream::is_capturing",
            "StreamGraphCapture::escapes",
            "StreamGraphCapture::id",
            "StreamGraphCapture::stream",
            "TopologyDiff::*",
            "UpdateError::*",
            "ThreadCaptureMode::previous",
        ],
    ),
    (
        "notes something, and asks no driver",
        &[
            "Bindings::*",
            "Graph::retain",
            "StreamGraphCapture::labelled",
            "Flush::drop",
            "Labelled::drop",
            "LentGraph::drop",
            "Arguments::drop",
            "Slot::accepting",
            "Slot::initial",
            "GraphExec::get",
            "GraphExec::patch",
            "SlotPatch::set",
            "Restore::drop",
            "Suspended::drop",
            "Taken::drop",
            "Watch::drop",
            "Within::drop",
            "BorrowedLog::drop",
        ],
    ),
    (
        "lends a handle or an address",
        &[
            "Context::as_raw",
            "Device::as_raw",
            "Driver::as_raw",
            "Event::as_raw",
            "Graph::as_raw",
            "GraphBuffer::as_raw",
            "GraphOutput::as_raw",
            "GraphExec::as_raw",
            "Kernel::as_raw",
            "Memory::as_raw",
            "MemoryPool::as_raw",
            "Module::as_raw",
            "NodeId::as_raw",
            "PinnedBuffer::as_ptr",
            "Stream::as_raw",
        ],
    ),
    (
        "takes or borrows what others have made",
        &[
            "Context::borrow_raw",
            "DeviceBuffer::borrow_raw",
            "DeviceBuffer::from_raw",
            "Stream::borrow_raw",
            "Stream::from_raw",
        ],
    ),
    (
        "takes a part of memory",
        &[
            "Memory::as_view",
            "Memory::as_view_mut",
            "Memory::split_at_mut",
            "Memory::view",
            "Memory::view_mut",
            "DeviceView::*",
            "DeviceViewMut::*",
            "GraphBuffer::view",
            "GraphBuffer::view_mut",
        ],
    ),
    (
        "describes a node",
        &[
            "BatchNode::barrier",
            "CopyEnd::*",
            "CopyNode::device_2d",
            "CopyNode::from_host_2d",
            "CopyNode::from_pinned",
            "CopyNode::from_pinned_2d",
            "CopyNode::to_pinned_2d",
        ],
    ),
    (
        "a conditional node: `tests/conditional_faults.rs` fails each of its driver calls",
        &[
            "Graph::add_if",
            "Graph::add_if_else",
            "Graph::add_switch",
            "Graph::add_while",
            "Graph::condition",
            "GraphBody::*",
            "LaunchBuilder::condition",
            "StreamGraphCapture::condition",
            "StreamGraphCapture::if_",
            "StreamGraphCapture::if_else",
            "StreamGraphCapture::switch",
            "StreamGraphCapture::while_",
            "Suspended::drop",
            "Taken::drop",
            "WordCondition::new",
        ],
    ),
    (
        "plain data",
        &[
            "Buckets::*",
            "CaptureMode::*",
            "CudaError::*",
            "Dim3::*",
            "Region2d::*",
            "StreamCapture::*",
            "Topology::*",
            "TopologyEdge::*",
            "TopologyNode::*",
        ],
    ),
    (
        "tells of an error",
        &[
            "CaptureError::*",
            "FailedOperation::*",
            "Fork::*",
            "InstantiateError::*",
            "JitError::*",
            "LoggedOperation::*",
            "Refusal::*",
            "SegmentError::*",
        ],
    ),
    ("waits for the library's own thread, as the engine does in every row", &["Driver::reclaim"]),
    (
        "loads the system's driver, by the way of `Driver::from_resolver`",
        &[
            "Device::get",
            "Driver::load",
            "Driver::load_failure",
            "Driver::load_from",
            "Driver::process_default",
        ],
    ),
    ("sets the hook, as the engine does", &["set_drop_error_hook"]),
    (
        "ends a mark in the library's own memory",
        &[
            "PinnedRead::drop",
            "PinnedWrite::drop",
            "Running::drop",
            "Submission::drop",
            "Submissions::drop",
            "Contained::drop",
            "Waiting::drop",
        ],
    ),
    (
        "ends a part of an operation that has a row",
        &["CurrentContext::drop", "Pop::drop", "RestoreMode::drop", "ThreadCaptureMode::drop"],
    ),
];

/// Where the code of a type stands that has another name in its source.
const RENAMED: &[(&str, &str)] = &[("$", "Memory")];

/// The public functions, and the drops, each with the file that has it.
fn functions() -> BTreeMap<String, String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    visit(&sources, &mut |file, text| {
        for name in functions_of(text) {
            found.insert(name, file.to_owned());
        }
    })
    .unwrap();
    found
}

fn visit(folder: &Path, look: &mut impl FnMut(&str, &str)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, look)?;
        } else {
            look(&path.display().to_string(), &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The names of the public functions of a source, `Type::function`.
fn functions_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut of: Option<String> = None;
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    for line in code.lines() {
        let words = line.trim_start();
        if words.starts_with("impl") && line.len() - words.len() <= 8 {
            of = Some(type_of(words));
            if words.contains(" Drop for ") {
                names.push(format!("{}::drop", type_of(words)));
            }
        }
        if line == "}" {
            of = None;
        }
        let Some(function) = words.strip_prefix("pub ") else { continue };
        let function = ["unsafe ", "const "]
            .iter()
            .fold(function, |function, word| function.strip_prefix(word).unwrap_or(function));
        let Some(function) = function.strip_prefix("fn ") else { continue };
        let end = function.find(['(', '<']).unwrap_or(function.len());
        let function = &function[..end];
        names.push(match &of {
            Some(of) => format!("{of}::{function}"),
            None => function.to_owned(),
        });
    }
    names
}

/// The type of an `impl` line.
fn type_of(line: &str) -> String {
    let line = line.trim_start_matches("impl");
    // What the implementation is generic over stands first.
    let line = if line.starts_with('<') {
        line.split_once("> ").map_or("", |(_, rest)| rest)
    } else {
        line
    };
    let line = line.split(" for ").last().unwrap_or(line).trim();
    let line = line.rsplit("::").next().unwrap_or(line);
    if let Some((_, name)) = RENAMED.iter().find(|(start, _)| line.starts_with(start)) {
        return (*name).to_owned();
    }
    line.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The functions that the rows name.
fn swept() -> BTreeSet<&'static str> {
    let rows = all_rows().into_iter();
    rows.flat_map(|row| {
        let name = row.name.split(',').next().unwrap_or(row.name);
        std::iter::once(name).chain(row.also.iter().copied())
    })
    .collect()
}

fn stands_for(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Whoever adds a public function adds a row, or says here why it needs none.
#[test]
fn every_public_function_has_a_row() {
    let swept = swept();
    let exempt = || WITHOUT_A_ROW.iter().flat_map(|(_, patterns)| patterns.iter());
    let missing: Vec<_> = functions()
        .into_iter()
        .filter(|(name, _)| !swept.contains(name.as_str()))
        .filter(|(name, _)| !exempt().any(|pattern| stands_for(pattern, name)))
        .map(|(name, file)| format!("{name} in {file}"))
        .collect();
    assert!(missing.is_empty(), "no row sweeps:\n{}", missing.join("\n"));
}

#[test]
fn every_row_and_every_exception_names_a_function() {
    let functions = functions();
    let unknown: Vec<_> =
        swept().into_iter().filter(|name| !functions.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?}");
    let patterns = WITHOUT_A_ROW.iter().flat_map(|(_, patterns)| patterns.iter());
    let idle: Vec<_> = patterns
        .filter(|pattern| !functions.keys().any(|name| stands_for(pattern, name)))
        .collect();
    assert!(idle.is_empty(), "nothing has the name {idle:?}");
}

#[test]
fn public_functions_are_found_in_a_source() {
    let source = "impl<T: Pod> Graph<T> {\n    pub fn nodes(&self) {}\n    fn own() {}\n    \
                  pub(crate) fn id() {}\n    pub unsafe fn raw<R>() {}\n}\npub fn alone() {}\n\
                  impl Drop for Inner<'_> {\n    fn drop() {}\n}\n\
                  #[cfg(test)]\nmod tests {\n    pub fn no() {}\n}\n";
    assert_eq!(functions_of(source), ["Graph::nodes", "Graph::raw", "alone", "Inner::drop"]);
}
