//! grapture-sim

/// Bytes that several threads may touch at once.
pub mod memory {
    pub mod bytes;
}
pub mod ptx;
