//! Loops over ranges, cut into strips.

use super::budget::{left, set_left};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Types whose ranges are iterators.
#[doc(hidden)]
pub trait Count: Copy + Ord {
    /// Returns the number of steps of a range that is not empty, or `u32::MAX` if there are more.
    fn steps(range: &Range<Self>) -> u32;
    /// Returns the number `steps` after the start of a range with at least that many steps.
    fn after(range: &Range<Self>, steps: u32) -> Self;
}

/// Takes iterations of a loop from the budget, as many as it allows and at least one. Each counts
/// `statements`, one or more. Returns `None` if the loop is over.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn strip<T: Count>(rest: &mut Range<T>, statements: i32) -> Option<Range<T>> {
    if rest.start >= rest.end {
        return None;
    }
    let all = i64::from(left()) - i64::from(T::steps(rest)) * i64::from(statements);
    let end = if all >= 0 {
        set_left(all as i32);
        rest.end
    } else {
        part(rest, statements)
    };
    // This changes nothing, but in this form the compiler knows that no strip exceeds the end, and omits
    // bounds checks.
    let end = end.min(rest.end);
    Some(std::mem::replace(&mut rest.start, end)..end)
}

/// Returns the end of the strip, if the budget does not allow all of them.
#[cold]
#[inline(never)]
fn part<T: Count>(rest: &Range<T>, statements: i32) -> T {
    let left = left();
    // Fewer steps than the rest has, or 1.
    let steps = (left / statements).max(1);
    set_left(left.wrapping_sub(steps.wrapping_mul(statements)));
    T::after(rest, steps.unsigned_abs())
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Count for $number {
            #[inline]
            fn steps(range: &Range<Self>) -> u32 {
                range.end.abs_diff(range.start).try_into().unwrap_or(u32::MAX)
            }

            #[allow(clippy::cast_lossless, reason = "for some of them it is not")]
            fn after(range: &Range<Self>, steps: u32) -> Self {
                // A step that does not fit wraps around, and ends at the right number.
                range.start.wrapping_add(steps as Self)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! others {
    ($($other:ty),*) => {$(
        impl Count for $other {
            fn steps(range: &Range<Self>) -> u32 {
                range.size_hint().0.try_into().unwrap_or(u32::MAX)
            }

            fn after(range: &Range<Self>, steps: u32) -> Self {
                range.clone().nth(steps as usize).unwrap_or(range.end)
            }
        }
    )*};
}

others!(char, Ipv4Addr, Ipv6Addr);

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Count, left, set_left, strip};
    use std::net::Ipv4Addr;
    use std::ops::Range;

    /// Checks that the strips of a range, one after the other, are the range, and returns their lengths.
    fn strips<T: Count + std::fmt::Debug>(range: Range<T>, budget: i32, statements: i32) -> Vec<usize>
    where
        Range<T>: Iterator<Item = T>,
    {
        let (mut rest, mut all, mut lengths) = (range.clone(), Vec::new(), Vec::new());
        set_left(budget);
        while let Some(strip) = strip(&mut rest, statements) {
            let before = all.len();
            all.extend(strip);
            lengths.push(all.len() - before);
            let taken = i32::try_from(all.len()).unwrap() * statements;
            assert_eq!(left(), budget * i32::try_from(lengths.len()).unwrap() - taken);
            set_left(left() + budget);
        }
        assert_eq!(all, range.collect::<Vec<_>>());
        lengths
    }

    #[test]
    fn strips_are_as_long_as_the_budget_allows() {
        assert_eq!(strips(0..10, 100, 1), [10]);
        assert_eq!(strips(0..10, 10, 1), [10]);
        assert_eq!(strips(0..10_u8, 4, 1), [4, 4, 2]);
        assert_eq!(strips(-5..5_i64, 7, 2), [3, 4, 3]);
        assert_eq!(strips('x'..'}', 2, 1), [2, 2, 1]);
        assert_eq!(
            strips('\u{d7fe}'..'\u{e001}', 2, 1),
            [2, 1],
            "there is a gap between them"
        );
        assert_eq!(
            strips(Ipv4Addr::new(1, 1, 1, 254)..Ipv4Addr::new(1, 1, 2, 1), 2, 1),
            [2, 1]
        );
    }

    #[test]
    fn what_costs_more_than_the_budget_goes_one_by_one() {
        assert_eq!(strips(0..3_usize, 1, 2), [1, 1, 1]);
        set_left(-7);
        assert_eq!(strip(&mut (0..3), 2), Some(0..1));
        assert_eq!(left(), -9);
    }

    #[test]
    fn empty_ranges_have_no_strips() {
        set_left(10);
        assert_eq!(strip(&mut (3..3), 1), None);
        #[allow(clippy::reversed_empty_ranges, reason = "that is what is tested")]
        let mut reversed = 5..3;
        assert_eq!(strip(&mut reversed, 1), None);
        assert_eq!(left(), 10);
    }

    #[test]
    fn ranges_over_all_of_a_type_do_not_overflow() {
        assert_eq!(strips(i8::MIN..i8::MAX, 1000, 1).iter().sum::<usize>(), 255);
        let mut wide = i64::MIN..i64::MAX;
        set_left(i32::MAX);
        let most = i64::from(i32::MAX);
        assert_eq!(strip(&mut wide, 1), Some(i64::MIN..i64::MIN + most));
        assert_eq!((wide.start, left()), (i64::MIN + most, 0));
        set_left(1000);
        assert_eq!(
            strip(&mut (-100..i8::MAX), 5),
            Some(-100..100),
            "200 steps do not fit into the type"
        );
        set_left(1000);
        assert_eq!(
            strip(&mut (0..3_u64 << 29), 2),
            Some(0..500),
            "the statements do not fit into 32 bits, and would look like a negative number"
        );
        let mut last = u64::MAX - 3..u64::MAX;
        set_left(i32::MAX);
        assert_eq!(strip(&mut last, 1), Some(u64::MAX - 3..u64::MAX));
        assert_eq!(left(), i32::MAX - 3);
    }
}
