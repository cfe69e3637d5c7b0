//! [`TopologyNode`]: a node as plain data, with what is known of it beyond its operation.

use std::fmt;
use std::panic::Location;

use serde::{Deserialize, Serialize};

use crate::topology::OperationSpec;

/// A node of a [`Topology`](crate::Topology).
///
/// Beside its operation it can have a label, the line that recorded it, and further parameters.
/// Those do not count when topologies are compared by `==`, since a plan has none of them;
/// [`Topology::diff`](crate::Topology::diff) compares labels and parameters too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyNode {
    operation: OperationSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<SourceLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parameters: Vec<NodeParameter>,
}

impl TopologyNode {
    /// A node that does `operation`.
    pub const fn new(operation: OperationSpec) -> TopologyNode {
        TopologyNode { operation, label: None, line: None, parameters: Vec::new() }
    }

    /// Gives it a label.
    pub fn with_label(mut self, label: impl Into<String>) -> TopologyNode {
        self.label = Some(label.into());
        self
    }

    /// Says which line recorded it.
    pub fn with_line(mut self, line: SourceLine) -> TopologyNode {
        self.line = Some(line);
        self
    }

    /// Adds a parameter.
    pub fn with_parameter(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> TopologyNode {
        self.parameters.push(NodeParameter { name: name.into(), value: value.into() });
        self
    }

    /// Whether both do the same with the same label and parameters, whichever line recorded them.
    pub(super) fn is_same(&self, other: &TopologyNode) -> bool {
        self.operation == other.operation
            && self.label == other.label
            && self.parameters == other.parameters
    }

    /// What it does.
    pub fn operation(&self) -> &OperationSpec {
        &self.operation
    }

    /// The label that it was recorded with: see
    /// [`StreamGraphCapture::labelled`](crate::StreamGraphCapture::labelled).
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The line of the program that recorded it. None: it did not come from a capture of this
    /// library, or it cannot be told for certain which operation made it.
    pub fn line(&self) -> Option<&SourceLine> {
        self.line.as_ref()
    }

    /// What is known of it beyond its operation, such as the arguments of a kernel or the ends of a
    /// copy. Memory has names here, `d0` for the first allocation of the device that a topology
    /// names and `h0` for the first of the host, so that the same program gives the same text.
    pub fn parameters(&self) -> &[NodeParameter] {
        &self.parameters
    }
}

/// A parameter of a [`TopologyNode`], in words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeParameter {
    pub(super) name: String,
    pub(super) value: String,
}

impl NodeParameter {
    /// What it is, such as `argument 0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// A line of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceLine {
    file: String,
    line: u32,
    column: u32,
}

impl SourceLine {
    /// A line of a file, and the column, both counted from 1.
    pub fn new(file: impl Into<String>, line: u32, column: u32) -> SourceLine {
        SourceLine { file: file.into(), line, column }
    }

    /// The file, as the compiler was given it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, counted from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column, counted from 1.
    pub fn column(&self) -> u32 {
        self.column
    }
}

impl From<&Location<'_>> for SourceLine {
    fn from(location: &Location<'_>) -> SourceLine {
        SourceLine::new(location.file(), location.line(), location.column())
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
