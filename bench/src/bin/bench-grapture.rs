//! Grapture: its safe API as anyone would use it, with retention and the operation log on.

use std::cell::{Cell, RefCell};

use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, Context, CudaError, CudaResult, CurrentContext, Device,
    DeviceBuffer, GraphExec, Kernel, Stream, StreamGraphCapture,
};
use grapture_bench::{PTX, Program, THREADS};

struct Grapture {
    /// While it is this program's turn, as C has its own current in its turns.
    current: Cell<Option<CurrentContext>>,
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
        Ok(Grapture { current: Cell::new(None), stream, kernel, word })
    }

    fn enter(&self) -> CudaResult<()> {
        self.current.set(Some(self.stream.context().make_current()?));
        Ok(())
    }

    fn leave(&self) -> CudaResult<()> {
        self.current.set(None);
        Ok(())
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
