//! Threads that work, capture and replay beside one another: nothing hangs, and nothing is left.

use grapture_sys::*;

use crate::common::{PTX, Setup};
use crate::source::Source;
use crate::{call, make};

const THREADS: u64 = 4;
const STEPS: usize = 80;

/// Handles that other threads use too.
#[derive(Clone, Copy)]
struct Shared {
    context: usize,
    kernel: usize,
    event: usize,
    buffer: CUdeviceptr,
}

/// Runs the threads of a seed.
pub fn sequence_holds(seed: u64) {
    let t = Setup::new();
    let module = t.module(PTX);
    let event = t.event();
    let shared = Shared {
        context: t.context.addr(),
        kernel: t.function(module, "k").addr(),
        event: event.addr(),
        buffer: t.alloc(1024),
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let driver = t.driver.clone();
            let source = Source::new(seed * THREADS + index);
            std::thread::spawn(move || work(&driver, source, shared))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(call!(t, cuMemFree_v2(shared.buffer)), 0);
    assert_eq!(call!(t, cuEventDestroy_v2(event)), 0);
    assert_eq!(call!(t, cuModuleUnload(module)), 0);
    t.finish();
}

/// One thread's steps on a stream of its own. In relaxed captures nothing of the others bars.
fn work(driver: &Driver, mut source: Source, shared: Shared) {
    let handle = |address: usize| std::ptr::without_provenance_mut::<core::ffi::c_void>(address);
    assert_eq!(call!(driver, cuCtxSetCurrent(handle(shared.context).cast())), 0);
    let stream: CUstream = make!(driver, cuStreamCreate(1));
    let mut exec: CUgraphExec = std::ptr::null_mut();
    let relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    let mut capturing = false;
    for _ in 0..STEPS {
        match source.below(9) {
            0 if !capturing => {
                assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, relaxed)), 0);
                capturing = true;
            }
            0 | 1 if capturing => {
                let graph: CUgraph = end(driver, stream);
                capturing = false;
                if !exec.is_null() {
                    assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
                }
                exec = make!(driver, cuGraphInstantiateWithFlags(graph, 0));
                assert_eq!(call!(driver, cuGraphDestroy(graph)), 0);
            }
            2 if !capturing && !exec.is_null() => {
                assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
            }
            3 if !capturing => {
                // Recorded by whoever comes last: the order is one of many.
                assert_eq!(call!(driver, cuEventRecord(handle(shared.event).cast(), stream)), 0);
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            }
            4 if !capturing => {
                let memory: CUdeviceptr = make!(driver, cuMemAllocAsync(256, stream));
                assert_eq!(call!(driver, cuMemsetD8Async(memory, 1, 256, stream)), 0);
                assert_eq!(call!(driver, cuMemFreeAsync(memory, stream)), 0);
            }
            5 => {
                let copy = call!(
                    driver,
                    cuMemcpyDtoDAsync_v2(shared.buffer, shared.buffer + 512, 512, stream)
                );
                assert_eq!(copy, 0);
            }
            _ => {
                let (mut word, mut one) = (shared.buffer, 1_u32);
                let mut params = [(&raw mut word).cast(), (&raw mut one).cast()];
                let (params, none) = (params.as_mut_ptr(), std::ptr::null_mut());
                let kernel = handle(shared.kernel).cast();
                let launch = call!(
                    driver,
                    cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, stream, params, none)
                );
                assert_eq!(launch, 0);
            }
        }
    }
    if capturing {
        let graph = end(driver, stream);
        assert_eq!(call!(driver, cuGraphDestroy(graph)), 0);
    }
    if !exec.is_null() {
        assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
    }
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    assert_eq!(call!(driver, cuStreamDestroy_v2(stream)), 0);
}

fn end(driver: &Driver, stream: CUstream) -> CUgraph {
    let mut graph = std::ptr::null_mut();
    assert_eq!(call!(driver, cuStreamEndCapture(stream, &mut graph)), 0);
    graph
}
