//! Graphs in files.

mod bindings;
mod check;
mod format;
mod read;
mod read_node;
mod topology;
mod write;
mod write_words;

use std::path::Path;

use grapture_sys::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_OPERATING_SYSTEM};

use crate::error::{CudaError, CudaResult};
use crate::graph::Graph;

pub use bindings::Bindings;
use format::SavedGraph;

impl Graph {
    /// Writes the graph to a file, for [`load`](Graph::load) in this process or another one.
    ///
    /// The file has the nodes with all their parameters, dependencies, labels and lines, and the
    /// bodies of conditional nodes. Modules, memory, events and functions of the host it only refers
    /// to: `bindings` gives those that the nodes use, and names them. Images of modules are in it if
    /// [`Bindings::embedded_module`] gave them. What [`retain`](Graph::retain) keeps is not in it.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("step.graph");
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(7, &stream))?;
    /// graph.save(&path, &Bindings::new(&context).memory("words", &mut words)?)?;
    ///
    /// let mut others = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let bindings = Bindings::new(&context).memory("words", &mut others)?;
    /// // SAFETY: the file was just written, and has no kernels.
    /// let loaded = unsafe { Graph::load(&path, &bindings) }?;
    /// loaded.instantiate()?.launch(&stream)?;
    /// assert_eq!(others.to_vec(&stream)?, [7; 64]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), with the node: it uses a module or memory that is not
    /// bound, or an event, or a function by its label; or it has no form in a file (external
    /// semaphores, copies of volumes or from ordinary memory of the host, memory that each launch
    /// leaves, conditional nodes that others made); or the driver does not tell the arguments of its
    /// kernel (before 12.4). The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>, bindings: &Bindings) -> CudaResult<()> {
        let text = self.to_saved(bindings)?;
        let path = path.as_ref();
        std::fs::write(path, text).map_err(|error| {
            let problem = format!("{} cannot be written: {error}", path.display());
            CudaError::refused(CUDA_ERROR_OPERATING_SYSTEM, "path", problem)
        })
    }

    /// Reads a graph from a file that [`save`](Graph::save) wrote, with the modules, the memory, the
    /// events and the functions that `bindings` gives. They are the graph's too from now on. A module
    /// that is not bound is loaded from the image in the file, if there is one.
    ///
    /// Everything is checked before it is used: that the file is whole and of this version, that
    /// the modules are of the same images, that the kernels are there and take arguments of the
    /// same sizes, that memory is there by name, of the same kind and at least as long, that copies
    /// and fills stay within it, that memory of the graph is used between its allocation and its
    /// release, that bodies have what a body can have, and that the dependencies form no cycle. A
    /// foreign or damaged file is refused with the reason.
    ///
    /// # Safety
    ///
    /// As that of [`LaunchBuilder::launch`](crate::LaunchBuilder::launch) for every kernel of the
    /// file: with the arguments that stand there and the memory that is bound here, it touches no
    /// other memory. What was an address in bound memory when the file was written is one in the
    /// memory of that name now; any other number is as it was. An image in the file that is no text
    /// is a whole and well-formed one, and is what its hash says.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the file cannot be read, or is refused as said above. Else
    /// as the methods that add nodes.
    pub unsafe fn load(path: impl AsRef<Path>, bindings: &Bindings) -> CudaResult<Graph> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let problem = format!("{} cannot be read: {error}", path.display());
            CudaError::refused(CUDA_ERROR_FILE_NOT_FOUND, "path", problem)
        })?;
        // SAFETY: the caller's promise.
        unsafe { Graph::from_saved(&text, bindings) }
    }

    /// What [`save`](Graph::save) writes, as text.
    ///
    /// # Errors
    ///
    /// As [`save`](Graph::save).
    pub fn to_saved(&self, bindings: &Bindings) -> CudaResult<String> {
        Ok(write::saved(self, bindings)?.to_text())
    }

    /// Reads what [`to_saved`](Graph::to_saved) gave, as [`load`](Graph::load) does.
    ///
    /// # Safety
    ///
    /// As [`load`](Graph::load).
    ///
    /// # Errors
    ///
    /// As [`load`](Graph::load).
    pub unsafe fn from_saved(text: &str, bindings: &Bindings) -> CudaResult<Graph> {
        let saved = SavedGraph::from_text(text)?;
        // SAFETY: the caller's promise.
        unsafe { read::loaded(&saved, bindings) }
    }
}
