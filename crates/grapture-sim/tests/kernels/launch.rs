//! A module and its launches on a driver.

use std::ffi::{CString, c_void};

use grapture_sys::*;

use crate::data::{Filling, Random, Scalar, fill};
use crate::plan::{Argument, Case};

/// Calls a function of the driver; the code must be success.
macro_rules! ok {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$name;
        // SAFETY: the arguments are handles that live, values, and pointers to locals and buffers
        // that outlive the call and the work that it starts, which is waited for.
        let code = unsafe { function($($arg),*) };
        assert_eq!(code.0, 0, stringify!($name));
    }};
}

/// What a kernel left in a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub ty: Scalar,
    pub bytes: Vec<u8>,
}

/// A driver with a module in the primary context of device 0.
pub struct Loaded {
    driver: Driver,
    module: CUmodule,
}

impl Loaded {
    /// Loads PTX.
    pub fn new(driver: Driver, text: &str) -> Loaded {
        Loaded::image(driver, CString::new(text).unwrap().as_bytes_with_nul())
    }

    /// Loads an image: a fat binary, or PTX with a zero behind it.
    pub fn image(driver: Driver, image: &[u8]) -> Loaded {
        let mut context = std::ptr::null_mut();
        ok!(driver, cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(driver, cuCtxSetCurrent(context));
        let mut log = vec![0_u8; 4096];
        let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        let mut module = std::ptr::null_mut();
        let load = driver.functions().cuModuleLoadDataEx;
        // SAFETY: the image is whole, and the log outlives the call.
        let code = unsafe {
            load(&mut module, image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
        };
        let log = String::from_utf8_lossy(&log);
        assert_eq!(code.0, 0, "{}", log.trim_end_matches('\0'));
        Loaded { driver, module }
    }

    /// Runs a launch alone, and gives what it wrote.
    pub fn run(&self, case: &Case) -> Vec<Output> {
        let driver = &self.driver;
        let mut random = Random::named(&case.name);
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut buffers = Vec::new();
        let mut outputs = Vec::new();
        for argument in &case.arguments {
            let (bytes, output) = match argument {
                Argument::Number(bits, size) => {
                    values.push(bits.to_le_bytes()[..*size].to_vec());
                    continue;
                }
                Argument::Bytes(size) => {
                    values.push(fill(&mut random, Scalar::U8, *size, Filling::Moderate));
                    continue;
                }
                Argument::Info(list) => {
                    (list.iter().flat_map(|number| number.to_le_bytes()).collect(), None)
                }
                Argument::Input(ty, count, how) => (fill(&mut random, *ty, *count, *how), None),
                Argument::Blocks(quant, count) => (quant.fill(&mut random, *count), None),
                Argument::Output(ty, count, how) => {
                    (fill(&mut random, *ty, *count, *how), Some(*ty))
                }
            };
            let mut at: CUdeviceptr = 0;
            ok!(driver, cuMemAlloc_v2(&mut at, bytes.len()));
            ok!(driver, cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), bytes.len()));
            outputs.extend(output.map(|ty| (at, ty, bytes.len())));
            values.push(at.to_le_bytes().to_vec());
            buffers.push(at);
        }
        self.launch(case, &mut values);
        let mut written = Vec::new();
        for (at, ty, len) in outputs {
            let mut bytes = vec![0; len];
            ok!(driver, cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), at, len));
            written.push(Output { ty, bytes });
        }
        for at in buffers {
            ok!(driver, cuMemFree_v2(at));
        }
        written
    }

    fn launch(&self, case: &Case, values: &mut [Vec<u8>]) {
        let driver = &self.driver;
        let name = CString::new(case.kernel.as_str()).unwrap();
        let mut function = std::ptr::null_mut();
        ok!(driver, cuModuleGetFunction(&mut function, self.module, name.as_ptr()));
        let mut params: Vec<*mut c_void> =
            values.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        let ([gx, gy, gz], [bx, by, bz]) = (case.grid, case.block);
        let null = std::ptr::null_mut();
        let (shared, params) = (case.shared, params.as_mut_ptr());
        let functions = driver.functions();
        let code = if case.cooperative {
            let launch = functions.cuLaunchCooperativeKernel;
            // SAFETY: the function lives; there is a value for each of its parameters, of its size.
            unsafe { launch(function, gx, gy, gz, bx, by, bz, shared, null, params) }
        } else {
            let (launch, extra) = (functions.cuLaunchKernel, std::ptr::null_mut());
            // SAFETY: as above.
            unsafe { launch(function, gx, gy, gz, bx, by, bz, shared, null, params, extra) }
        };
        assert_eq!(code.0, 0, "{}", case.name);
        // SAFETY: the null stream.
        let code = unsafe { (driver.functions().cuStreamSynchronize)(null) };
        assert_eq!(code.0, 0, "{}", case.name);
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let driver = &self.driver;
        ok!(driver, cuModuleUnload(self.module));
        ok!(driver, cuDevicePrimaryCtxRelease_v2(0));
    }
}
