//! cudarc: its safe API, with event tracking off, which is what its own test of capture does.

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaSlice, CudaStream, DriverError, LaunchConfig,
    PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use grapture_bench::{PTX, Program, THREADS};

struct Cudarc {
    stream: Arc<CudaStream>,
    kernel: CudaFunction,
    word: CudaSlice<u32>,
}

impl Program for Cudarc {
    const NAME: &str = "cudarc";
    type Capture<'a> = ();
    type Exec = CudaGraph;
    type Error = DriverError;

    fn set_up() -> Result<Cudarc, DriverError> {
        let context = CudaContext::new(0)?;
        // SAFETY: everything here runs in one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        let kernel = context.load_module(Ptx::from_src(PTX))?.load_function("add")?;
        let word = stream.alloc_zeros::<u32>(1)?;
        stream.synchronize()?;
        Ok(Cudarc { stream, kernel, word })
    }

    fn begin(&self) -> Result<(), DriverError> {
        self.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    }

    fn kernels(&self, n: usize) -> Result<(), DriverError> {
        let config =
            LaunchConfig { grid_dim: (1, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        for _ in 0..n {
            let mut launch = self.stream.launch_builder(&self.kernel);
            launch.arg(&self.word);
            // SAFETY: the kernel takes a pointer to one word and adds to it atomically.
            unsafe { launch.launch(config) }?;
        }
        Ok(())
    }

    fn end(&self, (): ()) -> Result<CudaGraph, DriverError> {
        // SAFETY: no flag is a valid value of flags.
        let flags = unsafe { std::mem::transmute::<u32, CUgraphInstantiate_flags>(0) };
        Ok(self.stream.end_capture(flags)?.expect("a graph was captured"))
    }

    fn launch(&self, exec: &CudaGraph, times: usize) -> Result<(), DriverError> {
        for _ in 0..times {
            exec.launch()?;
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DriverError> {
        self.stream.synchronize()
    }

    fn word(&self) -> Result<u32, DriverError> {
        Ok(self.stream.clone_dtoh(&self.word)?[0])
    }
}

fn main() {
    grapture_bench::run::<Cudarc>();
}
