//! The frontier of the throughput/p99 plane: the cells that no other cell beats in both at once.

use crate::summary::Row;

/// The indices of the points that no other point dominates, from the lowest latency to the highest
/// throughput.
///
/// A point is (throughput, latency); one dominates another if it has at least its throughput at no more than
/// its latency, and is better in one of the two. O(n²), for a few dozen points.
pub(crate) fn frontier(points: &[Option<(f64, f64)>]) -> Vec<usize> {
    let dominates = |a: (f64, f64), b: (f64, f64)| a.0 >= b.0 && a.1 <= b.1 && a != b;
    let mut front: Vec<usize> = (0..points.len())
        .filter(|at| {
            points[*at].is_some_and(|point| !points.iter().flatten().any(|other| dominates(*other, point)))
        })
        .collect();
    front.sort_by(|a, b| {
        let latency = |at: &usize| points[*at].map_or(f64::INFINITY, |point| point.1);
        latency(a).total_cmp(&latency(b))
    });
    front
}

/// The point of each row in the plane, if it has both figures.
pub(crate) fn points(rows: &[Row]) -> Vec<Option<(f64, f64)>> {
    rows.iter()
        .map(|row| Some((row.median_throughput()?, row.p99()?)))
        .collect()
}

/// The rows on the frontier.
pub(crate) fn of_rows(rows: &[Row]) -> Vec<usize> {
    frontier(&points(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dominated_points_are_not_on_it() {
        let points = [
            Some((10.0, 5.0)),
            Some((9.0, 6.0)),
            Some((12.0, 8.0)),
            Some((5.0, 1.0)),
            Some((5.0, 2.0)),
        ];
        assert_eq!(frontier(&points), [3, 0, 2]);
    }

    #[test]
    fn equal_points_are_both_on_it() {
        assert_eq!(frontier(&[Some((1.0, 1.0)), Some((1.0, 1.0))]), [0, 1]);
    }

    #[test]
    fn rows_without_figures_are_left_out() {
        assert_eq!(frontier(&[None, Some((1.0, 1.0)), None]), [1]);
        assert!(frontier(&[None]).is_empty() && frontier(&[]).is_empty());
    }

    #[test]
    fn every_point_off_it_is_dominated_by_one_on_it() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let points: Vec<Option<(f64, f64)>> = (0..30)
                .map(|_| Some((f64::from(random.u8(..20)), f64::from(random.u8(..20)))))
                .collect();
            let front = frontier(&points);
            for (at, point) in points.iter().enumerate() {
                let point = point.unwrap();
                let beaten = front.iter().any(|other| {
                    let other = points[*other].unwrap();
                    other.0 >= point.0 && other.1 <= point.1 && other != point
                });
                assert_eq!(beaten, !front.contains(&at));
            }
        }
    }
}
