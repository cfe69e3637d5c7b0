//! `grapture demo`: what it draws, and what it says when it cannot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use image::{ImageFormat, Rgba, RgbaImage};

use crate::program::{Ended, grapture, run, simulated, without_driver};
use crate::reference;

const SHIPPED: &[u8] = include_bytes!("../../fixtures/demo.png");

/// A folder for one test's images.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with these bytes.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs the demo on an image; the result goes to `out.png`.
    fn demo(&self, mut program: Command, image: Option<&PathBuf>) -> Ended {
        program.arg("demo").args(image).args(["--frames", "2", "--output"]);
        run(program.arg(self.path("out.png")))
    }

    /// Asserts that the demo draws what the reference does.
    #[track_caller]
    fn draws(&self, program: Command, file: Option<&PathBuf>, image: &RgbaImage) {
        let ended = self.demo(program, file);
        ended.printed(&[
            "graph    10 nodes",
            "frames   2, and both ways gave the same bits in each",
        ]);
        let drawn = image::open(self.path("out.png")).unwrap().into_rgba8();
        let expected = reference::draw(image);
        assert_eq!(drawn.dimensions(), expected.dimensions());
        let differ = drawn.enumerate_pixels().zip(expected.pixels()).find(|((_, _, a), b)| a != b);
        assert_eq!(differ, None, "the first pixel that differs, and what it should be");
    }
}

fn shipped() -> RgbaImage {
    image::load_from_memory(SHIPPED).unwrap().into_rgba8()
}

/// An image with detail everywhere, and no two rows alike.
fn pattern(width: u32, height: u32) -> RgbaImage {
    RgbaImage::from_fn(width, height, |x, y| {
        let value = x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 3;
        let [r, g, b, a] = value.to_le_bytes();
        Rgba([r, if (x / 9 + y / 5) % 2 == 0 { g } else { 255 - g / 4 }, b, a])
    })
}

#[test]
fn sim_the_shipped_image_is_drawn_as_the_reference_draws_it() {
    Folder::new().draws(simulated(), None, &shipped());
}

#[test]
fn gpu_the_shipped_image_is_drawn_as_the_reference_draws_it() {
    Folder::new().draws(grapture(), None, &shipped());
}

#[test]
fn sim_images_of_every_odd_size_are_drawn() {
    odd_sizes(simulated);
}

#[test]
fn gpu_images_of_every_odd_size_are_drawn() {
    odd_sizes(grapture);
}

/// Sizes around those of the blocks, and smaller than the filters.
fn odd_sizes(program: impl Fn() -> Command) {
    for (width, height) in [(1, 1), (2, 1), (1, 3), (5, 2), (31, 9), (33, 7), (257, 1), (32, 8)] {
        let folder = Folder::new();
        let image = pattern(width, height);
        let path = folder.path("in.png");
        image.save(&path).unwrap();
        folder.draws(program(), Some(&path), &image);
    }
}

#[test]
fn sim_a_jpeg_is_read_whatever_its_name_says() {
    let folder = Folder::new();
    let path = folder.path("in.png");
    let image = image::DynamicImage::from(pattern(40, 30)).into_rgb8();
    image.save_with_format(&path, ImageFormat::Jpeg).unwrap();
    let read = image::ImageReader::open(&path).unwrap().with_guessed_format().unwrap();
    folder.draws(simulated(), Some(&path), &read.decode().unwrap().into_rgba8());
}

#[test]
fn sim_the_graph_is_written_beside_the_image() {
    let folder = Folder::new();
    let path = folder.path("in.png");
    pattern(8, 8).save(&path).unwrap();
    folder.demo(simulated(), Some(&path)).printed(&["out.png", "out.dot"]);
    let dot = fs::read_to_string(folder.path("out.dot")).unwrap();
    assert!(dot.starts_with("digraph"), "{dot}");
    assert_eq!(dot.matches("->").count(), 9, "ten operations of one stream are a chain:\n{dot}");
}

#[test]
fn sim_without_a_driver_the_simulated_one_is_used_and_the_reason_is_said() {
    let folder = Folder::new();
    let path = folder.path("in.png");
    pattern(8, 8).save(&path).unwrap();
    let ended = folder.demo(without_driver(folder.0.path()), Some(&path));
    ended.printed(&[
        "because: no CUDA driver could be loaded: tried libcuda.so.1: ",
        "file too short",
    ]);
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new();
    let path = folder.path("none.png");
    let message = format!("cannot read {}: there is no such file", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);
}

#[test]
fn a_file_that_is_no_image_is_named() {
    let folder = Folder::new();
    let path = folder.file("text.png", "This is not an image.");
    let message = format!("cannot read {}: it is neither PNG nor JPEG", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);
}

#[test]
fn an_empty_file_is_named() {
    let folder = Folder::new();
    let path = folder.file("empty.png", "");
    let message = format!("cannot read {}: the file is empty", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);
}

#[test]
fn a_folder_is_no_image() {
    let folder = Folder::new();
    let path = folder.0.path().to_path_buf();
    let message = format!("cannot read {}: it is a folder", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);
}

#[test]
fn a_broken_image_is_named_with_its_fault() {
    let folder = Folder::new();
    let path = folder.file("cut.png", &SHIPPED[..SHIPPED.len() / 2]);
    let message = format!("cannot read {}: the file ends too early", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);

    let mut damaged = SHIPPED.to_vec();
    for byte in &mut damaged[4000..4100] {
        *byte ^= 0x5a;
    }
    let path = folder.file("damaged.png", damaged);
    let ended = folder.demo(simulated(), Some(&path));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.errors.starts_with(&format!("grapture: cannot read {}: ", path.display())));
}

#[test]
fn an_image_that_no_memory_holds_is_refused_by_its_header() {
    let folder = Folder::new();
    // The size stands in the first chunk, behind which the checksum is made good again.
    let mut huge = SHIPPED.to_vec();
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let sum = crc32(&huge[12..29]);
    huge[29..33].copy_from_slice(&sum.to_be_bytes());
    let path = folder.file("huge.png", huge);
    let message =
        format!("cannot read {}: it needs more memory than an image may have here", path.display());
    folder.demo(simulated(), Some(&path)).cannot(&message);
}

/// The checksum of a PNG's chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[test]
fn sim_a_device_that_is_not_there_is_named() {
    let ended = run(simulated().args(["demo", "--device", "7"]));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.errors.starts_with("grapture: cannot use device 7: "), "{ended:?}");
}

#[test]
fn a_driver_that_was_asked_for_is_never_replaced() {
    let path = "/nowhere/libcuda.so.1";
    let ended = run(grapture().env("GRAPTURE_DRIVER", path).arg("demo"));
    ended.cannot(&format!(
        "cannot use the driver that GRAPTURE_DRIVER={path} names: no CUDA driver could be loaded: \
         tried {path}: cannot open shared object file: No such file or directory"
    ));
}

#[test]
fn sim_an_output_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let path = folder.path("in.png");
    pattern(4, 4).save(&path).unwrap();
    let demo = |output: PathBuf| {
        let mut program = simulated();
        run(program.arg("demo").arg(&path).args(["--frames", "1", "--output"]).arg(output))
    };
    let output = folder.path("none/out.png");
    let message = "its folder is not there";
    demo(output.clone()).cannot(&format!("cannot write {}: {message}", output.display()));
    let output = folder.path("out.xyz");
    let message = "its name ends neither in .png nor in .jpg";
    demo(output.clone()).cannot(&format!("cannot write {}: {message}", output.display()));
}

#[test]
fn no_frames_are_refused() {
    let ended = run(simulated().args(["demo", "--frames", "0"]));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.errors.contains("0 is not in 1..=1000000"), "{ended:?}");
}
