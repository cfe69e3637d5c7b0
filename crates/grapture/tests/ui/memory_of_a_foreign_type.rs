//! Only the library says what is device memory, and who owns it.

use grapture::{DeviceSlice, DeviceSliceMut};

struct Mine;

impl DeviceSlice<u32> for Mine {} //~ E0046 //~ E0277

impl DeviceSliceMut<u32> for Mine {} //~ E0277

fn main() {}
