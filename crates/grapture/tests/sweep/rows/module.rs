//! Modules and kernels.

use grapture::{JitOptions, Module};
use grapture_sys::Function;

use crate::common::KERNELS;
use crate::engine::{Row, row};

pub const ROWS: &[Row] = &[
    row("Context::load_ptx", |w| w.attempt(|| w.context.load_ptx(KERNELS))),
    row("Module::from_ptx", |w| {
        let options = JitOptions::new().verbose(true).line_info(true);
        w.attempt(|| Module::from_ptx(&w.context, KERNELS, options));
    }),
    row("Module::from_image", |w| {
        let options = JitOptions::new();
        // SAFETY: the image is PTX text.
        w.attempt(|| unsafe { Module::from_image(&w.context, KERNELS.as_bytes(), options) });
    }),
    row("Module::from_file", |w| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), KERNELS).unwrap();
        // SAFETY: the file holds PTX text.
        w.attempt(|| unsafe { Module::from_file(&w.context, file.path(), JitOptions::new()) });
    }),
    row("Module::kernel", |w| w.attempt(|| w.module.kernel("mul_add")))
        // What the device has without it is what counts then.
        .tolerates(&[Function::cuFuncGetAttribute, Function::cuDeviceGetAttribute]),
    row("Module::kernel, that there is not", |w| {
        w.attempt(|| match w.module.kernel("no such") {
            Err(error) if error.code() == 500 => Ok(()),
            other => other.map(drop),
        });
    })
    .tolerates(&[
        Function::cuModuleGetFunctionCount,
        Function::cuModuleEnumerateFunctions,
        Function::cuFuncGetName,
    ]),
    row("Module::kernel_names", |w| w.attempt(|| w.module.kernel_names())),
    row("Module::global", |w| w.attempt(|| w.module.global("counter"))),
    row("Kernel::set_max_dynamic_shared_bytes", |w| {
        w.attempt(|| w.add.set_max_dynamic_shared_bytes(64 << 10));
    }),
    row("Kernel::max_active_blocks", |w| w.attempt(|| w.add.max_active_blocks(128, 0))),
    row("Kernel::suggested_block_size", |w| w.attempt(|| w.add.suggested_block_size(0))),
];
