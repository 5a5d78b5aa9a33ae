//! One sort for all that a dump or a snapshot puts in order.

use std::time::Duration;

/// Returns the values in ascending order of their keys, which come first. Values of equal keys are in
/// ascending order.
pub(crate) fn by_key(mut values: Vec<(u64, usize)>) -> Vec<usize> {
    values.sort_unstable();
    values.into_iter().map(|(_, value)| value).collect()
}

/// Returns a key for a duration: the longest comes first, and what is not known comes last.
pub(crate) fn longest_first(duration: Option<Duration>) -> u64 {
    let ns = duration.map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    ns.map_or(u64::MAX, |ns| (u64::MAX - 1).saturating_sub(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_equal_keys_stay_in_order() {
        assert_eq!(
            by_key(vec![(2, 0), (1, 1), (2, 2), (0, 3), (1, 4)]),
            [3, 1, 4, 0, 2]
        );
    }

    #[test]
    fn what_is_not_known_comes_after_the_shortest() {
        let durations = [
            None,
            Some(Duration::ZERO),
            Some(Duration::MAX),
            Some(Duration::from_nanos(1)),
        ];
        assert_eq!(
            by_key(durations.map(longest_first).into_iter().zip(0..).collect()),
            [2, 3, 1, 0]
        );
    }
}
