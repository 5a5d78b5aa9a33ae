//! Measuring by turns: the order in which contestants run, and the quartiles of what they measure.

use anyhow::Result;

/// The order of so many contestants in a round. Each round begins with another one, so that none always
/// follows the same.
pub(crate) fn order(contestants: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contestants).map(move |turn| (round + turn) % contestants)
}

/// Runs all contestants in each of `count` rounds. Each round's results are in the order of the contestants.
pub(crate) fn rounds<C, T, const N: usize>(
    count: usize,
    contestants: &[C; N],
    mut run: impl FnMut(&C) -> Result<T>,
) -> Result<Vec<[T; N]>> {
    let mut rounds = Vec::new();
    for round in 0..count {
        let mut results = [const { None }; N];
        for which in order(N, round) {
            results[which] = Some(run(&contestants[which])?);
        }
        rounds.push(results.map(|result| result.expect("each had its turn")));
    }
    Ok(rounds)
}

/// The middle of some values, and where their middle half begins and ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Quartiles {
    /// Linear between neighbours: the median of an even number of values is the mean of the two in the
    /// middle. Returns `None` if there is no value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, part) = (place.floor() as usize, place.fract());
            values[below] + part * (values[(below + 1).min(last)] - values[below])
        };
        Some(Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        })
    }

    /// The median with the quartiles behind it.
    pub(crate) fn text(self, digits: usize) -> String {
        let Self { low, median, high } = self;
        format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Quartiles, rounds};

    #[test]
    fn each_contestant_begins_a_round_and_results_are_in_their_order() {
        let mut order = String::new();
        let results = rounds(3, &["a", "b"], |name| {
            order += name;
            Ok(order.len())
        });
        assert_eq!(order, "abbaab");
        assert_eq!(results.unwrap(), [[1, 2], [4, 3], [5, 6]]);
    }

    #[test]
    fn quartiles_are_between_the_values() {
        let of = |values: &[f64]| Quartiles::of(values.to_vec()).map(|it| [it.low, it.median, it.high]);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), Some([7.0; 3]));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some([1.75, 2.5, 3.25]));
        assert_eq!(of(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some([2.0, 3.0, 4.0]));
        let five = Quartiles::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(five.text(1), "3.0 (2.0–4.0)");
    }
}
