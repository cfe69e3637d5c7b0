//! Modules, kernels and launches: what works, and each bad input with its own message.

use crate::common::{KERNELS, Setup, both_tiers};
use bytemuck::{Pod, Zeroable};
use grapture::{CaptureMode, CudaError, DeviceBuffer, Dim3, JitOptions, Module};

both_tiers! {
    a_kernel_gets_its_arguments,
    a_struct_is_passed_by_value,
    dynamic_shared_memory_reaches_the_block,
    shared_memory_beyond_the_default_is_opted_in,
    bad_dimensions_are_refused_by_name,
    a_refused_launch_leaves_the_capture_valid,
    bad_arguments_are_refused,
    attributes_launch,
    a_bad_cluster_is_refused,
    malformed_ptx_gives_the_log,
    images_that_are_none_are_refused,
    an_unknown_kernel_names_the_known_ones,
    names_with_nul_are_refused,
    a_module_tells_its_kernels_and_globals,
    a_kernel_tells_its_attributes,
    occupancy_is_told,
    a_kernel_of_another_context_is_refused,
}

fn a_kernel_gets_its_arguments(setup: &Setup) {
    let stream = setup.stream();
    let axpy = setup.module.kernel("axpy").unwrap();
    let values: Vec<f32> = (0..1000).map(|i| i as f32 * 0.25).collect();
    let x = DeviceBuffer::from_slice(&setup.context, &values).unwrap();
    let mut y = DeviceBuffer::from_slice(&setup.context, &vec![1.0f32; 1000]).unwrap();
    let launch = axpy.launch_builder(8, 128).arg_mut(&mut y).arg(&x).value(2.0f32).value(1000u32);
    // SAFETY: `axpy` touches 1000 elements of each.
    unsafe { launch.launch(&stream) }.unwrap();
    let expected: Vec<f32> = values.iter().map(|x| 1.0 + 2.0 * x).collect();
    assert_eq!(y.to_vec(&stream).unwrap(), expected);
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    big: u64,
    small: u32,
    tiny: u8,
    padding: [u8; 3],
}

fn a_struct_is_passed_by_value(setup: &Setup) {
    let stream = setup.stream();
    let unpack = setup.module.kernel("unpack").unwrap();
    let mut out = DeviceBuffer::<u64>::zeroed(&setup.context, 3).unwrap();
    let pair = Pair { big: u64::MAX - 1, small: 77, tiny: 9, padding: [0; 3] };
    // SAFETY: `unpack` writes three words.
    unsafe { unpack.launch_builder(1, 1).arg_mut(&mut out).value(pair).launch(&stream) }.unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [u64::MAX - 1, 77, 9]);
    // The same as bytes, and the address without its buffer.
    let address = out.as_raw();
    let launch = unpack.launch_builder(1, 1).address(address).bytes(bytemuck::bytes_of(&pair));
    // SAFETY: as above; the buffer outlives the launch.
    unsafe { launch.launch(&stream) }.unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [u64::MAX - 1, 77, 9]);
}

fn dynamic_shared_memory_reaches_the_block(setup: &Setup) {
    let stream = setup.stream();
    let shared_sum = setup.module.kernel("shared_sum").unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let launch = shared_sum.launch_builder(4, 256).shared_bytes(1024).arg_mut(&mut out);
    // SAFETY: `shared_sum` uses a word of shared memory for each thread, and writes 4 words.
    unsafe { launch.launch(&stream) }.unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [255 * 128; 4]);
}

fn shared_memory_beyond_the_default_is_opted_in(setup: &Setup) {
    let stream = setup.stream();
    // A module of its own: the limit is a property of the kernel.
    let module = setup.context.load_ptx(KERNELS).unwrap();
    let shared_sum = module.kernel("shared_sum").unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let bytes = shared_sum.max_dynamic_shared_bytes() + 4;
    let mut launch = |bytes| {
        let launch = shared_sum.launch_builder(1, 32).shared_bytes(bytes).arg_mut(&mut out);
        // SAFETY: as above, for one word.
        unsafe { launch.launch(&stream) }
    };
    let error = launch(bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "kernel.shared_bytes: {bytes} bytes are more than the {} that a block of `shared_sum` \
             may have: raise the limit with `Kernel::set_max_dynamic_shared_bytes`",
            bytes - 4
        )
    );
    shared_sum.set_max_dynamic_shared_bytes(bytes).unwrap();
    launch(bytes).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [31 * 16]);
    let error = shared_sum.set_max_dynamic_shared_bytes(1 << 30).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("kernel.max_dynamic_shared_bytes: 1073741824 bytes are more than the "),
        "{error}"
    );
}

fn bad_dimensions_are_refused_by_name(setup: &Setup) {
    let stream = setup.stream();
    let nothing = setup.module.kernel("nothing").unwrap();
    let launch = |grid: Dim3, block: Dim3| {
        // SAFETY: `nothing` touches nothing.
        unsafe { nothing.launch_builder(grid, block).launch(&stream) }
    };
    let one = Dim3::x(1);
    for (grid, block, text) in [
        (Dim3::new(0, 1, 1), one, "kernel.grid_dim.x: it is 0, and every dimension is at least 1"),
        (Dim3::new(1, 0, 1), one, "kernel.grid_dim.y: it is 0, and every dimension is at least 1"),
        (one, Dim3::new(1, 1, 0), "kernel.block_dim.z: it is 0, and every dimension is at least 1"),
        (
            Dim3::new(1, 65_536, 1),
            one,
            "kernel.grid_dim.y: it is 65536, and the device allows at most 65535",
        ),
        (
            Dim3::new(1 << 31, 1, 1),
            one,
            "kernel.grid_dim.x: it is 2147483648, and the device allows at most 2147483647",
        ),
        (one, Dim3::x(2048), "kernel.block_dim.x: it is 2048, and the device allows at most 1024"),
        (
            one,
            Dim3::new(1, 1, 65),
            "kernel.block_dim.z: it is 65, and the device allows at most 64",
        ),
        (
            one,
            Dim3::new(64, 64, 1),
            "kernel.block_dim: a block has 4096 threads, and `nothing` allows at most 1024 here",
        ),
    ] {
        let error = launch(grid, block).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), 1);
    }
    launch(one, one).unwrap();
    launch(Dim3::new(2, 3, 4), Dim3::new(8, 4, 2)).unwrap();
    stream.synchronize().unwrap();
}

fn a_refused_launch_leaves_the_capture_valid(setup: &Setup) {
    let stream = setup.stream();
    let nothing = setup.module.kernel("nothing").unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |capture| {
            // The driver would invalidate the capture for this.
            // SAFETY: `nothing` touches nothing.
            let refused = unsafe { nothing.launch_builder(0, 1).launch(&stream) };
            assert!(matches!(refused, Err(CudaError::Refused(_))));
            assert!(capture.is_active());
            // SAFETY: `nothing` touches nothing.
            unsafe { nothing.launch_builder(1, 1).launch(&stream) }
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
}

fn bad_arguments_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let add = setup.module.kernel("add").unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    // SAFETY: nothing is launched.
    let error = unsafe { add.launch_builder(1, 1).arg_mut(&mut word).launch(&stream) }.unwrap_err();
    assert_eq!(error.to_string(), "kernel.args: `add` takes 2 arguments, and 1 were given");
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u32).value(1u32);
    // SAFETY: nothing is launched.
    let error = unsafe { launch.launch(&stream) }.unwrap_err();
    assert_eq!(error.to_string(), "kernel.args: `add` takes 2 arguments, and 3 were given");
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u64);
    // SAFETY: nothing is launched.
    let error = unsafe { launch.launch(&stream) }.unwrap_err();
    assert_eq!(error.to_string(), "kernel.args: argument 1 of `add` has 4 bytes, and 8 were given");
    assert_eq!(word.to_vec(&stream).unwrap(), [0]);
}

fn attributes_launch(setup: &Setup) {
    let stream = setup.stream();
    let add = setup.module.kernel("add").unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    // SAFETY: `add` takes the address of a word and a value.
    unsafe {
        add.launch_builder(1, 1).arg_mut(&mut word).value(1u32).cooperative(true).launch(&stream)
    }
    .unwrap();
    // SAFETY: as above.
    unsafe { add.launch_builder(1, 1).arg_mut(&mut word).value(1u32).cluster(1).launch(&stream) }
        .unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
    // SAFETY: as above.
    unsafe { launch.programmatic_serialization(true).launch(&stream) }.unwrap();
    stream.synchronize().unwrap();
    // A programmatic launch in a capture makes a programmatic edge.
    let nothing = setup.module.kernel("nothing").unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            // SAFETY: `nothing` touches nothing.
            unsafe { nothing.launch_builder(1, 1).launch(&stream) }?;
            let launch = nothing.launch_builder(1, 1).programmatic_serialization(true);
            // SAFETY: `nothing` touches nothing.
            unsafe { launch.launch(&stream) }
        })
        .unwrap();
    let edges = graph.edges().unwrap();
    assert_eq!(edges.len(), 1);
    assert!(edges[0].data().is_programmatic());
}

fn a_bad_cluster_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let nothing = setup.module.kernel("nothing").unwrap();
    // SAFETY: nothing is launched.
    let error = unsafe { nothing.launch_builder(4, 1).cluster(3).launch(&stream) }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel.cluster_dim: the grid of 4 x 1 x 1 blocks is not a multiple of the cluster of \
         3 x 1 x 1"
    );
    assert_eq!(error.code(), 912);
}

fn malformed_ptx_gives_the_log(setup: &Setup) {
    let broken =
        ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){ foo.bar; ret;}\n";
    let error = setup.context.load_ptx(broken).unwrap_err();
    assert_eq!(error.code(), 218);
    let CudaError::Jit(jit) = &error else { panic!("{error:?}") };
    assert!(jit.log().contains("line 4") && jit.log().contains("foo"), "{}", jit.log());
    assert!(error.to_string().starts_with("the module could not be loaded: "), "{error}");
    let newer = setup.context.load_ptx(".version 99.0\n.target sm_50\n").unwrap_err();
    assert_eq!(newer.code(), 222);
}

fn images_that_are_none_are_refused(setup: &Setup) {
    let options = JitOptions::new();
    for (image, text) in [
        (&b""[..], "module.image: the PTX text is empty"),
        (&b" \n"[..], "module.image: the PTX text is empty"),
        (&b".version\0 6"[..], "module.image: the PTX text has a NUL at byte 8"),
        (&b"\xff\xfe\x01"[..], "module.image: it is neither PTX text nor a cubin nor a fatbin"),
    ] {
        // SAFETY: none of them is binary.
        let error = unsafe { Module::from_image(&setup.context, image, options) }.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), 200);
    }
    assert!(setup.context.load_ptx("hello").is_err());
    // SAFETY: there is no such file.
    let error = unsafe { Module::from_file(&setup.context, "no/such.ptx", options) }.unwrap_err();
    assert_eq!(error.code(), 301);
    assert!(error.to_string().starts_with("module.file: no/such.ptx cannot be read: "), "{error}");
    // PTX bytes with the NUL that C programs put at the end are an image.
    let image = [KERNELS.as_bytes(), b"\0"].concat();
    // SAFETY: it is PTX text.
    unsafe { Module::from_image(&setup.context, &image, options) }.unwrap();
}

fn an_unknown_kernel_names_the_known_ones(setup: &Setup) {
    let error = setup.module.kernel("axpi").unwrap_err();
    assert_eq!(error.code(), 500);
    let text = error.to_string();
    assert!(text.starts_with("kernel.name: the module has no kernel `axpi`; it has "), "{text}");
    assert!(text.contains("axpy"), "{text}");
}

fn names_with_nul_are_refused(setup: &Setup) {
    let error = setup.module.kernel("a\0b").unwrap_err();
    assert_eq!(error.to_string(), "kernel.name: the name has a NUL at byte 1");
    let error = setup.module.kernel("").unwrap_err();
    assert_eq!(error.to_string(), "kernel.name: the name is empty");
}

fn a_module_tells_its_kernels_and_globals(setup: &Setup) {
    let mut names = setup.module.kernel_names().unwrap().unwrap();
    names.sort_unstable();
    assert_eq!(
        names,
        ["add", "axpy", "count", "mul_add", "nothing", "shared_sum", "unpack", "wait_for"]
    );
    let (address, bytes) = setup.module.global("counter").unwrap();
    assert!(address != 0);
    assert_eq!(bytes, 4);
    let error = setup.module.global("nope").unwrap_err();
    assert_eq!(error.to_string(), "module.global: the module has no global variable `nope`");
}

fn a_kernel_tells_its_attributes(setup: &Setup) {
    let axpy = setup.module.kernel("axpy").unwrap();
    assert_eq!(axpy.name(), "axpy");
    assert_eq!(axpy.parameter_sizes(), Some(&[8, 8, 4, 4][..]));
    let attributes = axpy.attributes();
    assert_eq!(attributes.max_threads_per_block, 1024);
    assert_eq!(attributes.static_shared_bytes, 0);
    assert!(attributes.registers > 0);
    let unpack = setup.module.kernel("unpack").unwrap();
    assert_eq!(unpack.parameter_sizes(), Some(&[8, 16][..]));
}

fn occupancy_is_told(setup: &Setup) {
    let nothing = setup.module.kernel("nothing").unwrap();
    assert_eq!(nothing.max_active_blocks(256, 0).unwrap(), 8);
    assert_eq!(nothing.max_active_blocks(2048, 0).unwrap(), 0);
    assert_eq!(nothing.max_active_blocks(0, 0).unwrap_err().code(), 1);
    let suggested = nothing.suggested_block_size(0).unwrap();
    assert_eq!(suggested.threads, 1024);
    assert!(suggested.min_blocks > 0);
}

fn a_kernel_of_another_context_is_refused(setup: &Setup) {
    let functions = setup.driver.as_raw().functions();
    let mut raw = std::ptr::null_mut();
    // SAFETY: a live out-pointer and a device of the driver.
    let code = unsafe { (functions.cuCtxCreate_v2)(&mut raw, 0, setup.context.device().as_raw()) };
    assert_eq!(code.0, 0);
    let mut popped = std::ptr::null_mut();
    // SAFETY: a live out-pointer; the new context is on top.
    unsafe { (functions.cuCtxPopCurrent_v2)(&mut popped) };
    {
        // SAFETY: the context outlives the handles of this block.
        let other = unsafe { grapture::Context::borrow_raw(setup.context.device(), raw) };
        let foreign = Setup {
            driver: setup.driver.clone(),
            module: other.load_ptx(KERNELS).unwrap(),
            context: other,
        };
        let (stream, foreign_stream) = (setup.stream(), foreign.stream());
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let mut foreign_word = DeviceBuffer::<u32>::zeroed(&foreign.context, 1).unwrap();
        let belongs =
            "it belongs to another context than the stream: make both from the same `Context`";
        for (error, what) in [
            (foreign.add(&mut word, 1, &stream).unwrap_err(), "kernel"),
            (setup.add(&mut foreign_word, 1, &stream).unwrap_err(), "kernel.arg"),
            (setup.add(&mut word, 1, &foreign_stream).unwrap_err(), "kernel"),
            (
                stream
                    .capture(CaptureMode::Global, |_| Ok(()))
                    .unwrap()
                    .instantiate()
                    .unwrap()
                    .launch(&foreign_stream)
                    .unwrap_err(),
                "stream",
            ),
            (
                grapture::Event::new(&setup.context).unwrap().record(&foreign_stream).unwrap_err(),
                "event",
            ),
        ] {
            let expected = match what {
                // Memory of another device can be reached.
                "kernel.arg" => format!(
                    "{what}: {belongs}, or call `Context::enable_peer_access` if the device can reach \
                     the other's memory"
                ),
                what => format!("{what}: {belongs}"),
            };
            assert_eq!((error.to_string(), error.code()), (expected, 201));
        }
        foreign.add(&mut foreign_word, 5, &foreign_stream).unwrap();
        assert_eq!(foreign_word.to_vec(&foreign_stream).unwrap(), [5]);
        setup.assert_usable(&stream);
    }
    setup.driver.reclaim();
    // SAFETY: nothing uses the context any more.
    unsafe { (functions.cuCtxDestroy_v2)(raw) };
}
