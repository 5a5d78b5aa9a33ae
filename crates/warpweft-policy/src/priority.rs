//! Where a task's priority is: in the top byte of its policy word, whichever policy runs.
//!
//! ```text
//!   priority + 1, or 0 for none given : 8 │ the policy's own: a node, a home, a time stamp : 56
//! ```
//!
//! A spawner names a priority, the framework checks it against
//! [`Policy::priorities`](crate::Policy::priorities) and writes it before the first push. From then on the
//! word is the policy's: one that writes into it keeps the top byte ([`keep`]).

/// What is not the priority.
const REST: u64 = u64::MAX >> 8;
const PRIORITY: u32 = REST.count_ones();

/// The word of a new task with this priority, of which 0 is the most urgent one. There are 255: the last
/// number is as the last but one.
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

/// The priority in a task's word. `None`: its spawner gave none.
#[must_use]
pub const fn of(word: u64) -> Option<u8> {
    ((word >> PRIORITY) as u8).checked_sub(1)
}

/// Which of `levels` levels a task belongs to. Without a priority it is the normal one, in the middle:
/// `(levels - 1) / 2`; and what is beyond the last level, perhaps from a pool with more of them, is on the
/// last.
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

/// The word with its priority and with `own`, what the policy wants to know of the task, of which it keeps 56
/// bits.
#[inline]
#[must_use]
pub const fn keep(word: u64, own: u64) -> u64 {
    word & !REST | own & REST
}

/// What the policy has written there.
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
