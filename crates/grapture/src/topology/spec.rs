//! [`OperationSpec`]: what a node does, as plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dim3::Dim3;
use crate::topology::Topology;
use crate::topology::show::shortened;

/// What a node of a [`Topology`] does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum OperationSpec {
    /// It runs a kernel.
    Kernel {
        /// The kernel's name.
        name: String,
        /// The blocks of the grid.
        grid: Dim3,
        /// The threads of a block.
        block: Dim3,
        /// The dynamic shared memory of a block, in bytes.
        shared_bytes: usize,
    },
    /// It copies memory.
    Copy {
        /// From where to where.
        direction: CopyDirection,
        /// How much, in bytes.
        bytes: usize,
    },
    /// It fills memory with a value.
    Fill {
        /// How much, in bytes.
        bytes: usize,
        /// The value that is repeated.
        value: u32,
        /// The size of the value, in bytes: 1, 2 or 4.
        element_bytes: usize,
    },
    /// It calls a function on the host.
    Host,
    /// It does nothing, and is there to be waited for.
    Empty,
    /// It records an event.
    EventRecord,
    /// It waits for an event.
    EventWait,
    /// It runs another graph.
    ChildGraph(Topology),
    /// It runs graphs by the value of its condition.
    Conditional {
        /// How the value chooses.
        form: ConditionalForm,
        /// The graphs that it chooses from.
        bodies: Vec<Topology>,
    },
    /// It allocates memory.
    Allocation {
        /// How much, in bytes.
        bytes: usize,
    },
    /// It frees memory.
    Free,
    /// It waits for words of memory and writes words.
    BatchMemOp {
        /// How many operations it makes.
        operations: usize,
    },
    /// It does something that has no form here: the name of its kind.
    Other(String),
}

/// How the value of a condition chooses what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConditionalForm {
    /// The first body unless it is 0, else the second if there is one.
    If,
    /// The body, again and again until it is 0.
    While,
    /// The body of that number, if there is one.
    Switch,
    /// A form that this version of the library does not know, by the driver's number.
    Other(u32),
}

impl fmt::Display for ConditionalForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionalForm::If => f.write_str("if"),
            ConditionalForm::While => f.write_str("while"),
            ConditionalForm::Switch => f.write_str("switch"),
            ConditionalForm::Other(number) => write!(f, "form {number}"),
        }
    }
}

/// Between what kinds of memory a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CopyDirection {
    /// From the host to the device.
    HostToDevice,
    /// From the device to the host.
    DeviceToHost,
    /// From the device to the device.
    DeviceToDevice,
    /// From the host to the host.
    HostToHost,
    /// From or to something else, such as an array or memory that both share.
    Other,
}

impl fmt::Display for CopyDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyDirection::HostToDevice => "host to device",
            CopyDirection::DeviceToHost => "device to host",
            CopyDirection::DeviceToDevice => "device to device",
            CopyDirection::HostToHost => "host to host",
            CopyDirection::Other => "other memory",
        })
    }
}

impl fmt::Display for OperationSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationSpec::Kernel { name, grid, block, shared_bytes } => {
                write!(f, "kernel {}, {grid} blocks of {block} threads", shortened(name))?;
                if *shared_bytes > 0 {
                    write!(f, ", {shared_bytes} bytes shared")?;
                }
                Ok(())
            }
            OperationSpec::Copy { direction, bytes } => {
                write!(f, "copy {direction}, {bytes} bytes")
            }
            OperationSpec::Fill { bytes, value, element_bytes } => {
                write!(f, "fill {bytes} bytes with {value:#x} in {element_bytes}")
            }
            OperationSpec::Host => f.write_str("host function"),
            OperationSpec::Empty => f.write_str("empty"),
            OperationSpec::EventRecord => f.write_str("event record"),
            OperationSpec::EventWait => f.write_str("event wait"),
            OperationSpec::ChildGraph(topology) => {
                write!(f, "child graph of {} nodes", topology.nodes().len())
            }
            OperationSpec::Conditional { form, bodies } => {
                write!(f, "{form} of {}", count(bodies.len(), "body", "bodies"))
            }
            OperationSpec::Allocation { bytes } => write!(f, "allocation of {bytes} bytes"),
            OperationSpec::Free => f.write_str("free"),
            OperationSpec::BatchMemOp { operations } => {
                write!(
                    f,
                    "batch of {}",
                    count(*operations, "memory operation", "memory operations")
                )
            }
            OperationSpec::Other(kind) => write!(f, "other: {kind}"),
        }
    }
}

fn count(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

impl OperationSpec {
    /// The graphs within it, each with what it is there.
    pub(crate) fn inner(&self) -> Vec<(String, &Topology)> {
        match self {
            OperationSpec::ChildGraph(child) => vec![("child graph".to_owned(), child)],
            OperationSpec::Conditional { bodies, .. } => bodies
                .iter()
                .enumerate()
                .map(|(index, body)| (format!("body {index}"), body))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The kind, and which one of it: what does not change when a parameter does.
    pub(crate) fn title(&self) -> String {
        match self {
            OperationSpec::Kernel { name, .. } => format!("kernel {name}"),
            OperationSpec::Conditional { form, .. } => format!("conditional {form}"),
            OperationSpec::Other(kind) => kind.clone(),
            other => other.kind_name().to_owned(),
        }
    }

    /// The kind.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            OperationSpec::Kernel { .. } => "kernel",
            OperationSpec::Copy { .. } => "copy",
            OperationSpec::Fill { .. } => "fill",
            OperationSpec::Host => "host function",
            OperationSpec::Empty => "empty",
            OperationSpec::EventRecord => "event record",
            OperationSpec::EventWait => "event wait",
            OperationSpec::ChildGraph(_) => "child graph",
            OperationSpec::Conditional { .. } => "conditional",
            OperationSpec::Allocation { .. } => "allocation",
            OperationSpec::Free => "free",
            OperationSpec::BatchMemOp { .. } => "batch of memory operations",
            OperationSpec::Other(_) => "other",
        }
    }
}
