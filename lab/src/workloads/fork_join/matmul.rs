//! *matmul*: the product of two square matrices of f64. The largest of the three dimensions is halved; rows
//! and columns of the product are two branches, halves of the inner dimension are one after the other.
//!
//! Matrices lie in memory as they are split, so that every block is one slice:
//!
//! ```text
//!  rows x cols  ──▶ both up to 64: row by row
//!               ──▶ else the longer side is halved: the first half, then the second, each in this way
//! ```
//!
//! Where both sides are equally long, the left factor and the product are halved by rows and the right factor
//! by columns. That is the order in which the recursion splits them: of three dimensions it takes the
//! largest, rows before columns before the inner one.
//!
//! All entries are small whole numbers, so every sum is exact and does not depend on the order.

use fastrand::Rng;

use super::Timed;
use crate::prelude::*;

/// Blocks with no side longer than this are not split.
const BASE: usize = 64;

/// Cells that lie one after the other and can be cut.
trait Cells: Sized {
    fn cut(self, at: usize) -> (Self, Self);
}

impl Cells for &[f64] {
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Cells for &mut [f64] {
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// A block of a matrix.
#[derive(Clone, Copy)]
struct Block<C> {
    rows: usize,
    cols: usize,
    cells: C,
}

impl<C: Cells> Block<C> {
    /// The upper and the lower half.
    fn by_rows(self) -> (Self, Self) {
        let Self { rows, cols, cells } = self;
        let upper = rows / 2;
        let (first, second) = cells.cut(upper * cols);
        let block = |rows, cells| Self { rows, cols, cells };
        (block(upper, first), block(rows - upper, second))
    }

    /// The left and the right half.
    fn by_cols(self) -> (Self, Self) {
        let Self { rows, cols, cells } = self;
        let left = cols / 2;
        let (first, second) = cells.cut(left * rows);
        let block = |cols, cells| Self { rows, cols, cells };
        (block(left, first), block(cols - left, second))
    }
}

/// Adds the product of `a` and `b` to `c`.
struct Product<'a> {
    a: Block<&'a [f64]>,
    b: Block<&'a [f64]>,
    c: Block<&'a mut [f64]>,
}

impl Branch for Product<'_> {
    type Out = ();

    fn run<F: Fork>(self, mut cx: F) {
        self.add(&mut cx);
    }
}

impl Product<'_> {
    fn add<F: Fork>(self, cx: &mut F) {
        let Self { a, b, c } = self;
        let (rows, cols, inner) = (c.rows, c.cols, a.cols);
        if rows.max(cols).max(inner) <= BASE {
            multiply_add(a, b, c.cells);
        } else if rows >= cols && rows >= inner {
            let ((upper, lower), (c_upper, c_lower)) = (a.by_rows(), c.by_rows());
            cx.join(
                Product {
                    a: upper,
                    b,
                    c: c_upper,
                },
                Product {
                    a: lower,
                    b,
                    c: c_lower,
                },
            );
        } else if cols >= inner {
            let ((left, right), (c_left, c_right)) = (b.by_cols(), c.by_cols());
            cx.join(
                Product {
                    a,
                    b: left,
                    c: c_left,
                },
                Product {
                    a,
                    b: right,
                    c: c_right,
                },
            );
        } else {
            let ((left, right), (upper, lower)) = (a.by_cols(), b.by_rows());
            let first = Product {
                a: left,
                b: upper,
                c: Block {
                    rows,
                    cols,
                    cells: &mut *c.cells,
                },
            };
            first.add(cx);
            Product {
                a: right,
                b: lower,
                c,
            }
            .add(cx);
        }
    }
}

/// Adds the product of blocks that are not split; their rows, and those of `c`, lie one after the other.
#[inline(never)]
fn multiply_add(a: Block<&[f64]>, b: Block<&[f64]>, c: &mut [f64]) {
    for (a_row, c_row) in a.cells.chunks_exact(a.cols).zip(c.chunks_exact_mut(b.cols)) {
        for (factor, b_row) in a_row.iter().zip(b.cells.chunks_exact(b.cols)) {
            for (sum, other) in c_row.iter_mut().zip(b_row) {
                *sum += factor * other;
            }
        }
    }
}

/// The layout of a matrix in memory when both sides of a block are equally long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    ByRows,
    ByCols,
}

/// Visits row and column of all cells of a block, whose first cell is `from`, in the order of memory.
fn walk(
    from: (usize, usize),
    (rows, cols): (usize, usize),
    ties: Ties,
    visit: &mut impl FnMut(usize, usize),
) {
    let (row, col) = from;
    if rows.max(cols) <= BASE {
        (row..row + rows).for_each(|row| (col..col + cols).for_each(|col| visit(row, col)));
    } else if rows > cols || (rows == cols && ties == Ties::ByRows) {
        let upper = rows / 2;
        walk(from, (upper, cols), ties, visit);
        walk((row + upper, col), (rows - upper, cols), ties, visit);
    } else {
        let left = cols / 2;
        walk(from, (rows, left), ties, visit);
        walk((row, col + left), (rows, cols - left), ties, visit);
    }
}

/// The matrix times a column.
fn times(cells: &[f64], n: usize, ties: Ties, column: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; n];
    let mut cells = cells.iter();
    walk((0, 0), (n, n), ties, &mut |row, col| {
        sums[row] += cells.next().map_or(0.0, |cell| cell * column[col]);
    });
    sums
}

/// Whole numbers from 0 to `most`.
fn whole_numbers(random: &mut Rng, count: usize, most: u32) -> Vec<f64> {
    (0..count).map(|_| f64::from(random.u32(..=most))).collect()
}

/// Multiplies two n x n matrices.
pub(super) fn run<P: ForkPool>(pool: &P, n: usize) -> Result<Outcome, LabError> {
    let mut random = Rng::with_seed(0x3a7);
    let (a, b) = (
        whole_numbers(&mut random, n * n, 7),
        whole_numbers(&mut random, n * n, 7),
    );
    let mut c = vec![0.0; n * n];
    // The pages of the product are there before the clock runs.
    c.fill(std::hint::black_box(0.0));
    fn block<C>(n: usize, cells: C) -> Block<C> {
        Block {
            rows: n,
            cols: n,
            cells,
        }
    }
    let ((), elapsed) = pool.run(Timed(Product {
        a: block(n, a.as_slice()),
        b: block(n, b.as_slice()),
        c: block(n, c.as_mut_slice()),
    }));
    // C is A B if C x is A (B x); with x at random, a wrong C passes once in a thousand times at most. All
    // figures are whole and below 2^53.
    let x = whole_numbers(&mut random, n, 1023);
    let expected = times(&a, n, Ties::ByRows, &times(&b, n, Ties::ByCols, &x));
    check(
        "product, times a column",
        &times(&c, n, Ties::ByRows, &x),
        &expected,
    )?;
    let operations = (n as u64).pow(3);
    let gflops = 2.0 * operations as f64 / elapsed.as_nanos().max(1) as f64;
    Ok(Outcome::new(operations, elapsed).with_measure("gflop_per_s", gflops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_order_in_which_blocks_are_split() {
        fn visit(block: Block<&[f64]>, ties: Ties, cells: &mut Vec<f64>) {
            let (rows, cols) = (block.rows, block.cols);
            if rows.max(cols) <= BASE {
                return cells.extend(block.cells);
            }
            let by_rows = rows > cols || (rows == cols && ties == Ties::ByRows);
            let (first, second) = if by_rows { block.by_rows() } else { block.by_cols() };
            visit(first, ties, cells);
            visit(second, ties, cells);
        }
        for n in [1, 64, 65, 129, 200] {
            for ties in [Ties::ByRows, Ties::ByCols] {
                let mut cells = Vec::new();
                walk((0, 0), (n, n), ties, &mut |row, col| {
                    cells.push((row * n + col) as f64);
                });
                let mut seen = Vec::new();
                visit(
                    Block {
                        rows: n,
                        cols: n,
                        cells: &cells,
                    },
                    ties,
                    &mut seen,
                );
                assert_eq!(seen, cells);
                cells.sort_by(f64::total_cmp);
                assert!(cells.iter().enumerate().all(|(at, cell)| *cell == at as f64));
            }
        }
    }

    #[test]
    fn a_product_by_blocks_is_the_product_by_its_definition() {
        struct Calls;
        impl Fork for Calls {
            fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
                (a.run(Calls), b.run(Calls))
            }
        }
        for n in [1, 2, 63, 64, 65, 100, 130] {
            let mut random = Rng::with_seed(n as u64);
            let (a, b) = (
                whole_numbers(&mut random, n * n, 9),
                whole_numbers(&mut random, n * n, 9),
            );
            let mut c = vec![0.0; n * n];
            Product {
                a: Block {
                    rows: n,
                    cols: n,
                    cells: &a,
                },
                b: Block {
                    rows: n,
                    cols: n,
                    cells: &b,
                },
                c: Block {
                    rows: n,
                    cols: n,
                    cells: &mut c,
                },
            }
            .run(Calls);
            let by_place = |cells: &[f64], ties| {
                let mut placed = vec![0.0; n * n];
                let mut cells = cells.iter();
                walk((0, 0), (n, n), ties, &mut |row, col| {
                    placed[row * n + col] = *cells.next().unwrap();
                });
                placed
            };
            let (a, b) = (by_place(&a, Ties::ByRows), by_place(&b, Ties::ByCols));
            let c = by_place(&c, Ties::ByRows);
            for (place, sum) in c.iter().enumerate() {
                let (row, col) = (place / n, place % n);
                let expected: f64 = (0..n).map(|k| a[row * n + k] * b[k * n + col]).sum();
                assert_eq!(*sum, expected, "row {row}, column {col} of {n}");
            }
        }
    }
}
