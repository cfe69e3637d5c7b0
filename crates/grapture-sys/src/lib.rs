//! grapture-sys
