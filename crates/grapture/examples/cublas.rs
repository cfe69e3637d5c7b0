//! Captures a matrix product of cuBLAS, which allocates nothing in the capture because it has its
//! workspace from before.
//!
//! cuBLAS submits by the raw handle of the stream, and the library does not see what that records:
//! the capture is told by `retain` what the graph uses. The handle of cuBLAS, whose end waits for
//! the device, stays with the program.
//!
//! It needs a GPU and cuBLAS: `cargo run --example cublas -- /usr/local/cuda/lib64/libcublas.so`.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use grapture::{
    CaptureMode, Context, CudaError, CudaResult, DeviceBuffer, Driver, Graph, NodeKind, Stream,
};
use libloading::{Library, Symbol};

/// The rows and columns of the matrices.
const SIDE: usize = 512;
/// What NVIDIA recommends for the newest devices, in bytes.
const WORKSPACE_BYTES: usize = 32 << 20;

type Sgemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    u64,
    c_int,
    u64,
    c_int,
    *const f32,
    u64,
    c_int,
) -> c_int;

/// A handle of cuBLAS that works on one stream.
struct Blas {
    library: Library,
    raw: *mut c_void,
    _workspace: Arc<DeviceBuffer<u8>>,
}

impl Blas {
    fn new(
        path: &str,
        stream: &Stream,
        workspace: &Arc<DeviceBuffer<u8>>,
    ) -> Result<Blas, Box<dyn Error>> {
        // SAFETY: the user says that the path is cuBLAS.
        let library = unsafe { Library::new(path) }?;
        let mut blas = Blas { library, raw: ptr::null_mut(), _workspace: workspace.clone() };
        let mut raw = ptr::null_mut();
        type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
        let create: Symbol<'_, Create> = blas.function("cublasCreate_v2")?;
        // SAFETY: a live out-pointer.
        succeed(unsafe { create(&mut raw) })?;
        blas.raw = raw;
        type SetStream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
        let set_stream: Symbol<'_, SetStream> = blas.function("cublasSetStream_v2")?;
        // SAFETY: a live handle, and a stream that the program keeps longer.
        succeed(unsafe { set_stream(raw, stream.as_raw().cast()) })?;
        type SetWorkspace = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;
        let set_workspace: Symbol<'_, SetWorkspace> = blas.function("cublasSetWorkspace_v2")?;
        // SAFETY: a live handle, and memory of that size that it keeps, and each graph too.
        succeed(unsafe { set_workspace(raw, workspace.as_raw(), workspace.len()) })?;
        Ok(blas)
    }

    fn function<T>(&self, name: &str) -> Result<Symbol<'_, T>, libloading::Error> {
        // SAFETY: each `T` here is the signature in NVIDIA's documentation.
        unsafe { self.library.get(name.as_bytes()) }
    }

    /// `c = a * b`, on the stream of the handle.
    fn multiply(&self, a: &Matrix, b: &Matrix, c: &Matrix) -> CudaResult<()> {
        let sgemm: Symbol<'_, Sgemm> =
            self.function("cublasSgemm_v2").map_err(|_| CudaError::NotFound)?;
        let (one, zero, side) = (1.0, 0.0, SIDE as c_int);
        let (a, b, c) = (a.as_raw(), b.as_raw(), c.as_raw());
        // SAFETY: a live handle and three live matrices of that side, of which nobody else uses the
        // last one now.
        let code = unsafe {
            sgemm(self.raw, 0, 0, side, side, side, &one, a, side, b, side, &zero, c, side)
        };
        succeed(code).map_err(|_| CudaError::UnknownError)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
        if let Ok(destroy) = self.function::<Destroy>("cublasDestroy_v2") {
            // SAFETY: the last use of the handle.
            unsafe { destroy(self.raw) };
        }
    }
}

fn succeed(code: c_int) -> Result<(), Box<dyn Error>> {
    if code == 0 { Ok(()) } else { Err(format!("cuBLAS answered {code}").into()) }
}

type Matrix = Arc<DeviceBuffer<f32>>;

fn matrix(context: &Context, value: f32) -> CudaResult<Matrix> {
    Ok(Arc::new(DeviceBuffer::from_slice(context, &vec![value; SIDE * SIDE])?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "libcublas.so".to_owned());
    let driver = Driver::process_default()?;
    let context = Context::new(&driver.device(0)?)?;
    let stream = Stream::new(&context)?;
    let workspace = Arc::new(DeviceBuffer::<u8>::alloc(&context, WORKSPACE_BYTES)?);
    let blas = Blas::new(&path, &stream, &workspace)?;
    let [a, b, c] = [2.0, 3.0, 0.0].map(|value| matrix(&context, value));
    let (a, b, c) = (a?, b?, c?);
    // Once outside: cuBLAS loads its kernels.
    blas.multiply(&a, &b, &c)?;
    stream.synchronize()?;

    let capture = || -> CudaResult<Graph> {
        stream.capture(CaptureMode::ThreadLocal, |capture| {
            for used in [&a, &b, &c] {
                capture.retain(used.clone());
            }
            capture.retain(workspace.clone());
            blas.multiply(&a, &b, &c)
        })
    };
    let mut free_before = 0;
    for round in 0..=100 {
        let graph = capture()?;
        let allocates = graph.nodes()?.iter().any(|node| node.kind() == NodeKind::MemAlloc);
        assert!(!allocates, "cuBLAS allocates in the capture");
        graph.instantiate()?.launch(&stream)?;
        stream.synchronize()?;
        driver.reclaim();
        if round == 0 {
            free_before = context.memory_info()?.free_bytes;
        }
    }
    let grown = free_before.saturating_sub(context.memory_info()?.free_bytes);

    let exec = capture()?.instantiate()?;
    let product = c.to_vec(&stream)?;
    drop((a, b, workspace));
    exec.launch(&stream)?;
    assert!(product.iter().all(|value| *value == 6.0 * SIDE as f32));
    assert_eq!(c.to_vec(&stream)?, product);
    println!("{} nodes, none allocates; 100 captures took {grown} bytes", exec.node_count());
    Ok(())
}
