//! The codes of calls with bad arguments, as an H200 with driver 13.0 answered them.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Gate;
use crate::rig::{PTX, Rig};

tiers! {
    both {
        launches_are_held_against_the_limits,
        a_parameter_buffer_stands_for_the_parameters,
        fills_and_copies_are_held_against_the_memory,
        events_and_waits,
        allocation,
        modules_and_functions,
        function_attributes,
        occupancy,
        streams_and_devices,
        the_error_log_names_the_line,
        texts_of_codes,
    }
}

const HUGE: usize = 1 << 60;

/// What the tests of a table use.
struct Fixture<'a> {
    t: &'a Rig,
    module: CUmodule,
    k: CUfunction,
    small: CUfunction,
    noarg: CUfunction,
    dynamic: CUfunction,
    stream: CUstream,
    buffer: CUdeviceptr,
    event: CUevent,
    untimed: CUevent,
}

fn fixture(t: &Rig) -> Fixture<'_> {
    let module = t.module(PTX);
    let [k, small, noarg, dynamic] =
        ["k", "sm", "noarg", "dyn"].map(|name| t.function(module, name));
    let (stream, buffer, event) = (t.new_stream(1), t.zeroed(1 << 20), t.timed_event());
    let untimed: CUevent = make!(t, cuEventCreate(2));
    ok!(t, cuEventRecord(event, stream));
    ok!(t, cuEventRecord(untimed, stream));
    ok!(t, cuStreamSynchronize(stream));
    Fixture { t, module, k, small, noarg, dynamic, stream, buffer, event, untimed }
}

impl Fixture<'_> {
    fn launch(&self, function: CUfunction, grid: [u32; 3], block: [u32; 3], shared: u32) -> u32 {
        let (mut buffer, mut one) = (self.buffer, 1_u32);
        let mut params = [(&raw mut buffer).cast(), (&raw mut one).cast()];
        let [gx, gy, gz] = grid;
        let [bx, by, bz] = block;
        let params = params.as_mut_ptr();
        cu!(
            self.t,
            cuLaunchKernel(
                function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                self.stream,
                params,
                null_mut()
            )
        )
    }

    fn cluster(&self, grid: u32, cluster: u32) -> u32 {
        let (mut buffer, mut one) = (self.buffer, 1_u32);
        let mut params = [(&raw mut buffer).cast(), (&raw mut one).cast()];
        let mut attribute = CUlaunchAttribute {
            id: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: CUlaunchAttributeValue::default(),
        };
        attribute.value.clusterDim =
            CUlaunchAttributeValue_union__bindgen_ty_1 { x: cluster, y: 1, z: 1 };
        let config = CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let params = params.as_mut_ptr();
        cu!(self.t, cuLaunchKernelEx(&config, self.k, params, null_mut()))
    }
}

fn launches_are_held_against_the_limits(rig: &Rig) {
    let f = fixture(rig);
    let one = [1, 1, 1];
    assert_eq!(f.launch(f.k, one, one, 0), 0);
    for (grid, block, shared) in [
        ([0, 1, 1], one, 0),
        ([1, 65_536, 1], one, 0),
        ([0x8000_0000, 1, 1], one, 0),
        (one, [0, 1, 1], 0),
        (one, [2048, 1, 1], 0),
        (one, [1, 1, 65], 0),
    ] {
        assert_eq!(f.launch(f.k, grid, block, shared), 1, "{grid:?} {block:?} {shared}");
    }
    assert_eq!(f.launch(f.noarg, one, one, 49_152), 0);
    assert_eq!(f.launch(f.noarg, one, one, 49_153), 1);
    assert_eq!(f.launch(f.noarg, one, one, 300_000), 1);
    assert_eq!(f.launch(f.small, one, one, 49_152), 1);
    assert_eq!(f.launch(null_mut(), one, one, 0), 400);
    let none = null_mut();
    assert_eq!(cu!(f.t, cuLaunchKernel(f.k, 1, 1, 1, 1, 1, 1, 0, f.stream, none, none)), 1);
    assert_eq!(f.cluster(4, 3), 912);
    assert_eq!(f.cluster(4, 2), 0);
    assert_eq!(f.cluster(16, 16), 912);
    let (mut buffer, mut n) = (f.buffer, 1_u32);
    let mut params = [(&raw mut buffer).cast(), (&raw mut n).cast()];
    let params = params.as_mut_ptr();
    let cooperative = |grid, block| {
        cu!(f.t, cuLaunchCooperativeKernel(f.k, grid, 1, 1, block, 1, 1, 0, f.stream, params))
    };
    assert_eq!(cooperative(1_000_000, 256), 720);
    assert_eq!(cooperative(1, 32), 0);
    ok!(f.t, cuCtxSynchronize());
}

fn a_parameter_buffer_stands_for_the_parameters(rig: &Rig) {
    let f = fixture(rig);
    let mut buffer = [0_u8; 12];
    buffer[..8].copy_from_slice(&f.buffer.to_ne_bytes());
    buffer[8..].copy_from_slice(&5_u32.to_ne_bytes());
    let mut size = buffer.len();
    let mut extra = [
        std::ptr::without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(2),
        (&raw mut size).cast(),
        null_mut(),
    ];
    let extra = extra.as_mut_ptr();
    let none = null_mut();
    ok!(f.t, cuLaunchKernel(f.k, 1, 1, 1, 1, 1, 1, 0, f.stream, none, extra));
    ok!(f.t, cuStreamSynchronize(f.stream));
    assert_eq!(f.t.read::<u32>(f.buffer, 1), [5]);
}

fn fills_and_copies_are_held_against_the_memory(rig: &Rig) {
    let f = fixture(rig);
    let (b, s, t) = (f.buffer, f.stream, f.t);
    assert_eq!(cu!(t, cuMemsetD32Async(b, 0, 1 << 20, s)), 1);
    assert_eq!(cu!(t, cuMemsetD32Async(b + 1, 0, 4, s)), 1);
    ok!(t, cuMemsetD32Async(b, 0, 0, s));
    assert_eq!(cu!(t, cuMemsetD32Async(0, 0, 4, s)), 1);
    assert_eq!(cu!(t, cuMemcpyDtoDAsync_v2(b, b + 4096, 1 << 20, s)), 1);
    ok!(t, cuMemcpyDtoDAsync_v2(b, b + 4096, 0, s));
    assert_eq!(cu!(t, cuMemcpyDtoDAsync_v2(0, b, 16, s)), 1);
    assert_eq!(cu!(t, cuMemcpyHtoDAsync_v2(b, null(), 16, s)), 1);
    assert_eq!(cu!(t, cuMemsetD2D32Async(b, 8, 0, 4, 4, s)), 1);
    ok!(t, cuMemsetD2D32Async(b, 64, 0, 4, 0, s));
    let mut copy = CUDA_MEMCPY2D {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: b,
        dstDevice: b + 8192,
        srcPitch: 8,
        dstPitch: 8,
        WidthInBytes: 16,
        Height: 4,
        ..CUDA_MEMCPY2D::default()
    };
    assert_eq!(cu!(t, cuMemcpy2DAsync_v2(&copy, s)), 1);
    (copy.srcPitch, copy.dstPitch, copy.Height) = (64, 64, 0);
    ok!(t, cuMemcpy2DAsync_v2(&copy, s));
    assert_eq!(cu!(t, cuLaunchHostFunc(s, None, null_mut())), 1);
}

fn events_and_waits(rig: &Rig) {
    let f = fixture(rig);
    let (s, t) = (f.stream, f.t);
    assert_eq!(cu!(t, cuEventRecord(null_mut(), s)), 400);
    assert_eq!(cu!(t, cuStreamWaitEvent(s, null_mut(), 0)), 400);
    assert_eq!(cu!(t, cuStreamWaitEvent(s, f.event, 2)), 1);
    assert_eq!(cu!(t, cuEventRecordWithFlags(f.event, s, 1)), 401);
    assert_eq!(cu!(t, cuStreamWaitEvent(s, f.event, 1)), 401);
    let mut event = null_mut();
    assert_eq!(cu!(t, cuEventCreate(&mut event, 99)), 1);
    assert_eq!(cu!(t, cuEventCreate(&mut event, 4)), 1);
    let mut ms = 0.0;
    assert_eq!(cu!(t, cuEventElapsedTime(&mut ms, f.untimed, f.event)), 400);
    let fresh = t.timed_event();
    assert_eq!(cu!(t, cuEventElapsedTime(&mut ms, fresh, f.event)), 400);
    ok!(t, cuEventQuery(fresh));
    ok!(t, cuEventSynchronize(fresh));
    ok!(t, cuEventElapsedTime(&mut ms, f.event, f.event));
    assert_eq!(cu!(t, cuEventDestroy_v2(null_mut())), 400);
    assert_eq!(cu!(t, cuEventQuery(null_mut())), 400);
}

fn allocation(rig: &Rig) {
    let f = fixture(rig);
    let (s, t) = (f.stream, f.t);
    let mut p = 0;
    ok!(t, cuMemAllocAsync(&mut p, 0, s));
    assert_eq!(cu!(t, cuMemAllocAsync(&mut p, HUGE, s)), 2);
    assert_eq!(cu!(t, cuMemFreeAsync(0x1234, s)), 1);
    assert_eq!(cu!(t, cuMemAlloc_v2(&mut p, 0)), 1);
    assert_eq!(cu!(t, cuMemAlloc_v2(&mut p, HUGE)), 2);
    assert_eq!(cu!(t, cuMemAlloc_v2(null_mut(), 64)), 1);
    ok!(t, cuMemFree_v2(0));
    assert_eq!(cu!(t, cuMemFree_v2(f.buffer + 16)), 1);
    assert_eq!(cu!(t, cuMemFree_v2(0x1234)), 1);
    let mut host = std::ptr::dangling_mut();
    ok!(t, cuMemHostAlloc(&mut host, 0, 0));
    assert!(host.is_null());
    assert_eq!(cu!(t, cuMemHostAlloc(&mut host, HUGE, 0)), 2);
    ok!(t, cuMemFreeHost(null_mut()));
    assert_eq!(cu!(t, cuMemFreeHost((&raw mut p).cast())), 1);
    let mut pitch = 0;
    assert_eq!(cu!(t, cuMemAllocPitch_v2(&mut p, &mut pitch, 0, 0, 4)), 1);
    ok!(t, cuMemAllocPitch_v2(&mut p, &mut pitch, 100, 3, 4));
    assert_eq!(pitch, 512);
    // What did not come from a pool is taken twice. The simulator does so until the first free has
    // run; on a GPU nothing holds it up.
    let (synchronous, gate) = (t.alloc(64), Gate::new());
    t.on_simulation(|_| gate.put_on(t, s));
    ok!(t, cuMemFreeAsync(synchronous, s));
    ok!(t, cuMemFreeAsync(synchronous, s));
    gate.open();
}

fn modules_and_functions(rig: &Rig) {
    let f = fixture(rig);
    let t = f.t;
    let mut module = null_mut();
    let mut load = |text: &str| {
        let text = std::ffi::CString::new(text).unwrap();
        cu!(t, cuModuleLoadData(&mut module, text.as_ptr().cast()))
    };
    assert_eq!(load(""), 200);
    assert_eq!(load("hello"), 200);
    let head = ".target sm_50\n.address_size 64\n";
    assert_eq!(load(&format!(".version 6.4\n{head}.visible .entry k(){{ foo.bar; ret;}}\n")), 218);
    assert_eq!(load(&format!(".version 99.4\n{head}")), 222);
    assert_eq!(load(".version 8.4\n.target sm_200\n.address_size 64\n"), 218);
    assert_eq!(
        load(".version 8.7\n.target sm_100\n.address_size 64\n.visible .entry k(){ ret;}\n"),
        218
    );
    assert_eq!(cu!(t, cuModuleLoadData(&mut module, null())), 1);
    let mut elf = [0_u8; 256];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    assert_eq!(cu!(t, cuModuleLoadData(&mut module, elf.as_ptr().cast())), 200);
    t.on_simulation(|_| {
        elf[18..20].copy_from_slice(&190_u16.to_le_bytes());
        assert_eq!(cu!(t, cuModuleLoadData(&mut module, elf.as_ptr().cast())), 209);
    });
    assert_eq!(cu!(t, cuModuleLoad(&mut module, c"/nope.ptx".as_ptr())), 301);
    let mut function = null_mut();
    let mut get = |module, name| cu!(t, cuModuleGetFunction(&mut function, module, name));
    assert_eq!(get(f.module, c"nope".as_ptr()), 500);
    assert_eq!(get(f.module, c"".as_ptr()), 1);
    assert_eq!(get(f.module, null()), 1);
    assert_eq!(get(null_mut(), c"k".as_ptr()), 400);
    let (mut address, mut size) = (0, 0);
    let mut global = |name| cu!(t, cuModuleGetGlobal_v2(&mut address, &mut size, f.module, name));
    assert_eq!(global(c"nope".as_ptr()), 500);
    assert_eq!(global(c"counter".as_ptr()), 0);
    assert_eq!((size, t.read::<u32>(address, 1)), (4, vec![7]));
}

fn function_attributes(rig: &Rig) {
    let f = fixture(rig);
    let t = f.t;
    let set = |attribute: CUfunction_attribute, value| {
        cu!(t, cuFuncSetAttribute(f.noarg, attribute, value))
    };
    assert_eq!(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300_000), 1);
    assert_eq!(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -5), 1);
    assert_eq!(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232_448), 0);
    assert_eq!(f.launch(f.noarg, [1; 3], [1; 3], 232_448), 0);
    assert_eq!(set(CU_FUNC_ATTRIBUTE_NUM_REGS, 8), 1);
    let get = |attribute| {
        let mut value = -77;
        let code = cu!(t, cuFuncGetAttribute(&mut value, CUfunction_attribute(attribute), f.small));
        (code, value)
    };
    assert_eq!(get(0), (0, 1024));
    assert_eq!(get(1), (0, 1024));
    assert_eq!(get(5), (0, 50));
    assert_eq!(get(6), (0, 90));
    assert_eq!(get(8), (0, 48_128));
    assert_eq!(get(9), (0, -1));
    assert_eq!(get(15), (0, 0));
    assert_eq!(get(16), (1, -77));
    assert_eq!(get(99), (1, -77));
    let info = |index| {
        let (mut offset, mut size) = (0, 0);
        let code = cu!(t, cuFuncGetParamInfo(f.dynamic, index, &mut offset, &mut size));
        (code, offset, size)
    };
    assert_eq!([info(0), info(1), info(2)], [(0, 0, 8), (0, 8, 24), (0, 32, 4)]);
    assert_eq!(info(3).0, 1);
}

fn occupancy(rig: &Rig) {
    let f = fixture(rig);
    let t = f.t;
    let blocks = |threads| {
        let mut blocks = -1;
        let code =
            cu!(t, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, f.k, threads, 0));
        (code, blocks)
    };
    assert_eq!(blocks(2048), (0, 0));
    assert_eq!(blocks(256), (0, 8));
    assert_eq!(blocks(0), (1, -1));
    let (mut grid, mut block) = (0, 0);
    assert_eq!(cu!(t, cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, f.k, None, 0, 0)), 0);
    assert_eq!((grid, block), (264, 1024));
}

fn streams_and_devices(rig: &Rig) {
    let f = fixture(rig);
    let t = f.t;
    let mut stream = null_mut();
    assert_eq!(cu!(t, cuStreamCreate(&mut stream, 9)), 1);
    assert_eq!(cu!(t, cuStreamCreate(null_mut(), 0)), 1);
    for (asked, got) in [(-100, -5), (100, 0), (-3, -3)] {
        let stream: CUstream = make!(t, cuStreamCreateWithPriority(1, asked));
        let mut priority = 9;
        ok!(t, cuStreamGetPriority(stream, &mut priority));
        assert_eq!(priority, got);
    }
    let (mut least, mut greatest) = (9, 9);
    ok!(t, cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
    assert_eq!((least, greatest), (0, -5));
    for handle in 0..3 {
        assert_eq!(cu!(t, cuStreamDestroy_v2(std::ptr::without_provenance_mut(handle))), 400);
    }
    let mut device = 0;
    assert_eq!(cu!(t, cuDeviceGet(&mut device, 5)), 101);
    assert_eq!(cu!(t, cuDeviceGet(&mut device, -1)), 101);
    let attribute = |number, device| {
        let mut value = 0;
        let number = CUdevice_attribute(number);
        (cu!(t, cuDeviceGetAttribute(&mut value, number, device)), value)
    };
    assert_eq!(attribute(9999, 0), (1, 0));
    assert_eq!(attribute(0, 0), (1, 0));
    assert_eq!(attribute(1, 7), (101, 0));
    assert_eq!(attribute(75, 0), (0, 9));
    assert_eq!(attribute(97, 0), (0, 232_448));
    assert_eq!(attribute(147, 0).0, 0);
    assert_eq!(attribute(148, 0).0, 1);
    let mut whole = [0_u8; 64];
    ok!(t, cuDeviceGetName(whole.as_mut_ptr().cast(), 64, 0));
    let mut name = [b'z'; 8];
    ok!(t, cuDeviceGetName(name.as_mut_ptr().cast(), 4, 0));
    assert_eq!((&name[..3], &name[3..5]), (&whole[..3], b"\0z".as_slice()));
    let mut context = null_mut();
    assert_eq!(cu!(t, cuDevicePrimaryCtxRetain(&mut context, 9)), 101);
    let (mut flags, mut version) = (0, 0);
    ok!(t, cuCtxGetFlags(&mut flags));
    ok!(t, cuCtxGetApiVersion(null_mut(), &mut version));
    // Which memory the context keeps for kernels (16) is what the process set before.
    assert_eq!((flags & !CU_CTX_LMEM_RESIZE_TO_MAX.0, version), (8, 3020));
    let limit = |number| {
        let mut value = 7;
        (cu!(t, cuCtxGetLimit(&mut value, CUlimit(number))), value)
    };
    assert_eq!([limit(0), limit(3), limit(10)], [(0, 1024), (215, 7), (1, 7)]);
}

fn the_error_log_names_the_line(t: &Rig) {
    let text =
        c".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k(){ foo.bar; ret;}\n";
    let mut log = [0_u8; 1024];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(1024)];
    let mut module = null_mut();
    let code = cu!(
        t,
        cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        )
    );
    assert_eq!(code, 218);
    let said = std::ffi::CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert!(said.contains("line 4") && said.contains("foo"), "{said}");
    t.on_simulation(|_| assert_eq!(values[1].addr(), said.len()));
}

fn texts_of_codes(t: &Rig) {
    let mut text = null();
    ok!(t, cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &mut text));
    // SAFETY: the driver gave a NUL-terminated text that stays.
    let name = unsafe { std::ffi::CStr::from_ptr(text) };
    assert_eq!(name, c"CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(cu!(t, cuGetErrorString(CUresult(123_456), &mut text)), 1);
    assert!(text.is_null());
}
