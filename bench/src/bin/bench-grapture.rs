//! Grapture: its safe API as anyone would use it, with retention and the operation log on.

use std::cell::RefCell;

use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, Context, CudaError, CudaResult, Device, DeviceBuffer,
    GraphExec, Kernel, Stream, StreamGraphCapture,
};
use grapture_bench::{PTX, Program, THREADS};

struct Grapture {
    stream: Stream,
    kernel: Kernel,
    word: RefCell<DeviceBuffer<u32>>,
}

impl Program for Grapture {
    const NAME: &str = "grapture";
    type Capture<'a> = StreamGraphCapture<'a>;
    type Exec = GraphExec;
    type Error = CudaError;

    fn set_up() -> CudaResult<Grapture> {
        let context = Context::new(&Device::get(0)?)?;
        let stream = Stream::new(&context)?;
        let kernel = context.load_ptx(PTX)?.kernel("add")?;
        let word = RefCell::new(DeviceBuffer::zeroed(&context, 1)?);
        Ok(Grapture { stream, kernel, word })
    }

    fn begin(&self) -> CudaResult<StreamGraphCapture<'_>> {
        StreamGraphCapture::begin(&self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    }

    fn kernels(&self, n: usize) -> CudaResult<()> {
        let mut word = self.word.borrow_mut();
        for _ in 0..n {
            let launch = self.kernel.launch_builder(1, THREADS).arg_mut(&mut *word);
            // SAFETY: the kernel takes a pointer to one word and adds to it atomically.
            unsafe { launch.launch(&self.stream) }?;
        }
        Ok(())
    }

    fn end(&self, capture: StreamGraphCapture<'_>) -> CudaResult<GraphExec> {
        capture.end()
    }

    fn launch(&self, exec: &GraphExec, times: usize) -> CudaResult<()> {
        for _ in 0..times {
            exec.launch(&self.stream)?;
        }
        Ok(())
    }

    fn synchronize(&self) -> CudaResult<()> {
        self.stream.synchronize()
    }

    fn word(&self) -> CudaResult<u32> {
        Ok(self.word.borrow().to_vec(&self.stream)?[0])
    }
}

fn main() {
    grapture_bench::run::<Grapture>();
}
