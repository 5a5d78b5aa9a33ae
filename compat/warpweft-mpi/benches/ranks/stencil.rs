//! A stencil in two dimensions: each cell becomes the mean of its neighbours. The rows are divided among the
//! ranks, which exchange the rows at their borders in each step.
//!
//! The rows inside are computed while the borders travel. `plain.c` has the same with blocking calls.

use crate::{meet, say};
use std::ops::Range;
use std::time::Instant;
use warpweft_mpi::{Comm, Request};

const UP: i32 = 1;
const DOWN: i32 = 2;
/// Rows between two looks at MPI: some 30 µs.
const ROWS: usize = 16;

/// The rows of one rank, with one more above and below that belong to its neighbours.
struct Grid {
    width: usize,
    rows: usize,
    cells: Vec<f64>,
    next: Vec<f64>,
}

impl Grid {
    /// The part of a grid that no rank holds whole: the cells begin with a pattern, and the rim is zero.
    fn part(width: usize, rows: Range<usize>) -> Self {
        let len = rows.len();
        let mut cells = vec![0.0; (len + 2) * width];
        for row in 0..len {
            for column in 1..width - 1 {
                cells[(row + 1) * width + column] = ((rows.start + row) * 31 + column * 17) as f64 % 101.0;
            }
        }
        Self {
            width,
            rows: len,
            next: vec![0.0; cells.len()],
            cells,
        }
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

/// Computes `steps` steps of a square with `width` rows. Returns the checksum of all ranks.
fn run(comm: &Comm, width: usize, steps: usize) -> u64 {
    let (rank, size) = (comm.rank(), comm.size());
    let at = |rank: usize| width * rank / size;
    let mut grid = Grid::part(width, at(rank)..at(rank + 1));
    let neighbours = [
        (rank.checked_sub(1), 0, 1, UP, DOWN),
        (
            (rank + 1 < size).then_some(rank + 1),
            grid.rows + 1,
            grid.rows,
            DOWN,
            UP,
        ),
    ];
    for _ in 0..steps {
        let mut received = Vec::new();
        let mut sent: Vec<Request<Vec<u8>>> = Vec::new();
        for (neighbour, halo, border, to, from) in neighbours {
            if let Some(neighbour) = neighbour {
                received.push((halo, comm.recv(neighbour, from, 8 * width)));
                sent.push(comm.send(neighbour, to, grid.row(border)));
            }
        }
        let mut row = 2;
        while row < grid.rows {
            let end = grid.rows.min(row + ROWS);
            grid.compute(row..end);
            row = end;
            warpweft::block_on(warpweft::yield_now());
        }
        for (halo, request) in received {
            let bytes = request.wait().expect("the neighbour sends it").bytes;
            grid.set_row(halo, &bytes);
        }
        grid.compute(1..2);
        if grid.rows > 1 {
            grid.compute(grid.rows..grid.rows + 1);
        }
        for request in sent {
            request.wait().expect("the neighbour receives it");
        }
        std::mem::swap(&mut grid.cells, &mut grid.next);
    }
    let own = grid.checksum().to_le_bytes().to_vec();
    let sums = comm.all_gather(own).wait().expect("all come");
    let (sums, _) = sums.as_chunks();
    sums.iter()
        .fold(0, |sum, own| sum.wrapping_add(u64::from_le_bytes(*own)))
}

/// What one rank computes alone, row by row.
fn expected(width: usize, steps: usize) -> u64 {
    let mut grid = Grid::part(width, 0..width);
    for _ in 0..steps {
        grid.compute(1..width + 1);
        std::mem::swap(&mut grid.cells, &mut grid.next);
    }
    grid.checksum()
}

pub(crate) fn stencil(comm: &Comm) {
    let small = run(comm, 203, 20);
    assert_eq!(small, expected(203, 20), "the ranks compute what one does");
    const WIDTH: usize = 2048;
    const STEPS: usize = 100;
    for _ in 0..3 {
        meet(comm);
        let begin = Instant::now();
        let sum = run(comm, WIDTH, STEPS);
        let ms = begin.elapsed().as_secs_f64() * 1e3 / STEPS as f64;
        say(
            comm,
            &format!(
                "stencil {WIDTH} x {WIDTH}, {} ranks: {ms:.3} ms a step, checksum {sum:016x}",
                comm.size()
            ),
        );
    }
}
