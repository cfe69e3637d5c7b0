//! [`OperationSpec`]: what a node does, as plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dim3::Dim3;
use crate::topology::Topology;

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
    /// It does something that has no form here: the name of its kind.
    Other(String),
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
                write!(f, "kernel {name}, {grid} blocks of {block} threads")?;
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
            OperationSpec::Other(kind) => write!(f, "other: {kind}"),
        }
    }
}
