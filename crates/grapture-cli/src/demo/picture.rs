//! The image: read, moved a little for each frame, and written.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageError, ImageFormat, ImageReader, RgbaImage};

use crate::failure::Failure;

/// The image that is used when none is given.
const SHIPPED: &[u8] = include_bytes!("../../fixtures/demo.png");

/// By how many rows the image moves from frame to frame.
const STEP: usize = 4;

/// An image in memory, four bytes for each pixel.
pub struct Picture {
    image: RgbaImage,
}

impl Picture {
    /// The image in a file, or the one that ships with the program.
    pub fn read(path: Option<&Path>) -> Result<Picture, Failure> {
        let (name, decoded) = match path {
            Some(path) => (path.display().to_string(), decode_file(path)),
            None => {
                let decoded = image::load_from_memory_with_format(SHIPPED, ImageFormat::Png);
                ("the image that ships with grapture".to_owned(), decoded.map_err(reason))
            }
        };
        let decoded = decoded.map_err(|why| Failure::cannot(format!("read {name}"), why))?;
        Ok(Picture { image: decoded.into_rgba8() })
    }

    /// Pixels in a row.
    pub fn width(&self) -> u32 {
        self.image.width()
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.image.height()
    }

    /// Writes the frame that is `remaining` frames before the last: the image, moved up, with what
    /// leaves at the top coming in at the bottom. The last frame is the image itself.
    pub fn frame(&self, remaining: usize, frame: &mut [u8]) {
        let pixels = self.image.as_raw();
        let row = self.image.width() as usize * 4;
        let rows = self.image.height() as usize;
        let start = (remaining * STEP % rows) * row;
        let (top, bottom) = pixels.split_at(start);
        let (first, second) = frame.split_at_mut(bottom.len());
        first.copy_from_slice(bottom);
        second.copy_from_slice(top);
    }

    /// Writes pixels of this image's size to a file.
    pub fn write_like(&self, pixels: Vec<u8>, output: &Output) -> Result<(), Failure> {
        let image = RgbaImage::from_raw(self.width(), self.height(), pixels)
            .ok_or_else(|| output.cannot("the pixels are not as many as the image has"))?;
        let saved = if output.format == ImageFormat::Jpeg {
            // A JPEG has no transparency.
            DynamicImage::from(image).into_rgb8().save_with_format(&output.path, output.format)
        } else {
            image.save_with_format(&output.path, output.format)
        };
        saved.map_err(|error| output.cannot(error))
    }
}

/// Where the result goes, checked before anything is computed.
pub struct Output {
    path: PathBuf,
    format: ImageFormat,
}

impl Output {
    /// A file whose name says its format, in a folder that is there.
    pub fn new(path: &Path) -> Result<Output, Failure> {
        let format = ImageFormat::from_path(path).ok();
        let format = format.filter(|f| [ImageFormat::Png, ImageFormat::Jpeg].contains(f));
        let output = Output { path: path.to_owned(), format: format.unwrap_or(ImageFormat::Png) };
        if format.is_none() {
            return Err(output.cannot("its name ends neither in .png nor in .jpg"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(output.cannot("its folder is not there"));
        }
        Ok(output)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn cannot(&self, reason: impl fmt::Display) -> Failure {
        Failure::cannot(format!("write {}", self.path.display()), reason)
    }
}

fn decode_file(path: &Path) -> Result<DynamicImage, String> {
    let file = path.metadata().map_err(|error| reason(error.into()))?;
    if file.is_dir() {
        return Err("it is a folder".to_owned());
    }
    if file.is_file() && file.len() == 0 {
        return Err("the file is empty".to_owned());
    }
    // The content says what it is; the name may lie.
    let reader = File::open(path).map(BufReader::new).map(ImageReader::new);
    let reader = reader.and_then(ImageReader::with_guessed_format);
    let reader = reader.map_err(|error| reason(error.into()))?;
    match reader.format() {
        Some(ImageFormat::Png | ImageFormat::Jpeg) => reader.decode().map_err(reason),
        _ => Err("it is neither PNG nor JPEG".to_owned()),
    }
}

/// Why an image cannot be read, in our words where they say more than those of the decoder.
fn reason(error: ImageError) -> String {
    match error {
        ImageError::IoError(io) if io.kind() == ErrorKind::NotFound => {
            "there is no such file".to_owned()
        }
        ImageError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            "the file ends too early".to_owned()
        }
        ImageError::IoError(io) => io.to_string(),
        ImageError::Limits(_) => "it needs more memory than an image may have here".to_owned(),
        other => other.to_string(),
    }
}
