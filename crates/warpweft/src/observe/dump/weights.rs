//! Tasks with weights, such as how many permits each of them has.

/// Tasks by their numbers, each with its weight.
pub(super) type Weights = Vec<(usize, usize)>;

/// Returns each of these tasks once, in ascending order, with a weight of 1.
pub(super) fn ones<'a>(tasks: impl IntoIterator<Item = &'a usize>) -> Weights {
    let mut weights: Weights = tasks.into_iter().map(|&task| (task, 1)).collect();
    weights.sort_unstable();
    weights.dedup();
    weights
}

/// Returns each task once, in ascending order, with the sum of its weights.
pub(super) fn sums(mut weights: Weights) -> Weights {
    weights.sort_unstable();
    weights.dedup_by(|next, sum| {
        let is_same = next.0 == sum.0;
        sum.1 += if is_same { next.1 } else { 0 };
        is_same
    });
    weights
}

/// Returns the weight of a task among these, which are in ascending order.
pub(super) fn weight_of(weights: &[(usize, usize)], task: usize) -> Option<usize> {
    let place = weights.binary_search_by_key(&task, |&(other, _)| other);
    place.ok().map(|place| weights[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_task_are_added_up() {
        let weights = sums(vec![(7, 2), (3, 1), (7, 2), (5, 0), (7, 3)]);
        assert_eq!(weights, [(3, 1), (5, 0), (7, 7)]);
        assert_eq!(
            [3, 4, 5, 7].map(|task| weight_of(&weights, task)),
            [Some(1), None, Some(0), Some(7)]
        );
        assert_eq!(ones(&[4, 2, 4]), [(2, 1), (4, 1)]);
    }
}
