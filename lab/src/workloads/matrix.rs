//! *matrix*: the product of two square matrices, some rows of it to each task.
//!
//! As plain as it can be, a row by a column at a time, and not made for caches: what is measured is whether
//! all workers have their share until the end. All entries are small whole numbers, so that the sums are
//! exact. The product is checked with a vector: (A B) v = A (B v).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, MOST_ACTORS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    side: usize,
    tasks: usize,
}

/// A square matrix, row by row.
#[derive(Clone)]
struct Square {
    side: usize,
    cells: Vec<f64>,
}

impl Square {
    /// Small whole numbers; which ones depends on the factors.
    fn of(side: usize, by_row: usize, by_column: usize) -> Self {
        let cell = |at: usize| ((at / side * by_row + at % side * by_column) % 10) as f64;
        Self {
            side,
            cells: (0..side * side).map(cell).collect(),
        }
    }

    /// The left factor.
    fn left(side: usize) -> Self {
        Self::of(side, 7, 3)
    }

    /// The right factor.
    fn right(side: usize) -> Self {
        Self::of(side, 1, 9)
    }

    /// One row of the product with another.
    fn row_times<'a>(&'a self, row: usize, other: &'a Self) -> impl Iterator<Item = f64> + 'a {
        let side = self.side;
        let row = &self.cells[row * side..][..side];
        (0..side).map(move |column| {
            let below = other.cells[column..].iter().step_by(side);
            row.iter().zip(below).map(|(a, b)| a * b).sum()
        })
    }

    /// The product with a vector.
    fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.cells
            .chunks(self.side)
            .map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
            .collect()
    }
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "matrix",
        about: "the product of two square matrices, some rows to each task",
        unit: "multiplications",
        params: params! {
            count("600", "rows and columns", 4096);
            Param::number("tasks", "100", 1, MOST_ACTORS, "tasks among which the rows are shared out");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "30"), ("tasks", "7")],
        ..About::NEW
    };

    /// The cells of the product.
    type Counted = Vec<f64>;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            side: params.number("n") as usize,
            tasks: params.number("tasks") as usize,
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            side: (self.side / 4).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Vec<f64>) {
        let side = self.side;
        let factors = Arc::new((Square::left(side), Square::right(side)));
        let start = Instant::now();
        let parts: Vec<_> = (0..self.tasks)
            .map(|part| {
                let rows = part * side / self.tasks..(part + 1) * side / self.tasks;
                let factors = Arc::clone(&factors);
                tasks.spawn_job(move || {
                    let (left, right) = &*factors;
                    rows.flat_map(|row| left.row_times(row, right))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut product = Vec::with_capacity(side * side);
        for part in parts {
            product.append(&mut part.await);
        }
        (start.elapsed(), product)
    }

    fn outcome(&self, elapsed: Duration, cells: Vec<f64>) -> Result<Outcome, LabError> {
        let side = self.side;
        check("cells", &cells.len(), &(side * side))?;
        let sum: f64 = cells.iter().sum();
        let product = Square { side, cells };
        let vector: Vec<f64> = (0..side).map(|at| (at % 13 + 1) as f64).collect();
        let expected = Square::left(side).times(&Square::right(side).times(&vector));
        check(
            "the product of all, and a vector",
            &product.times(&vector),
            &expected,
        )?;
        let multiplications = (side as u64).pow(3);
        Ok(per_step(multiplications, elapsed, "ns_per_multiplication").with_measure("sum", sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_cell_is_found() {
        let plan = Plan { side: 5, tasks: 2 };
        let (left, right) = (Square::left(5), Square::right(5));
        let mut cells: Vec<f64> = (0..5).flat_map(|row| left.row_times(row, &right)).collect();
        let by_hand: f64 = (0..5).map(|k| left.cells[5 + k] * right.cells[5 * k + 3]).sum();
        assert!((cells[8] - by_hand).abs() < 1e-9);
        plan.outcome(Duration::from_secs(1), cells.clone()).unwrap();
        cells[8] += 1.0;
        let error = plan
            .outcome(Duration::from_secs(1), cells)
            .unwrap_err()
            .to_string();
        assert!(error.contains("the product"), "{error}");
    }
}
