//! [`EdgeData`]: what an edge carries beside its two ends, and what the driver accepts in it.

use grapture_sys::{
    CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, CUDA_ERROR_INVALID_VALUE, CUgraphEdgeData, CUresult,
};

use super::definition::LocalId;

/// The output port of a kernel that opens once all its blocks triggered it or ended.
const PORT_PROGRAMMATIC: u8 = 1;
/// The output port of a kernel that opens once all its blocks have begun.
const PORT_LAUNCH_ORDER: u8 = 2;
/// The edge type between two kernels of which the later one waits on the device.
const TYPE_PROGRAMMATIC: u8 = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.0 as u8;

/// What an edge carries beside its two ends. All zero is the ordinary full dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EdgeData {
    from_port: u8,
    to_port: u8,
    kind: u8,
}

impl EdgeData {
    /// The edge of a kernel that was launched with programmatic stream serialization.
    pub(crate) const PROGRAMMATIC: EdgeData =
        EdgeData { from_port: PORT_PROGRAMMATIC, to_port: 0, kind: TYPE_PROGRAMMATIC };

    /// Whether it is the ordinary full dependency, which the older queries can express.
    pub(crate) fn is_default(self) -> bool {
        self == EdgeData::default()
    }

    /// The C form of it.
    pub(crate) fn to_raw(self) -> CUgraphEdgeData {
        CUgraphEdgeData {
            from_port: self.from_port,
            to_port: self.to_port,
            type_: self.kind,
            reserved: [0; 5],
        }
    }

    /// The value of the C form, as far as it can be judged without the two nodes.
    pub(crate) fn from_raw(raw: CUgraphEdgeData) -> Result<EdgeData, CUresult> {
        let data = EdgeData { from_port: raw.from_port, to_port: raw.to_port, kind: raw.type_ };
        let ports_fit = match data.kind {
            0 => matches!(data.from_port, 0 | PORT_LAUNCH_ORDER),
            TYPE_PROGRAMMATIC => matches!(data.from_port, PORT_PROGRAMMATIC | PORT_LAUNCH_ORDER),
            _ => false,
        };
        if !ports_fit || data.to_port != 0 || raw.reserved != [0; 5] {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        Ok(data)
    }

    /// Refuses ports and types that the two nodes do not have: they are for kernels.
    pub(crate) fn check_ends(self, from_kernel: bool, to_kernel: bool) -> Result<(), CUresult> {
        let from_fits = self.from_port == 0 || from_kernel;
        let to_fits = self.kind != TYPE_PROGRAMMATIC || to_kernel;
        if from_fits && to_fits { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }
}

/// One end of an edge as the other end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    /// The node at the far end.
    pub(crate) node: LocalId,
    /// What the edge carries.
    pub(crate) data: EdgeData,
}

impl Edge {
    /// An ordinary full dependency.
    pub(crate) fn full(node: LocalId) -> Edge {
        Edge { node, data: EdgeData::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(from_port: u8, to_port: u8, kind: u8) -> CUgraphEdgeData {
        CUgraphEdgeData { from_port, to_port, type_: kind, reserved: [0; 5] }
    }

    #[test]
    fn programmatic_edges_need_a_kernel_port_and_two_kernels() {
        assert!(EdgeData::from_raw(raw(0, 0, 1)).is_err());
        assert!(EdgeData::from_raw(raw(1, 0, 0)).is_err());
        let edge = EdgeData::from_raw(raw(1, 0, 1)).expect("the programmatic edge");
        assert_eq!(edge, EdgeData::PROGRAMMATIC);
        assert!(edge.check_ends(true, true).is_ok());
        assert!(edge.check_ends(true, false).is_err());
        assert!(edge.check_ends(false, true).is_err());
    }

    #[test]
    fn unknown_bits_are_refused() {
        assert!(EdgeData::from_raw(raw(0, 1, 0)).is_err());
        assert!(EdgeData::from_raw(raw(0, 0, 7)).is_err());
        let mut reserved = raw(0, 0, 0);
        reserved.reserved[4] = 1;
        assert!(EdgeData::from_raw(reserved).is_err());
    }
}
