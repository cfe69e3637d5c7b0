//! The program `grapture`, run as its user runs it.

mod demo;
mod doctor;
mod program;
mod reference;
mod show;
