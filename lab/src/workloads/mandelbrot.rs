//! *mandelbrot*: a square picture of Mandelbrot's set, cut into parts of equally many points, a task for
//! each.
//!
//! The parts differ much in work: a point of the set takes all iterations, one far away takes two. The
//! picture is symmetric about the real axis, to the last bit, so that every point is checked against
//! its mirror image; and some are computed again.
//!
//! With `out=FILE` the picture is written in the format PGM: the set is black, and the sooner a point escapes
//! the brighter it is.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use harness::Pending;

use crate::kit::actors::{ActorProgram, MOST_ACTORS, long_parts, per_step};
use crate::prelude::*;

/// Points that are computed again, at most.
const SAMPLE: usize = 1000;

/// The program, sized.
#[derive(Clone)]
pub(crate) struct Plan {
    plane: Plane,
    parts: usize,
    out: Option<PathBuf>,
}

/// The points of the picture, row by row: real parts from -2 to 1, imaginary ones from 1.5 to -1.5.
#[derive(Clone, Copy)]
struct Plane {
    side: usize,
    limit: u16,
}

impl Plane {
    fn points(self) -> usize {
        self.side * self.side
    }

    /// After how many iterations a point is known not to belong to the set; the limit, if it is not known
    /// then.
    fn escape(self, point: usize) -> u16 {
        let side = self.side as i64;
        let (row, column) = (point / self.side, point % self.side);
        // In half points from the middle: rows that mirror each other differ in the sign alone.
        let real = 1.5 * (2 * column as i64 + 1 - side) as f64 / side as f64 - 0.5;
        let imaginary = 1.5 * (side - 1 - 2 * row as i64) as f64 / side as f64;
        let (mut x, mut y) = (0.0, 0.0);
        for iteration in 0..self.limit {
            let (xx, yy): (f64, f64) = (x * x, y * y);
            if xx + yy > 4.0 {
                return iteration;
            }
            y = 2.0 * x * y + imaginary;
            x = xx - yy + real;
        }
        self.limit
    }

    /// The picture as PGM; each halving of the time to escape makes a point brighter by the same amount.
    fn drawn(self, escapes: &[u16]) -> Vec<u8> {
        let mut picture = format!("P5\n{0} {0}\n255\n", self.side).into_bytes();
        picture.extend(escapes.iter().map(|escape| {
            let halvings = u16::BITS - escape.leading_zeros();
            if *escape == self.limit {
                0
            } else {
                (255 - 14 * halvings) as u8
            }
        }));
        picture
    }
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "mandelbrot",
        about: "a picture of Mandelbrot's set, cut into parts (out=FILE writes it, as PGM)",
        unit: "points",
        params: params! {
            count("2000", "points on a side", 20_000);
            Param::number("parts", "100", 1, MOST_ACTORS, "tasks among which the points are shared out");
            Param::number("iterations", "5000", 1, u16::MAX as u64,
                "after which a point counts as one of the set");
            Param::file("out", "none", "where the picture is written");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "40"), ("parts", "7"), ("iterations", "200")],
        ..About::NEW
    };

    /// The picture.
    type Counted = Vec<u16>;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            plane: Plane {
                side: params.number("n") as usize,
                limit: params.number("iterations") as u16,
            },
            parts: params.number("parts") as usize,
            out: params.file("out"),
        }
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        long_parts(request)
    }

    fn warm_up(&self) -> Self {
        let limit = (self.plane.limit / 10).max(1);
        Self {
            plane: Plane { limit, ..self.plane },
            parts: self.parts,
            out: None,
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Vec<u16>) {
        let plane = self.plane;
        let start = Instant::now();
        let parts: Vec<_> = (0..self.parts)
            .map(|part| {
                let points = part * plane.points() / self.parts..(part + 1) * plane.points() / self.parts;
                tasks.spawn_job(move || points.map(|point| plane.escape(point)).collect::<Vec<_>>())
            })
            .collect();
        let mut picture = Vec::with_capacity(plane.points());
        for part in parts {
            picture.append(&mut part.await);
        }
        (start.elapsed(), picture)
    }

    fn outcome(&self, elapsed: Duration, picture: Vec<u16>) -> Result<Outcome, LabError> {
        let plane = self.plane;
        check("points", &picture.len(), &plane.points())?;
        let rows = || picture.chunks(plane.side);
        let askew = rows()
            .zip(rows().rev())
            .filter(|(row, mirrored)| row != mirrored)
            .count();
        check("rows unlike their mirror image", &askew, &0)?;
        for point in (0..plane.points()).step_by(plane.points().div_ceil(SAMPLE)) {
            check("iterations at a point", &picture[point], &plane.escape(point))?;
        }
        if let Some(path) = &self.out {
            Pending::open("write the picture", path)?.finish(plane.drawn(&picture))?;
        }
        let iterations: u64 = picture.iter().copied().map(u64::from).sum();
        Ok(per_step(plane.points() as u64, elapsed, "ns_per_point")
            .with_measure("iterations", iterations as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_they_should_be() {
        let plane = Plane { side: 3, limit: 500 };
        // The middle row is the real axis at -1.5, -0.5 and 0.5: the first two belong to the set.
        assert_eq!([3, 4].map(|point| plane.escape(point)), [500, 500]);
        assert_eq!(plane.escape(5), 5);
        // All rows above lie at i: with -1.5 and with 0.5 beside it, it is far outside.
        assert!([0, 2, 6, 8].iter().all(|point| plane.escape(*point) < 4));
    }

    #[test]
    fn a_picture_has_a_head_and_a_byte_for_each_point() {
        let plane = Plane { side: 2, limit: 100 };
        let picture = plane.drawn(&[0, 1, 99, 100]);
        assert_eq!(picture, b"P5\n2 2\n255\n\xff\xf1\x9d\x00");
    }
}
