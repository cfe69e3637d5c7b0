//! Fat binaries: which of their parts is taken. `arch.cu` says how they were made.

use std::ffi::c_void;

use grapture_sys::*;

use crate::launch::Loaded;
use crate::plan;

/// The code of a load, and what the log of errors says.
pub fn load(driver: &Driver, image: &[u8]) -> (u32, String) {
    let mut log = vec![0_u8; 4096];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    let mut module = std::ptr::null_mut();
    let functions = driver.functions();
    // SAFETY: the image is whole, and the log outlives the call.
    let code = unsafe {
        (functions.cuModuleLoadDataEx)(
            &mut module,
            image.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code.0 == 0 {
        // SAFETY: the module was loaded and nothing of it is in use.
        unsafe { (functions.cuModuleUnload)(module) };
    }
    (code.0, String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
}

/// The architecture that the loaded part was compiled for.
fn compiled_for(driver: &Driver, image: &[u8]) -> i32 {
    let loaded = Loaded::image(driver.clone(), image);
    let case = &plan::cases("compiled_for | 1 | 1 | 0 | out i32 1", "compiled_for")[0];
    let outputs = loaded.run(case);
    i32::from_le_bytes(outputs[0].bytes.as_slice().try_into().unwrap())
}

/// The newest PTX that the device takes is taken, however it is compressed; where there is none, the
/// answer is 209.
pub fn parts(driver: &Driver) {
    let plain: &[u8] = include_bytes!("plain.fatbin");
    let images = [plain, include_bytes!("lz4.fatbin"), include_bytes!("zstandard.fatbin")];
    assert_eq!(images.map(|image| compiled_for(driver, image)), [900; 3]);
    assert_eq!(compiled_for(driver, include_bytes!("newer.fatbin")), 750);
    let keep = Loaded::image(driver.clone(), plain);
    let (code, log) = load(driver, include_bytes!("machine.fatbin"));
    assert_eq!(code, 209, "{log}");
    drop(keep);
}
