//! *stencil*: a grid in two dimensions, of which each cell becomes the mean of its neighbours. The rows are
//! divided among the ranks, which exchange the rows at their borders in each step.
//!
//! The rows inside are computed while the borders travel. A contestant whose calls block waits for these
//! first.

use crate::idioms::{Calls, Futures};
use crate::work::numbers;
use crate::workload::{Figure, Setting, Workload};
use std::ops::Range;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct Stencil {
    steps: usize,
}

const WIDTH: usize = 2048;
/// The size that each rank also computes alone, to compare.
const SMALL: usize = 203;
const SMALL_STEPS: usize = 20;
const UP: i32 = 1;
const DOWN: i32 = 2;
/// Rows between two looks at MPI: some 30 µs.
const ROWS: usize = 16;

impl Workload for Stencil {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "stencil",
        about: "2048 × 2048 cells, of which each becomes the mean of its neighbours; the amount is the number \
                of steps",
        amount: 100,
        smoke: 1,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self { steps: amount }
    }

    fn lacks(&self, _: &str, _: usize, _: usize) -> Option<&'static str> {
        None
    }

    async fn futures<F: Futures>(self, on: F) -> Vec<Figure> {
        let small = by_futures(&on, SMALL, SMALL_STEPS).await;
        assert_eq!(
            small,
            alone(SMALL, SMALL_STEPS),
            "the ranks compute what one does"
        );
        on.barrier().await;
        let begin = Instant::now();
        let sum = by_futures(&on, WIDTH, self.steps).await;
        self.figures(begin.elapsed(), sum)
    }

    fn calls<C: Calls>(self, on: &C) -> Vec<Figure> {
        let small = by_calls(on, SMALL, SMALL_STEPS);
        assert_eq!(
            small,
            alone(SMALL, SMALL_STEPS),
            "the ranks compute what one does"
        );
        on.barrier();
        let begin = Instant::now();
        let sum = by_calls(on, WIDTH, self.steps);
        self.figures(begin.elapsed(), sum)
    }
}

impl Stencil {
    fn figures(&self, took: Duration, sum: u64) -> Vec<Figure> {
        let ms = took.as_secs_f64() * 1e3 / self.steps as f64;
        vec![Figure::less("step", ms, "ms").extra(format!("checksum {sum:016x}"))]
    }
}

/// A border with a neighbour: its rank, the row that it sends, the row that goes to it, and their tags.
struct Border {
    rank: usize,
    halo: usize,
    own: usize,
    to: i32,
    from: i32,
}

/// The rows of one rank, with one more above and below that belong to its neighbours.
struct Grid {
    width: usize,
    rows: usize,
    cells: Vec<f64>,
    next: Vec<f64>,
}

impl Grid {
    /// The part of a rank. The cells begin with a pattern, and the rim is zero.
    fn part(width: usize, rank: usize, size: usize) -> Self {
        let at = |rank: usize| width * rank / size;
        let (first, len) = (at(rank), at(rank + 1) - at(rank));
        let mut cells = vec![0.0; (len + 2) * width];
        for row in 0..len {
            for column in 1..width - 1 {
                cells[(row + 1) * width + column] = ((first + row) * 31 + column * 17) as f64 % 101.0;
            }
        }
        Self {
            width,
            rows: len,
            next: vec![0.0; cells.len()],
            cells,
        }
    }

    fn borders(&self, rank: usize, size: usize) -> Vec<Border> {
        let above = rank.checked_sub(1).map(|rank| Border {
            rank,
            halo: 0,
            own: 1,
            to: UP,
            from: DOWN,
        });
        let below = (rank + 1 < size).then_some(Border {
            rank: rank + 1,
            halo: self.rows + 1,
            own: self.rows,
            to: DOWN,
            from: UP,
        });
        above.into_iter().chain(below).collect()
    }

    fn compute(&mut self, rows: Range<usize>) {
        let width = self.width;
        for row in rows {
            let at = row * width;
            let (above, own, below) = (
                &self.cells[at - width..at],
                &self.cells[at..at + width],
                &self.cells[at + width..at + 2 * width],
            );
            let next = &mut self.next[at..at + width];
            for column in 1..width - 1 {
                next[column] = 0.25 * (above[column] + below[column] + own[column - 1] + own[column + 1]);
            }
        }
    }

    /// The number of parts into which the rows that need no neighbour are divided.
    fn inner_parts(&self) -> usize {
        self.rows.saturating_sub(2).div_ceil(ROWS)
    }

    fn compute_inner(&mut self, part: usize) {
        let first = 2 + part * ROWS;
        self.compute(first..self.rows.min(first + ROWS));
    }

    /// Computes the rows at the borders, and ends the step.
    fn compute_borders(&mut self) {
        self.compute(1..2);
        if self.rows > 1 {
            self.compute(self.rows..self.rows + 1);
        }
        std::mem::swap(&mut self.cells, &mut self.next);
    }

    fn row(&self, row: usize) -> Vec<u8> {
        let cells = &self.cells[row * self.width..(row + 1) * self.width];
        cells.iter().flat_map(|cell| cell.to_le_bytes()).collect()
    }

    fn set_row(&mut self, row: usize, bytes: &[u8]) {
        let cells = &mut self.cells[row * self.width..(row + 1) * self.width];
        let (values, _) = bytes.as_chunks();
        for (cell, value) in cells.iter_mut().zip(values) {
            *cell = f64::from_le_bytes(*value);
        }
    }

    /// A sum that does not depend on the order, nor on the number of ranks.
    fn checksum(&self) -> u64 {
        let own = &self.cells[self.width..(self.rows + 1) * self.width];
        own.iter()
            .fold(0, |sum: u64, cell| sum.wrapping_add(cell.to_bits()))
    }
}

/// Computes the steps of a square. Returns the checksum of all ranks.
async fn by_futures<F: Futures>(on: &F, width: usize, steps: usize) -> u64 {
    let mut grid = Grid::part(width, on.rank(), on.size());
    let borders = grid.borders(on.rank(), on.size());
    for _ in 0..steps {
        let (mut received, mut sent) = (Vec::new(), Vec::new());
        for border in &borders {
            received.push(on.recv(border.rank, border.from, vec![0; 8 * width]));
            sent.push(on.send(border.rank, border.to, grid.row(border.own)));
        }
        for part in 0..grid.inner_parts() {
            grid.compute_inner(part);
            on.yield_now().await;
        }
        for (border, row) in borders.iter().zip(received) {
            grid.set_row(border.halo, &row.await);
        }
        grid.compute_borders();
        for sent in sent {
            sent.await;
        }
    }
    sum(&on.all_gather(grid.checksum().to_le_bytes().to_vec()).await)
}

/// The same.
fn by_calls<C: Calls>(on: &C, width: usize, steps: usize) -> u64 {
    let mut grid = Grid::part(width, on.rank(), on.size());
    let borders = grid.borders(on.rank(), on.size());
    for _ in 0..steps {
        let mut requests = Vec::new();
        for border in &borders {
            requests.push(on.post_recv(border.rank, border.from, vec![0; 8 * width]));
        }
        for border in &borders {
            requests.push(on.post_send(border.rank, border.to, grid.row(border.own)));
        }
        let parts = grid.inner_parts();
        on.meanwhile(&mut requests, parts, &mut |part| grid.compute_inner(part));
        let sent = requests.split_off(borders.len());
        for (border, row) in borders.iter().zip(requests) {
            grid.set_row(border.halo, &on.wait(row));
        }
        grid.compute_borders();
        for sent in sent {
            on.wait(sent);
        }
    }
    sum(&on.wait(on.post_all_gather(grid.checksum().to_le_bytes().to_vec())))
}

fn sum(gathered: &[u8]) -> u64 {
    numbers(gathered).into_iter().fold(0, u64::wrapping_add)
}

/// What one rank computes alone.
fn alone(width: usize, steps: usize) -> u64 {
    let mut grid = Grid::part(width, 0, 1);
    for _ in 0..steps {
        grid.compute(1..width + 1);
        std::mem::swap(&mut grid.cells, &mut grid.next);
    }
    grid.checksum()
}

#[cfg(test)]
mod tests {
    use super::{Grid, alone};

    /// Computes with several parts in one memory.
    fn in_parts(width: usize, steps: usize, parts: usize) -> u64 {
        let mut grids: Vec<Grid> = (0..parts).map(|part| Grid::part(width, part, parts)).collect();
        for _ in 0..steps {
            for part in 0..parts {
                for border in grids[part].borders(part, parts) {
                    let other = grids[border.rank].borders(border.rank, parts);
                    let back = other.iter().find(|back| back.rank == part).expect("both ways");
                    assert_eq!(back.to, border.from, "the tags agree");
                    let row = grids[border.rank].row(back.own);
                    grids[part].set_row(border.halo, &row);
                }
            }
            for grid in &mut grids {
                (0..grid.inner_parts()).for_each(|part| grid.compute_inner(part));
                grid.compute_borders();
            }
        }
        grids
            .iter()
            .fold(0, |sum: u64, grid| sum.wrapping_add(grid.checksum()))
    }

    #[test]
    fn three_parts_compute_what_one_does() {
        for parts in [1, 2, 3, 50] {
            assert_eq!(in_parts(50, 12, parts), alone(50, 12), "{parts} parts");
        }
        assert_ne!(alone(50, 12), alone(50, 13));
    }
}
