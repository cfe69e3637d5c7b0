//! A topology as JSON.

use grapture_sys::CUDA_ERROR_INVALID_VALUE;
use serde::{Deserialize, Serialize};

use crate::error::{CudaError, CudaResult};
use crate::topology::Topology;

/// The version of the form, which changes when a reader of this one would not understand it.
const VERSION: u32 = 2;
/// The first version that is still read: the form was the same, and had less in it.
const OLDEST: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    topology: &'a Topology,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadDocument {
    #[serde(rename = "version")]
    _version: u32,
    topology: Topology,
}

/// Only the version, whatever else there is.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Topology {
    /// The topology as JSON, with a version. The same topology, with its nodes in the same order,
    /// gives the same text.
    ///
    /// ```
    /// # use grapture::*;
    /// let mut plan = StreamCapture::new();
    /// plan.record_host();
    /// let topology = plan.end();
    /// assert_eq!(Topology::from_json(&topology.to_json())?, topology);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn to_json(&self) -> String {
        let document = Document { version: VERSION, topology: self };
        // INVARIANT: every key is a string, and a `String` takes all that is written to it.
        serde_json::to_string_pretty(&document).expect("plain data is JSON")
    }

    /// Reads what [`to_json`](Topology::to_json) wrote.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): it is not JSON, or not of this form or version, or an edge
    /// names a node that there is not, or the edges form a cycle. It says in which line.
    pub fn from_json(json: &str) -> CudaResult<Topology> {
        let Version { version } = serde_json::from_str(json).map_err(refused)?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(refused(format!(
                "it is of version {version}, and this library reads {OLDEST} to {VERSION}"
            )));
        }
        let document: ReadDocument = serde_json::from_str(json).map_err(refused)?;
        Ok(document.topology)
    }
}

#[cold]
fn refused(problem: impl ToString) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "topology.json", problem.to_string())
}
