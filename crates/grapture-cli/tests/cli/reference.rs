//! The pipeline of the demo on the CPU, written from its description and not from its kernels.

use image::{Rgba, RgbaImage};

/// What an edge is painted with.
const INK: [u32; 3] = [255, 96, 16];

/// A plane of values, one for each pixel, that repeats its border.
struct Plane {
    width: i64,
    height: i64,
    values: Vec<u32>,
}

impl Plane {
    fn of(image: &RgbaImage, value: impl Fn(&Rgba<u8>) -> u32) -> Plane {
        let values = image.pixels().map(value).collect();
        Plane { width: image.width().into(), height: image.height().into(), values }
    }

    fn at(&self, x: i64, y: i64) -> u32 {
        let (x, y) = (x.clamp(0, self.width - 1), y.clamp(0, self.height - 1));
        self.values[usize::try_from(y * self.width + x).unwrap()]
    }

    fn map(&self, value: impl Fn(i64, i64) -> u32) -> Plane {
        let places = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        let values = places.map(|(x, y)| value(x, y)).collect();
        Plane { width: self.width, height: self.height, values }
    }
}

/// What the demo writes for an image.
pub fn draw(image: &RgbaImage) -> RgbaImage {
    let edges = edges(image);
    let least = least_steepness(&edges, image.width() * image.height() / 12);
    let mut drawn = image.clone();
    for (pixel, edge) in drawn.pixels_mut().zip(&edges.values) {
        let share = if *edge >= least { (edge * 2).min(255) } else { 0 };
        for (channel, ink) in pixel.0.iter_mut().zip(INK) {
            let paper = u32::from(*channel) - u32::from(*channel) / 4;
            *channel = u8::try_from((paper * (255 - share) + ink * share + 127) / 255).unwrap();
        }
    }
    drawn
}

/// Brightness, smoothed by the binomial filter of five, and its steepness.
fn edges(image: &RgbaImage) -> Plane {
    let gray = Plane::of(image, |Rgba([r, g, b, _])| {
        (77 * u32::from(*r) + 150 * u32::from(*g) + 29 * u32::from(*b) + 128) / 256
    });
    let weights = [(-2, 1), (-1, 4), (0, 6), (1, 4), (2, 1)];
    let rows = gray.map(|x, y| weights.iter().map(|(d, w)| w * gray.at(x + d, y)).sum());
    let smooth = rows
        .map(|x, y| (weights.iter().map(|(d, w)| w * rows.at(x, y + d)).sum::<u32>() + 128) / 256);
    smooth.map(|x, y| {
        let at = |dx, dy| i64::from(smooth.at(x + dx, y + dy));
        let side = |d| at(d, -1) + 2 * at(d, 0) + at(d, 1);
        let line = |d| at(-1, d) + 2 * at(0, d) + at(1, d);
        let steep = ((side(1) - side(-1)).abs() + (line(1) - line(-1)).abs()) / 2;
        u32::try_from(steep.min(255)).unwrap()
    })
}

/// The least steepness that at most `budget` pixels reach, or the greatest there is.
fn least_steepness(edges: &Plane, budget: u32) -> u32 {
    let reach = |least| edges.values.iter().filter(|edge| **edge >= least).count();
    (0..256).find(|least| reach(*least) <= budget as usize).unwrap_or(255)
}
