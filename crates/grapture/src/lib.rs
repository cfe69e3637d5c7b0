//! grapture
