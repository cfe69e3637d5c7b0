//! What the driver tells of addresses, in corners that NVIDIA's documentation leaves open.

use grapture_sys::*;

use crate::rig::Rig;

tiers! {
    both {
        the_range_of_an_address_is_that_of_its_allocation,
        an_address_that_is_not_the_drivers_has_no_range,
    }
}

/// The code, and the base and the size if it is 0.
fn range(rig: &Rig, address: CUdeviceptr) -> (u32, CUdeviceptr, usize) {
    let (mut base, mut size) = (0, 0);
    let code = cu!(rig, cuMemGetAddressRange_v2(&mut base, &mut size, address));
    (code, base, size)
}

fn the_range_of_an_address_is_that_of_its_allocation(rig: &Rig) {
    let address = rig.alloc(1000);
    let pinned = rig.pinned(1000).addr() as u64;
    let whole = (0, address, 1000);
    let got = [range(rig, address), range(rig, address + 999), range(rig, pinned + 8)];
    assert_eq!(got, [whole, whole, (0, pinned, 1000)]);
}

fn an_address_that_is_not_the_drivers_has_no_range(rig: &Rig) {
    let local = 0_u32;
    let own = (&raw const local).addr() as u64;
    let freed = rig.alloc(1000);
    ok!(rig, cuMemFree_v2(freed));
    let codes = [own, 0x1234, 0, freed].map(|address| range(rig, address).0);
    assert_eq!(codes, [500, 500, 500, 500]);
}
