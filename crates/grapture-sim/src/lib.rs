//! grapture-sim
