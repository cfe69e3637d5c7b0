//! The form of a saved graph: a line that says what it is, then the graph as JSON.

use grapture_sys::CUDA_ERROR_INVALID_VALUE;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::graph::WaitFor;
use crate::topology::SourceLine;

/// What the first line calls itself.
const FORMAT: &str = "grapture graph";
/// The version of the form, which changes when a reader of this one would not understand it.
const VERSION: u32 = 2;

/// The first line. Of another version only these fields are known.
#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    /// Of all that follows the line.
    sha256: String,
}

/// A graph and what it refers to.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedGraph {
    pub(super) modules: Vec<SavedModule>,
    pub(super) memory: Vec<SavedMemory>,
    /// What each launch begins with, for each of the graph's conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<Option<u32>>,
    pub(super) top: SavedNodes,
}

/// A module, by its image.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedModule {
    pub(super) sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<SavedImage>,
}

/// The image itself.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SavedImage {
    /// PTX, or other text.
    Text(String),
    /// The bytes in hexadecimal.
    Bytes(String),
}

impl SavedImage {
    pub(super) fn of(image: &[u8]) -> SavedImage {
        match std::str::from_utf8(image) {
            Ok(text) => SavedImage::Text(text.to_owned()),
            Err(_) => SavedImage::Bytes(hex(image)),
        }
    }

    /// None: the bytes are not hexadecimal.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            SavedImage::Text(text) => Some(text.as_bytes().to_vec()),
            SavedImage::Bytes(bytes) => unhex(bytes),
        }
    }
}

/// Memory, by its name, or as a node of the graph allocates it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedMemory {
    pub(super) name: String,
    pub(super) kind: MemoryKind,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MemoryKind {
    Device,
    Pinned,
    /// A node of the graph allocates it.
    Graph,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedNodes {
    pub(super) nodes: Vec<SavedNode>,
    pub(super) edges: Vec<SavedEdge>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedNode {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<SourceLine>,
    #[serde(rename = "do")]
    pub(super) operation: SavedOperation,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SavedOperation {
    Empty,
    Kernel(SavedKernel),
    Copy(SavedCopy),
    Fill(SavedFill),
    Child(SavedNodes),
    /// The function of that name.
    Host(String),
    /// The event of that name.
    EventRecord(String),
    /// The event of that name.
    EventWait(String),
    Batch(Vec<SavedWord>),
    /// Which of the memory.
    Allocate(usize),
    /// Which of the memory.
    Free(usize),
    /// The library's own kernel, which gives a condition the value of a word.
    Steer(SavedSteer),
    Branch(SavedBranch),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedSteer {
    /// Which of the conditions.
    pub(super) condition: usize,
    pub(super) word: Place,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBranch {
    pub(super) form: SavedForm,
    /// Which of the conditions.
    pub(super) condition: usize,
    /// The word that the condition is the value of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) word: Option<Place>,
    pub(super) bodies: Vec<SavedNodes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SavedForm {
    If,
    While,
    Switch,
}

/// An operation of a batch.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SavedWord {
    Barrier,
    Write32(SavedValue<u32>),
    Write64(SavedValue<u64>),
    Wait32(SavedWait<u32>),
    Wait64(SavedWait<u64>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedValue<W> {
    pub(super) to: Place,
    pub(super) value: W,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedWait<W> {
    #[serde(rename = "for")]
    pub(super) word: Place,
    pub(super) until: SavedUntil<W>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SavedUntil<W> {
    AtLeast(W),
    Equal(W),
    AnyBit(W),
    NoBit(W),
}

impl<W: Copy> From<WaitFor<W>> for SavedUntil<W> {
    fn from(until: WaitFor<W>) -> SavedUntil<W> {
        match until {
            WaitFor::AtLeast(value) => SavedUntil::AtLeast(value),
            WaitFor::Equal(value) => SavedUntil::Equal(value),
            WaitFor::AnyBit(value) => SavedUntil::AnyBit(value),
            WaitFor::NoBit(value) => SavedUntil::NoBit(value),
        }
    }
}

impl<W: Copy> From<SavedUntil<W>> for WaitFor<W> {
    fn from(until: SavedUntil<W>) -> WaitFor<W> {
        match until {
            SavedUntil::AtLeast(value) => WaitFor::AtLeast(value),
            SavedUntil::Equal(value) => WaitFor::Equal(value),
            SavedUntil::AnyBit(value) => WaitFor::AnyBit(value),
            SavedUntil::NoBit(value) => WaitFor::NoBit(value),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedKernel {
    /// Which of the modules.
    pub(super) module: usize,
    pub(super) name: String,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) shared_bytes: usize,
    pub(super) arguments: Vec<SavedArgument>,
    pub(super) priority: Option<i32>,
    pub(super) cluster: Option<Dim3>,
    pub(super) cooperative: bool,
    pub(super) memory_sync_domain: Option<u32>,
}

/// The bytes of an argument, in hexadecimal, and where addresses stand among them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedArgument {
    pub(super) bytes: String,
    pub(super) addresses: Vec<SavedAddress>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedAddress {
    pub(super) at: usize,
    pub(super) place: Place,
}

/// A place in one of the memories.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    pub(super) memory: usize,
    pub(super) offset: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedCopy {
    pub(super) from: Place,
    pub(super) from_pitch: u64,
    pub(super) to: Place,
    pub(super) to_pitch: u64,
    pub(super) row_bytes: u64,
    pub(super) rows: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedFill {
    pub(super) to: Place,
    pub(super) pitch: u64,
    pub(super) value: u32,
    pub(super) element_bytes: u64,
    pub(super) row_elements: u64,
    pub(super) rows: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) from_port: u8,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) to_port: u8,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) kind: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// The SHA-256 of the bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that [`hex`] wrote; None: it did not write this.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    });
    pairs.collect()
}

impl SavedGraph {
    pub(super) fn to_text(&self) -> String {
        // INVARIANT: every key is a string, and a `String` takes all that is written to it.
        let graph = serde_json::to_string_pretty(self).expect("plain data is JSON");
        let (format, sha256) = (FORMAT.to_owned(), sha256(graph.as_bytes()));
        let header = Header { format, version: VERSION, sha256 };
        // INVARIANT: as above.
        let header = serde_json::to_string(&header).expect("plain data is JSON");
        format!("{header}\n{graph}")
    }

    pub(super) fn from_text(text: &str) -> CudaResult<SavedGraph> {
        let (header, graph) = text.split_once('\n').unwrap_or((text, ""));
        let header: Header = serde_json::from_str(header)
            .map_err(|error| refused(format!("it is no saved graph: its first line: {error}")))?;
        if header.format != FORMAT {
            return Err(refused("it is no saved graph: its first line says so".to_owned()));
        }
        if header.version != VERSION {
            let version = header.version;
            return Err(refused(format!(
                "it is of version {version}, and this library reads version {VERSION}"
            )));
        }
        if header.sha256 != sha256(graph.as_bytes()) {
            return Err(refused("it was damaged or changed: its SHA-256 is another".to_owned()));
        }
        serde_json::from_str(graph).map_err(|error| refused(error.to_string()))
    }
}

#[cold]
pub(super) fn refused(problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "graph.file", problem)
}
