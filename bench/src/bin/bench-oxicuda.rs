//! oxicuda-driver: its capture and its graphs. It has no launch of a kernel and no device buffer, so
//! those are its raw function table.

use std::sync::Arc;

use grapture_bench::{PTX, Program, THREADS};
use oxicuda_driver::ffi::{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUdeviceptr};
use oxicuda_driver::graph::StreamGraphCapture;
use oxicuda_driver::loader::DriverApi;
use oxicuda_driver::{
    Context, CudaError, Device, Function, GraphExec, Module, Stream, check, try_driver,
};

struct Oxicuda {
    api: &'static DriverApi,
    stream: Stream,
    kernel: Function,
    word: CUdeviceptr,
    _module: Module,
    _context: Arc<Context>,
}

impl Program for Oxicuda {
    const NAME: &str = "oxicuda";
    type Capture<'a> = StreamGraphCapture<'a>;
    type Exec = GraphExec;
    type Error = CudaError;

    fn set_up() -> Result<Oxicuda, CudaError> {
        oxicuda_driver::init()?;
        let context = Arc::new(Context::new(&Device::get(0)?)?);
        context.set_current()?;
        let stream = Stream::new(&context)?;
        let module = Module::from_ptx(PTX)?;
        let kernel = module.get_function("add")?;
        let api = try_driver()?;
        let mut word = CUdeviceptr::default();
        // SAFETY: the out-pointer is a live local; the context is current.
        check(unsafe { (api.cu_mem_alloc_v2)(&mut word, 4) })?;
        let zero = 0_u32;
        // SAFETY: four bytes from a live local to the four bytes allocated above.
        check(unsafe { (api.cu_memcpy_htod_v2)(word, (&raw const zero).cast(), 4) })?;
        Ok(Oxicuda { api, stream, kernel, word, _module: module, _context: context })
    }

    fn begin(&self) -> Result<StreamGraphCapture<'_>, CudaError> {
        StreamGraphCapture::begin(&self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    }

    fn kernels(&self, n: usize) -> Result<(), CudaError> {
        for _ in 0..n {
            let mut word = self.word;
            let mut parameters = [(&raw mut word).cast()];
            let (kernel, stream) = (self.kernel.raw(), self.stream.raw());
            let (parameters, none) = (parameters.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: the kernel takes a pointer to one word and adds to it atomically.
            let code = unsafe {
                (self.api.cu_launch_kernel)(
                    kernel, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, none,
                )
            };
            check(code)?;
        }
        Ok(())
    }

    fn end(&self, capture: StreamGraphCapture<'_>) -> Result<GraphExec, CudaError> {
        capture.end()
    }

    fn launch(&self, exec: &GraphExec, times: usize) -> Result<(), CudaError> {
        for _ in 0..times {
            exec.launch(&self.stream)?;
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize()
    }

    fn word(&self) -> Result<u32, CudaError> {
        let mut word = 0_u32;
        // SAFETY: four bytes of the allocation to a live local.
        check(unsafe { (self.api.cu_memcpy_dtoh_v2)((&raw mut word).cast(), self.word, 4) })?;
        Ok(word)
    }
}

fn main() {
    grapture_bench::run::<Oxicuda>();
}
