//! Draws, blurs and writes a picture by fork-join: `cargo run --release --bin image -- 640 out.pgm`.
//!
//! The arguments are the number of rows and the file. Without a file the program only counts pixels.

use warpweft::{Runtime, join, par_chunks_mut};

/// A band of this many rows is not divided any more.
const BAND: usize = 8;

/// Calls `draw` for each row, with its number. The halves of a band may run on two workers.
fn rows(image: &mut [u8], width: usize, first: usize, draw: &(impl Fn(usize, &mut [u8]) + Sync)) {
    let height = image.len() / width;
    if height <= BAND {
        let rows = image.chunks_exact_mut(width).enumerate();
        rows.for_each(|(n, row)| draw(first + n, row));
        return;
    }
    let (top, bottom) = image.split_at_mut(height / 2 * width);
    join(
        || rows(top, width, first, draw),
        || rows(bottom, width, first + height / 2, draw),
    );
}

/// The Mandelbrot set: dark where the sequence stays small.
fn mandelbrot(x: f64, y: f64) -> u8 {
    let (mut a, mut b) = (0.0, 0.0);
    for step in 0..255 {
        (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
        if a * a + b * b > 4.0 {
            return 255 - step;
        }
    }
    0
}

/// Each pixel becomes the mean of itself and its neighbours in the row.
fn blur(row: &mut [u8]) {
    let mut left = row[0];
    for n in 0..row.len() {
        let right = row[(n + 1).min(row.len() - 1)];
        let mean = (u16::from(left) + u16::from(row[n]) + u16::from(right)) / 3;
        left = row[n];
        row[n] = mean.to_le_bytes()[0];
    }
}

fn picture(width: usize, height: usize) -> Vec<u8> {
    let mut image = vec![0; width * height];
    rows(&mut image, width, 0, &|y, row| {
        for (x, pixel) in row.iter_mut().enumerate() {
            let (x, y) = (x as f64 / width as f64, y as f64 / height as f64);
            *pixel = mandelbrot(3.0 * x - 2.0, 2.0 * y - 1.0);
        }
    });
    par_chunks_mut(&mut image, BAND * width, |_, band| {
        band.chunks_exact_mut(width).for_each(blur);
    });
    image
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let height: usize = std::env::args().nth(1).map_or(Ok(480), |text| text.parse())?;
    let width = height * 3 / 2;
    let image = Runtime::builder().build()?.install(|_| picture(width, height))?;
    let dark = image.iter().filter(|&&pixel| pixel == 0).count();
    println!(
        "{width} x {height} pixels, {} % in the set",
        dark * 100 / image.len().max(1)
    );
    if let Some(path) = std::env::args().nth(2) {
        let header = format!("P5 {width} {height} 255\n").into_bytes();
        std::fs::write(path, [header, image].concat())?;
    }
    Ok(())
}
