//! The operations of one frame, on one stream: the same whether they run at once or are captured.

use grapture::{Context, CudaResult, DeviceBuffer, Dim3, Kernel, PinnedBuffer, Stream};

/// The kernels; `fixtures/demo.cu` is their source.
const PTX: &str = include_str!("../../fixtures/demo.ptx");

/// Threads of a block that works on a row of pixels, or counts.
const LINE: u32 = 256;

/// Threads of a block that works on a rectangle of pixels.
const TILE: (u32, u32) = (32, 8);

/// The most blocks that count at once: each adds its counts to the common ones in the end.
const COUNTERS: u32 = 64;

/// One pixel in so many may be drawn as an edge.
const EDGES: u32 = 12;

/// The kernels and all memory of the pipeline.
pub struct Pipeline {
    /// The frame that the device reads.
    pub input: PinnedBuffer<u8>,
    /// What the device draws.
    pub output: PinnedBuffer<u8>,
    kernels: Kernels,
    image: DeviceBuffer<u8>,
    gray: DeviceBuffer<u8>,
    rows: DeviceBuffer<u16>,
    smooth: DeviceBuffer<u8>,
    edges: DeviceBuffer<u8>,
    counts: DeviceBuffer<u32>,
    least: DeviceBuffer<u32>,
    drawn: DeviceBuffer<u8>,
    width: u32,
    height: u32,
}

struct Kernels {
    luminance: Kernel,
    blur_rows: Kernel,
    blur_columns: Kernel,
    gradient: Kernel,
    histogram: Kernel,
    threshold: Kernel,
    overlay: Kernel,
}

impl Pipeline {
    /// The bytes of device memory that an image of this size needs, if they can be counted.
    pub fn device_bytes(width: u32, height: u32) -> u64 {
        let pixels = u64::from(width) * u64::from(height);
        // Two images of four bytes, three planes of one, one of two, and the counts.
        pixels * 13 + 257 * 4
    }

    /// Loads the kernels and allocates the memory for images of one size.
    pub fn new(context: &Context, width: u32, height: u32) -> CudaResult<Pipeline> {
        let pixels = width as usize * height as usize;
        Ok(Pipeline {
            input: PinnedBuffer::zeroed(context, pixels * 4)?,
            output: PinnedBuffer::zeroed(context, pixels * 4)?,
            kernels: Kernels::load(context)?,
            image: DeviceBuffer::zeroed(context, pixels * 4)?,
            gray: DeviceBuffer::zeroed(context, pixels)?,
            rows: DeviceBuffer::zeroed(context, pixels)?,
            smooth: DeviceBuffer::zeroed(context, pixels)?,
            edges: DeviceBuffer::zeroed(context, pixels)?,
            counts: DeviceBuffer::zeroed(context, 256)?,
            least: DeviceBuffer::zeroed(context, 1)?,
            drawn: DeviceBuffer::zeroed(context, pixels * 4)?,
            width,
            height,
        })
    }

    /// Submits one frame to the stream.
    pub fn submit(&mut self, stream: &Stream) -> CudaResult<()> {
        self.image.copy_from_pinned(&self.input, stream)?;
        self.counts.fill(0, stream)?;
        self.find_edges(stream)?;
        self.draw(stream)?;
        self.drawn.copy_to_pinned(&mut self.output, stream)
    }

    /// How steep the brightness of the smoothed image is at each pixel.
    fn find_edges(&mut self, stream: &Stream) -> CudaResult<()> {
        let (width, height) = (self.width as i32, self.height as i32);
        let line = Dim3::x((self.width * self.height).div_ceil(LINE));
        let tiles = Dim3::from((self.width.div_ceil(TILE.0), self.height.div_ceil(TILE.1)));
        let Kernels { luminance, blur_rows, blur_columns, gradient, .. } = &self.kernels;

        let launch = luminance.launch_builder(line, LINE);
        let launch = launch.arg(&self.image).arg_mut(&mut self.gray).value(width * height);
        // SAFETY: the kernel reads an image and writes a plane of so many pixels.
        unsafe { launch.launch(stream) }?;

        let launch = blur_rows.launch_builder(tiles, TILE);
        let launch = launch.arg(&self.gray).arg_mut(&mut self.rows).value(width).value(height);
        // SAFETY: the kernel reads and writes planes of this width and height.
        unsafe { launch.launch(stream) }?;

        let launch = blur_columns.launch_builder(tiles, TILE);
        let launch = launch.arg(&self.rows).arg_mut(&mut self.smooth).value(width).value(height);
        // SAFETY: the kernel reads and writes planes of this width and height.
        unsafe { launch.launch(stream) }?;

        let launch = gradient.launch_builder(tiles, TILE);
        let launch = launch.arg(&self.smooth).arg_mut(&mut self.edges).value(width).value(height);
        // SAFETY: the kernel reads and writes planes of this width and height.
        unsafe { launch.launch(stream) }
    }

    /// Draws the steepest of them over the image.
    fn draw(&mut self, stream: &Stream) -> CudaResult<()> {
        let pixels = self.width * self.height;
        let blocks = pixels.div_ceil(LINE);
        let Kernels { histogram, threshold, overlay, .. } = &self.kernels;

        let launch = histogram.launch_builder(blocks.min(COUNTERS), LINE);
        let launch = launch.arg(&self.edges).arg_mut(&mut self.counts).value(pixels as i32);
        // SAFETY: the kernel reads a plane of so many pixels and adds to 256 counts.
        unsafe { launch.launch(stream) }?;

        let launch = threshold.launch_builder(1, LINE);
        let launch = launch.arg(&self.counts).arg_mut(&mut self.least).value(pixels / EDGES);
        // SAFETY: the kernel reads 256 counts and writes one word.
        unsafe { launch.launch(stream) }?;

        let launch = overlay.launch_builder(blocks, LINE);
        let launch = launch.arg(&self.image).arg(&self.edges).arg(&self.least);
        let launch = launch.arg_mut(&mut self.drawn).value(pixels as i32);
        // SAFETY: the kernel reads an image, a plane and one word, and writes an image of so many
        // pixels.
        unsafe { launch.launch(stream) }
    }
}

impl Kernels {
    fn load(context: &Context) -> CudaResult<Kernels> {
        let module = context.load_ptx(PTX)?;
        Ok(Kernels {
            luminance: module.kernel("luminance")?,
            blur_rows: module.kernel("blur_rows")?,
            blur_columns: module.kernel("blur_columns")?,
            gradient: module.kernel("gradient")?,
            histogram: module.kernel("histogram")?,
            threshold: module.kernel("threshold")?,
            overlay: module.kernel("overlay")?,
        })
    }
}
