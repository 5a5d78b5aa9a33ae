//! A task's priority is in the top byte of its policy word, with every policy.
//!
//! ```text
//!   priority + 1, or 0 for none given : 8 │ the policy's own: a node, a worker, a time stamp : 56
//! ```
//!
//! A spawner names a priority. The framework checks it against
//! [`Policy::priorities`](crate::Policy::priorities) and writes it before the first push. From then on the
//! word belongs to the policy, which keeps the top byte when it writes ([`keep`]).

/// The bits of the word that are not the priority.
const REST: u64 = u64::MAX >> 8;
const PRIORITY: u32 = REST.count_ones();

/// Returns the word of a new task with this priority, where 0 is the most urgent one. There are 255: the last
/// number means the same as the last but one.
///
/// ```
/// use warpweft_policy::priority;
/// assert_eq!(priority::of(priority::word(2)), Some(2));
/// assert_eq!(priority::of(0), None);
/// ```
#[must_use]
pub const fn word(priority: u8) -> u64 {
    (priority.saturating_add(1) as u64) << PRIORITY
}

/// Returns the priority in a task's word; `None` if its spawner gave none.
#[must_use]
pub const fn of(word: u64) -> Option<u8> {
    ((word >> PRIORITY) as u8).checked_sub(1)
}

/// Returns to which of `levels` levels a task belongs. A task without a priority is on the normal level, in
/// the middle: `(levels - 1) / 2`. A priority beyond the last level, perhaps from a pool with more levels, is
/// on the last.
///
/// ```
/// use warpweft_policy::priority::{level, word};
/// assert_eq!([0, word(0), word(3), word(200)].map(|word| level(word, 4)), [1, 0, 3, 3]);
/// ```
#[inline]
#[must_use]
pub const fn level(word: u64, levels: usize) -> usize {
    let last = levels.saturating_sub(1);
    match (word >> PRIORITY) as usize {
        0 => last / 2,
        priority if priority > last => last,
        priority => priority - 1,
    }
}

/// Returns the word with its priority and with the policy's own part, of which it keeps 56 bits.
#[inline]
#[must_use]
pub const fn keep(word: u64, own: u64) -> u64 {
    word & !REST | own & REST
}

/// Returns the policy's own part.
#[inline]
#[must_use]
pub const fn own(word: u64) -> u64 {
    word & REST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_and_what_the_policy_writes_do_not_touch_each_other() {
        for priority in 0..=u8::MAX {
            let kept = keep(word(priority), u64::MAX);
            assert_eq!(of(kept), Some(priority.min(254)));
            assert_eq!(own(kept), u64::MAX >> 8);
            assert_eq!(own(word(priority)), 0);
        }
        assert_eq!(keep(0, u64::MAX), u64::MAX >> 8);
        assert_eq!(of(u64::MAX >> 8), None);
    }

    #[test]
    fn every_priority_has_its_level_and_none_is_normal() {
        for levels in 1..=64 {
            assert_eq!(level(0, levels), (levels - 1) / 2);
            for priority in 0..=u8::MAX {
                assert_eq!(
                    level(word(priority), levels),
                    usize::from(priority).min(levels - 1)
                );
            }
        }
    }
}
