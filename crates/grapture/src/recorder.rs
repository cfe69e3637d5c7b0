//! [`StreamCapture`]: a recorder that needs no driver.

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND};

use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::topology::{CopyDirection, OperationSpec, Topology, TopologyEdge, TopologyNode};

/// Records what a stream would be given, without a driver or a device: the plan of a graph, to
/// compare with the [topology](crate::Graph::topology) of what was really captured.
///
/// Each operation waits for the one before it, as on a stream.
/// [`depends_on`](StreamCapture::depends_on) forks and joins. What records by the driver is
/// [`StreamGraphCapture`](crate::StreamGraphCapture).
///
/// ```
/// use grapture::{CopyDirection, StreamCapture};
///
/// let mut plan = StreamCapture::begin();
/// let upload = plan.record_copy(CopyDirection::HostToDevice, 4096)?;
/// let left = plan.record_kernel("left", 4, 256, 0)?;
/// plan.depends_on(&[upload])?;
/// let right = plan.record_kernel("right", 4, 256, 0)?;
/// plan.depends_on(&[left, right])?;
/// plan.record_copy(CopyDirection::DeviceToHost, 4096)?;
/// let topology = plan.end();
/// assert_eq!((topology.nodes().len(), topology.edges().len()), (4, 4));
/// # Ok::<(), grapture::CudaError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StreamCapture {
    nodes: Vec<TopologyNode>,
    edges: Vec<TopologyEdge>,
    /// What the next operation waits for: indices of nodes, each once.
    tail: Vec<usize>,
}

impl StreamCapture {
    /// A recorder with nothing recorded: the same as [`begin`](StreamCapture::begin).
    pub fn new() -> StreamCapture {
        StreamCapture::default()
    }

    /// Begins to record.
    pub fn begin() -> StreamCapture {
        StreamCapture::new()
    }

    /// Records the launch of a kernel, with the blocks of its grid, the threads of a block, and
    /// the dynamic shared memory of a block in bytes. Gives the index of the node.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and nothing is recorded: the name is empty or has a NUL in
    /// it, or a dimension is 0.
    pub fn record_kernel(
        &mut self,
        name: &str,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
        shared_bytes: usize,
    ) -> CudaResult<usize> {
        if name.is_empty() || name.contains('\0') {
            return Err(refused("kernel.name", "it is empty or has a NUL in it".to_owned()));
        }
        let (grid, block) = (grid.into(), block.into());
        for (what, value) in [
            ("kernel.grid_dim.x", grid.x),
            ("kernel.grid_dim.y", grid.y),
            ("kernel.grid_dim.z", grid.z),
            ("kernel.block_dim.x", block.x),
            ("kernel.block_dim.y", block.y),
            ("kernel.block_dim.z", block.z),
        ] {
            if value == 0 {
                let problem = "it is 0, and every dimension is at least 1";
                return Err(refused(what, problem.to_owned()));
            }
        }
        let name = name.to_owned();
        Ok(self.push(OperationSpec::Kernel { name, grid, block, shared_bytes }))
    }

    /// Records a copy. Gives the index of the node.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and nothing is recorded: there is nothing to copy (a stream
    /// makes no node of that).
    pub fn record_copy(&mut self, direction: CopyDirection, bytes: usize) -> CudaResult<usize> {
        if bytes == 0 {
            return Err(nothing("copy.bytes"));
        }
        Ok(self.push(OperationSpec::Copy { direction, bytes }))
    }

    /// Records a fill of `bytes` bytes with a value of 1, 2 or 4 bytes. Gives the index of the
    /// node.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and nothing is recorded: there is nothing to fill (a stream
    /// makes no node of that), the value has another size or does not fit into it, or `bytes` is
    /// no multiple of it.
    pub fn record_fill(
        &mut self,
        bytes: usize,
        value: u32,
        element_bytes: usize,
    ) -> CudaResult<usize> {
        if bytes == 0 {
            return Err(nothing("fill.bytes"));
        }
        let most = match element_bytes {
            1 => u32::from(u8::MAX),
            2 => u32::from(u16::MAX),
            4 => u32::MAX,
            other => {
                let problem = format!("it is {other}, and a fill repeats 1, 2 or 4 bytes");
                return Err(refused("fill.element_bytes", problem));
            }
        };
        if value > most {
            let problem = format!("{value:#x} does not fit into {element_bytes} bytes");
            return Err(refused("fill.value", problem));
        }
        if !bytes.is_multiple_of(element_bytes) {
            let problem = format!("{bytes} is no multiple of the {element_bytes} of an element");
            return Err(refused("fill.bytes", problem));
        }
        Ok(self.push(OperationSpec::Fill { bytes, value, element_bytes }))
    }

    /// Records a call of a function on the host. Gives the index of the node.
    pub fn record_host(&mut self) -> usize {
        self.push(OperationSpec::Host)
    }

    /// Records a node that does nothing. Gives its index.
    pub fn record_empty(&mut self) -> usize {
        self.push(OperationSpec::Empty)
    }

    /// Has the next operation wait for these nodes, instead of for the last one. None of them: it
    /// waits for nothing.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and nothing is changed: a node that was not recorded.
    pub fn depends_on(&mut self, nodes: &[usize]) -> CudaResult<()> {
        if let Some(unknown) = nodes.iter().find(|node| **node >= self.nodes.len()) {
            let recorded = self.nodes.len();
            return Err(CudaError::refused(
                CUDA_ERROR_NOT_FOUND,
                "nodes",
                format!("there is no node {unknown}: {recorded} are recorded, counted from 0"),
            ));
        }
        self.tail.clear();
        self.tail.extend_from_slice(nodes);
        self.tail.sort_unstable();
        self.tail.dedup();
        Ok(())
    }

    /// The number of operations recorded so far.
    pub fn recorded_count(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it records: it does from its beginning until [`end`](StreamCapture::end), which
    /// takes it away. A refused operation changes nothing of that.
    pub fn is_active(&self) -> bool {
        true
    }

    /// Ends the recording.
    pub fn end(self) -> Topology {
        // INVARIANT: `depends_on` lets through only nodes that were recorded before, so every edge
        // leads from an earlier node to a later one, and there is no cycle.
        Topology::new(self.nodes, self.edges).expect("edges lead forward")
    }

    fn push(&mut self, operation: OperationSpec) -> usize {
        let index = self.nodes.len();
        self.nodes.push(TopologyNode::new(operation));
        self.edges.extend(self.tail.drain(..).map(|from| TopologyEdge::new(from, index, false)));
        self.tail.push(index);
        index
    }
}

#[cold]
fn nothing(what: &'static str) -> CudaError {
    refused(what, "it is 0, and a stream makes no node of that: leave it out".to_owned())
}

#[cold]
fn refused(what: &'static str, problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}
