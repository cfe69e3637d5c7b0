//! The parameters of a node in words.

use std::fmt;

use crate::dim3::Dim3;
use crate::graph::{CopyEnd, MemoryOperation, NodeParams, WaitFor};
use crate::launch::{KernelAttribute, MemorySyncDomain};
use crate::topology::names::Names;
use crate::topology::{NodeParameter, TopologyNode};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

impl TopologyNode {
    /// A node with these parameters.
    pub(crate) fn described(params: NodeParams, names: &mut Names<'_>) -> TopologyNode {
        let parameters = describe(&params, names);
        let mut node = TopologyNode::new(params.operation());
        node.parameters =
            parameters.into_iter().map(|(name, value)| NodeParameter { name, value }).collect();
        node
    }
}

fn describe(params: &NodeParams, names: &mut Names<'_>) -> Vec<(String, String)> {
    match params {
        NodeParams::Kernel { arguments, attributes, .. } => {
            let attributes = attributes.iter().filter_map(attribute);
            let mut parameters: Vec<_> = attributes.map(named).collect();
            for (index, bytes) in arguments.iter().flatten().enumerate() {
                parameters.push((format!("argument {index}"), argument(bytes, names)));
            }
            parameters
        }
        NodeParams::Memcpy { target, source, width_bytes, height, depth } => {
            let mut parameters = vec![("from", end(source, names)), ("to", end(target, names))];
            let (height, depth) = (*height.max(&1), *depth.max(&1));
            if (height, depth) != (1, 1) {
                parameters.push(("row bytes", width_bytes.to_string()));
                parameters.push(("rows", rows(height, depth)));
                parameters.push(("from pitch", source.pitch_bytes().to_string()));
                parameters.push(("to pitch", target.pitch_bytes().to_string()));
            }
            parameters.into_iter().map(named).collect()
        }
        NodeParams::Memset { address, width, height, pitch_bytes, .. } => {
            let mut parameters = vec![("to", names.address(*address, false))];
            if *height > 1 {
                parameters.push(("row elements", width.to_string()));
                parameters.push(("rows", height.to_string()));
                parameters.push(("pitch", pitch_bytes.to_string()));
            }
            parameters.into_iter().map(named).collect()
        }
        NodeParams::EventRecord(event) | NodeParams::EventWait(event) => {
            vec![named(("event", names.event(*event)))]
        }
        NodeParams::MemAlloc { address, bytes } => {
            vec![named(("memory", names.allocation(*address, *bytes)))]
        }
        NodeParams::MemFree { address } => {
            vec![named(("memory", names.address(*address, false)))]
        }
        NodeParams::BatchMemOp(operations) => {
            let text = |(index, one): (usize, &MemoryOperation)| {
                (format!("operation {index}"), memory_operation(one, names))
            };
            operations.iter().enumerate().map(text).collect()
        }
        _ => Vec::new(),
    }
}

fn named((name, value): (&str, String)) -> (String, String) {
    (name.to_owned(), value)
}

/// An attribute that is not as every kernel has it.
fn attribute(attribute: &KernelAttribute) -> Option<(&'static str, String)> {
    match *attribute {
        KernelAttribute::Priority(priority) if priority != 0 => {
            Some(("priority", priority.to_string()))
        }
        KernelAttribute::Cluster(cluster) if cluster != Dim3::x(1) => {
            Some(("cluster", cluster.to_string()))
        }
        KernelAttribute::Cooperative(true) => Some(("cooperative", "yes".to_owned())),
        KernelAttribute::MemorySyncDomain(domain) if domain != MemorySyncDomain::Default => {
            Some(("memory sync domain", format!("{domain:?}").to_lowercase()))
        }
        _ => None,
    }
}

/// One end of a copy.
fn end(end: &CopyEnd, names: &mut Names<'_>) -> String {
    if end.address() == 0 {
        return "an array".to_owned();
    }
    names.address(end.address(), end.is_host())
}

fn rows(height: usize, depth: usize) -> String {
    if depth == 1 { height.to_string() } else { format!("{height} x {depth}") }
}

fn memory_operation(operation: &MemoryOperation, names: &mut Names<'_>) -> String {
    match *operation {
        MemoryOperation::Write32 { address, value } => {
            format!("write {value:#x} to {} in 4 bytes", names.address(address, false))
        }
        MemoryOperation::Write64 { address, value } => {
            format!("write {value:#x} to {} in 8 bytes", names.address(address, false))
        }
        MemoryOperation::Wait32 { address, until } => {
            format!("wait for {} in 4 bytes", wait(&names.address(address, false), until))
        }
        MemoryOperation::Wait64 { address, until } => {
            format!("wait for {} in 8 bytes", wait(&names.address(address, false), until))
        }
        MemoryOperation::Barrier => "barrier".to_owned(),
        MemoryOperation::Other(number) => format!("operation of type {number}"),
    }
}

fn wait<W: fmt::LowerHex>(word: &str, until: Option<WaitFor<W>>) -> String {
    match until {
        Some(WaitFor::AtLeast(value)) => format!("{word} >= {value:#x}"),
        Some(WaitFor::Equal(value)) => format!("{word} == {value:#x}"),
        Some(WaitFor::AnyBit(value)) => format!("{word} & {value:#x} != 0"),
        Some(WaitFor::NoBit(value)) => format!("~({word} | {value:#x}) != 0"),
        None => format!("something of {word}"),
    }
}

/// The bytes of an argument: addresses by their names, the rest as numbers.
fn argument(bytes: &[u8], names: &mut Names<'_>) -> String {
    let words: Vec<String> = bytes.chunks(WORD).map(|word| self::word(word, names)).collect();
    match &words[..] {
        [word] => word.clone(),
        words => format!("({})", words.join(", ")),
    }
}

/// A word, or what is left of one.
fn word(bytes: &[u8], names: &mut Names<'_>) -> String {
    let mut word = [0; WORD];
    // A chunk is no longer than a word.
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let word = u64::from_le_bytes(word);
    let known = if bytes.len() == WORD { names.known(word) } else { None };
    known.unwrap_or_else(|| format!("{word:#x}"))
}
