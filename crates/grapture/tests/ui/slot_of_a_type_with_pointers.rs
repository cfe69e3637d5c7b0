//! A slot is of plain data.

use grapture::Slot;

fn main() {
    let _ = Slot::new(String::new()); //~ E0277
}
