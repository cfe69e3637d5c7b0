//! Which calls a capture bars, for every mode of the capture and of the calling thread. The classes
//! are what a real driver (13.0, on an H200) answered.

use std::ptr::null_mut;

use std::sync::atomic::AtomicU8;

use grapture_sys::*;

use crate::rig::{GLOBAL, NULL_STREAM, RELAXED, Rig, THREAD_LOCAL};

tiers! {
    both {
        every_call_in_every_mode,
    }
}

/// What a call does during captures on a stream that is not ordered with the legacy stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    /// Always allowed.
    Safe,
    /// Barred by the matrix of modes.
    Unsafe,
    /// Barred by every capture of the context.
    Whole,
}
use Class::{Safe, Unsafe, Whole};

/// What the calls work on; made and released where no capture is.
struct Things {
    address: CUdeviceptr,
    pinned: *mut std::ffi::c_void,
    pool: CUmemoryPool,
    graph: CUgraph,
    exec: CUgraphExec,
    event: CUevent,
    stream: CUstream,
    made: Made,
}

/// What a call made, to be released afterwards.
#[derive(Default)]
struct Made {
    address: CUdeviceptr,
    pinned: usize,
    registered: usize,
    streams: Vec<usize>,
    events: Vec<usize>,
    pools: Vec<usize>,
    graphs: Vec<usize>,
    execs: Vec<usize>,
    retains: usize,
    destroyed: Vec<&'static str>,
}

type Call = fn(&Rig, &mut Things) -> u32;

const CALLS: &[(&str, Class, Call)] = &[
    ("cuMemAlloc", Unsafe, |rig, t| cu!(rig, cuMemAlloc_v2(&mut t.made.address, 64))),
    ("cuMemFree", Unsafe, |rig, t| {
        let code = cu!(rig, cuMemFree_v2(t.address));
        t.note(code, "address")
    }),
    ("cuMemHostAlloc", Unsafe, |rig, t| {
        let mut at = null_mut();
        let code = cu!(rig, cuMemHostAlloc(&mut at, 64, 0));
        t.made.pinned = at.addr();
        code
    }),
    ("cuMemFreeHost", Unsafe, |rig, t| {
        let code = cu!(rig, cuMemFreeHost(t.pinned));
        t.note(code, "pinned")
    }),
    ("cuMemHostRegister", Unsafe, |rig, t| {
        let at = PAGE.0.as_ptr().cast_mut().cast();
        let code = cu!(rig, cuMemHostRegister_v2(at, PAGE.0.len(), 0));
        t.made.registered = if code == 0 { PAGE.0.as_ptr().addr() } else { 0 };
        code
    }),
    ("cuMemAllocManaged", Unsafe, |rig, t| cu!(rig, cuMemAllocManaged(&mut t.made.address, 64, 1))),
    ("cuMemAllocAsync(other)", Unsafe, |rig, t| {
        cu!(rig, cuMemAllocAsync(&mut t.made.address, 64, t.stream))
    }),
    ("cuMemGetInfo", Safe, |rig, _| {
        let (mut free, mut total) = (0, 0);
        cu!(rig, cuMemGetInfo_v2(&mut free, &mut total))
    }),
    ("cuStreamCreate", Safe, |rig, t| {
        let mut stream = null_mut();
        let code = cu!(rig, cuStreamCreate(&mut stream, 1));
        t.made.streams.push(stream.addr());
        code
    }),
    ("cuEventCreate", Safe, |rig, t| {
        let mut event = null_mut();
        let code = cu!(rig, cuEventCreate(&mut event, 2));
        t.made.events.push(event.addr());
        code
    }),
    ("cuEventDestroy", Safe, |rig, t| {
        let code = cu!(rig, cuEventDestroy_v2(t.event));
        t.note(code, "event")
    }),
    ("cuStreamDestroy(other)", Safe, |rig, t| {
        let code = cu!(rig, cuStreamDestroy_v2(t.stream));
        t.note(code, "stream")
    }),
    ("cuEventQuery(old)", Unsafe, |rig, t| cu!(rig, cuEventQuery(t.event))),
    ("cuEventSynchronize(old)", Unsafe, |rig, t| cu!(rig, cuEventSynchronize(t.event))),
    ("cuStreamQuery(other)", Unsafe, |rig, t| cu!(rig, cuStreamQuery(t.stream))),
    ("cuStreamSynchronize(other)", Unsafe, |rig, t| cu!(rig, cuStreamSynchronize(t.stream))),
    ("cuStreamSynchronize(blocking)", Unsafe, |rig, _| cu!(rig, cuStreamSynchronize(rig.blocking))),
    ("cuCtxSynchronize", Whole, |rig, _| cu!(rig, cuCtxSynchronize())),
    ("cuMemcpyHtoD", Safe, |rig, t| {
        cu!(rig, cuMemcpyHtoD_v2(t.address, PAGE.0.as_ptr().cast(), 64))
    }),
    ("cuMemcpyDtoH", Safe, |rig, t| {
        let mut bytes = [0u8; 64];
        cu!(rig, cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), t.address, 64))
    }),
    ("cuMemsetD32", Safe, |rig, t| cu!(rig, cuMemsetD32_v2(t.address, 1, 4))),
    ("cuMemsetD32Async(other)", Safe, |rig, t| {
        cu!(rig, cuMemsetD32Async(t.address, 1, 4, t.stream))
    }),
    ("work on the legacy stream", Safe, |rig, t| {
        cu!(rig, cuMemsetD32Async(t.address, 1, 4, NULL_STREAM))
    }),
    ("cuEventRecord(NULL)", Safe, |rig, t| cu!(rig, cuEventRecord(t.event, NULL_STREAM))),
    ("cuPointerGetAttribute", Safe, |rig, t| {
        let mut kind = 0u32;
        let what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        cu!(rig, cuPointerGetAttribute((&raw mut kind).cast(), what, t.address))
    }),
    ("cuMemPoolGetAttribute", Unsafe, |rig, t| {
        let mut value = 0u64;
        let what = CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        cu!(rig, cuMemPoolGetAttribute(t.pool, what, (&raw mut value).cast()))
    }),
    ("cuMemPoolTrimTo", Unsafe, |rig, t| cu!(rig, cuMemPoolTrimTo(t.pool, 0))),
    ("cuMemPoolCreate", Unsafe, |rig, t| {
        let mut pool = null_mut();
        let mut props =
            CUmemPoolProps_v1 { allocType: CU_MEM_ALLOCATION_TYPE_PINNED, ..Default::default() };
        props.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let code = cu!(rig, cuMemPoolCreate(&mut pool, &props));
        t.made.pools.push(pool.addr());
        code
    }),
    ("cuDeviceGraphMemTrim", Safe, |rig, _| cu!(rig, cuDeviceGraphMemTrim(0))),
    ("cuGraphCreate", Safe, |rig, t| {
        let mut graph = null_mut();
        let code = cu!(rig, cuGraphCreate(&mut graph, 0));
        t.made.graphs.push(graph.addr());
        code
    }),
    ("cuGraphInstantiateWithFlags", Unsafe, |rig, t| {
        let mut exec = null_mut();
        let code = cu!(rig, cuGraphInstantiateWithFlags(&mut exec, t.graph, 0));
        t.made.execs.push(exec.addr());
        code
    }),
    ("cuGraphExecDestroy", Unsafe, |rig, t| {
        let code = cu!(rig, cuGraphExecDestroy(t.exec));
        t.note(code, "exec")
    }),
    ("cuGraphLaunch(other)", Safe, |rig, t| cu!(rig, cuGraphLaunch(t.exec, t.stream))),
    ("cuGraphUpload(other)", Safe, |rig, t| cu!(rig, cuGraphUpload(t.exec, t.stream))),
    ("cuCtxGetLimit", Safe, |rig, _| {
        let mut value = 0;
        cu!(rig, cuCtxGetLimit(&mut value, CU_LIMIT_STACK_SIZE))
    }),
    ("cuStreamGetId(other)", Safe, |rig, t| {
        let mut id = 0;
        cu!(rig, cuStreamGetId(t.stream, &mut id))
    }),
    ("cuDevicePrimaryCtxRetain", Safe, |rig, t| {
        let mut context = null_mut();
        let code = cu!(rig, cuDevicePrimaryCtxRetain(&mut context, 0));
        t.made.retains += 1;
        code
    }),
    ("cuThreadExchange", Safe, |rig, _| {
        let mut mode = CUstreamCaptureMode(0);
        let code = cu!(rig, cuThreadExchangeStreamCaptureMode(&mut mode));
        code + cu!(rig, cuThreadExchangeStreamCaptureMode(&mut mode))
    }),
];

#[repr(align(4096))]
struct Page([AtomicU8; 4096]);
/// Not constant, so that it lies where a driver may lock it.
static PAGE: Page = Page([const { AtomicU8::new(0) }; 4096]);

impl Things {
    fn new(rig: &Rig) -> Things {
        let mut address = 0;
        ok!(rig, cuMemAlloc_v2(&mut address, 64));
        let mut pinned = null_mut();
        ok!(rig, cuMemHostAlloc(&mut pinned, 64, 0));
        let mut pool = null_mut();
        ok!(rig, cuDeviceGetDefaultMemPool(&mut pool, 0));
        let graph = rig.new_graph();
        let exec = rig.instantiate(graph);
        let (event, stream) = (rig.new_event(), rig.new_stream(1));
        assert_eq!(rig.record(event, stream), 0);
        rig.sync(stream);
        let made = Made::default();
        Things { address, pinned, pool, graph, exec, event, stream, made }
    }

    fn note(&mut self, code: u32, what: &'static str) -> u32 {
        if code == 0 {
            self.made.destroyed.push(what);
        }
        code
    }

    fn release(mut self, rig: &Rig) {
        let made = std::mem::take(&mut self.made);
        let gone = |what| made.destroyed.contains(&what);
        let at = |address: &usize| std::ptr::without_provenance_mut::<u8>(*address);
        if !gone("address") {
            ok!(rig, cuMemFree_v2(self.address));
        }
        if !gone("event") {
            ok!(rig, cuEventDestroy_v2(self.event));
        }
        if !gone("stream") {
            ok!(rig, cuStreamDestroy_v2(self.stream));
        }
        if !gone("exec") {
            ok!(rig, cuGraphExecDestroy(self.exec));
        }
        ok!(rig, cuGraphDestroy(self.graph));
        if !gone("pinned") {
            ok!(rig, cuMemFreeHost(self.pinned));
        }
        ok!(rig, cuMemFree_v2(made.address));
        ok!(rig, cuMemFreeHost(std::ptr::without_provenance_mut(made.pinned)));
        if made.registered != 0 {
            ok!(rig, cuMemHostUnregister(std::ptr::without_provenance_mut(made.registered)));
        }
        for _ in 0..made.retains {
            ok!(rig, cuDevicePrimaryCtxRelease_v2(0));
        }
        for stream in made.streams.iter().filter(|handle| **handle != 0) {
            ok!(rig, cuStreamDestroy_v2(at(stream).cast()));
        }
        for event in made.events.iter().filter(|handle| **handle != 0) {
            ok!(rig, cuEventDestroy_v2(at(event).cast()));
        }
        for pool in made.pools.iter().filter(|handle| **handle != 0) {
            ok!(rig, cuMemPoolDestroy(at(pool).cast()));
        }
        for graph in made.graphs.iter().filter(|handle| **handle != 0) {
            ok!(rig, cuGraphDestroy(at(graph).cast()));
        }
        for exec in made.execs.iter().filter(|handle| **handle != 0) {
            ok!(rig, cuGraphExecDestroy(at(exec).cast()));
        }
    }
}

// SAFETY: the fields are handles, which the driver lets any thread use.
unsafe impl Send for Things {}

fn every_call_in_every_mode(rig: &Rig) {
    let modes = [GLOBAL, THREAD_LOCAL, RELAXED];
    for (name, class, call) in CALLS {
        for capture in modes {
            let own = capture != RELAXED;
            check(rig, name, *class, own, capture, call);
            for thread in modes {
                let others = capture == GLOBAL && thread == GLOBAL;
                let run =
                    |rig: &Rig, things: &mut Things| rig.elsewhere(thread, || call(rig, things));
                check(rig, &format!("{name}, thread {thread}"), *class, others, capture, run);
            }
        }
    }
}

fn check(
    rig: &Rig,
    name: &str,
    class: Class,
    barred_if_unsafe: bool,
    capture: u32,
    call: impl FnOnce(&Rig, &mut Things) -> u32,
) {
    let barred = class == Whole || (class == Unsafe && barred_if_unsafe);
    let expected = if barred { (900, 2, 901) } else { (0, 1, 0) };
    let mut things = Things::new(rig);
    rig.begin(rig.stream, capture);
    let code = call(rig, &mut things);
    let status = rig.status(rig.stream);
    let (end, _) = rig.end_and_count(rig.stream);
    assert_eq!((code, status, end), expected, "{name} in a capture of mode {capture}");
    things.release(rig);
}
