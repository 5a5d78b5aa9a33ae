//! The events that are recorded, and their two words.
//!
//! ```text
//!   stamp : 56 │ detail : 4 │ kind : 4       task : 48 │ site : 16    or a number : 64
//! ```

use super::ring::Record;

/// The kind of a record. 0 is none: an empty slot is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A step of a task begins. The detail is the [`StepEnd`] of the step before, which ended at this moment.
    Begin = 1,
    /// As `Begin`, for a turn of a fiber.
    BeginFiber = 2,
    /// As `Begin`, for a fork of another worker.
    BeginFork = 3,
    /// A step ends, and none follows at once. The detail is its `StepEnd`.
    End = 4,
    /// A task became runnable. The detail is the [`Push`]. In the place of a site, a fork that was taken has
    /// the number of the worker that offered it, from 1, and what a thread without a worker pushed has the
    /// number of its name.
    Push = 5,
    Park = 6,
    Unpark = 7,
    /// A sleeping worker was woken, or one of the number.
    WakeWorker = 8,
    Steal = 9,
    Overflow = 10,
    Transfer = 11,
    Compensate = 12,
    Retire = 13,
    Stall = 14,
    /// A closure that blocks begins on a thread of its own, or ends there. The detail is its `StepEnd`, or
    /// 0 at its begin.
    Blocking = 15,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Begin,
        Self::BeginFiber,
        Self::BeginFork,
        Self::End,
        Self::Push,
        Self::Park,
        Self::Unpark,
        Self::WakeWorker,
        Self::Steal,
        Self::Overflow,
        Self::Transfer,
        Self::Compensate,
        Self::Retire,
        Self::Stall,
        Self::Blocking,
    ];
}

/// How a step of a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum StepEnd {
    /// The task has ended.
    Ended = 1,
    /// The task waits, until it is woken.
    Waits = 2,
    /// The task is runnable again: it yielded, or was woken while it ran.
    Again = 3,
    /// The turn of a fiber is over: it waits, has yielded or has ended.
    Left = 4,
}

/// Why a task became runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Push {
    /// A task on a worker has spawned it.
    Spawned = 1,
    /// It was woken.
    Woken = 2,
    /// It came from outside of the pool.
    Injected = 3,
    /// Another worker took it: the half of a `join`, or a task of a scope, that this worker had offered.
    Taken = 4,
}

const STEP_ENDS: [StepEnd; 4] = [StepEnd::Ended, StepEnd::Waits, StepEnd::Again, StepEnd::Left];
const PUSHES: [Push; 4] = [Push::Spawned, Push::Woken, Push::Injected, Push::Taken];

/// The number of a woken worker that stands for any.
pub(crate) const ANY_WORKER: u64 = u64::MAX;

/// The number of bits of the stamp that a record has.
const STAMP_BITS: u32 = 56;
const SITE_BITS: u32 = 16;
/// Task headers and fibers are aligned to this many bits at least.
const ALIGNED: u32 = 3;

/// A task and its site, in one word. The address is that of the task's header: another task may have it
/// later.
#[inline]
pub(crate) fn task_word(address: usize, site: u16) -> u64 {
    (address as u64) >> ALIGNED << SITE_BITS | u64::from(site)
}

/// Returns the parts of such a word.
pub(crate) fn task_of_word(word: u64) -> (u64, u16) {
    let site = (word & u64::from(u16::MAX)) as u16;
    (word >> SITE_BITS << ALIGNED, site)
}

/// Returns the worker that offered a fork, of the record that another one took it.
pub(crate) fn taken_from(parts: Parts) -> Option<usize> {
    let is_taken = parts.kind == Kind::Push && Push::of(parts.detail) == Some(Push::Taken);
    let (_, from) = task_of_word(parts.word);
    usize::from(from).checked_sub(1).filter(|_| is_taken)
}

/// Makes a record.
#[inline]
pub(crate) fn record(stamp: u64, kind: Kind, detail: u8, word: u64) -> Record {
    [stamp << 8 | u64::from(detail) << 4 | kind as u64, word]
}

/// Returns the lower part of its stamp.
#[inline]
pub(crate) fn stamp_of(record: Record) -> u64 {
    record[0] >> 8
}

/// A record in its parts, without its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) kind: Kind,
    pub(crate) detail: u8,
    pub(crate) word: u64,
}

/// Takes a record apart. `None` if it is none.
pub(crate) fn parts(record: Record) -> Option<Parts> {
    let kind = usize::try_from(record[0] & 15).ok()?.checked_sub(1)?;
    Some(Parts {
        kind: *Kind::ALL.get(kind)?,
        detail: (record[0] >> 4 & 15) as u8,
        word: record[1],
    })
}

/// Returns the whole stamp of which a record has the lower part, if it is not later than `now`.
pub(crate) fn whole_stamp(record: Record, now: u64) -> u64 {
    let ago = now.wrapping_sub(stamp_of(record)) & ((1 << STAMP_BITS) - 1);
    now.wrapping_sub(ago)
}

impl StepEnd {
    /// Returns the value of a detail; `None` for 0, which says that no step was open.
    pub(crate) fn of(detail: u8) -> Option<Self> {
        STEP_ENDS.get(usize::from(detail).checked_sub(1)?).copied()
    }

    /// Returns a short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Waits => "waits",
            Self::Again => "again",
            Self::Left => "left",
        }
    }
}

impl Push {
    pub(crate) fn of(detail: u8) -> Option<Self> {
        PUSHES.get(usize::from(detail).checked_sub(1)?).copied()
    }

    /// Returns a short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spawned => "spawned",
            Self::Woken => "woken",
            Self::Injected => "injected",
            Self::Taken => "taken",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_parts() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at + 1);
            let record = record(12_345, kind, 3, 77);
            assert_eq!(
                parts(record),
                Some(Parts {
                    kind,
                    detail: 3,
                    word: 77
                })
            );
            assert_eq!(stamp_of(record), 12_345);
        }
        assert_eq!(parts([0, 0]), None);
        assert_eq!(parts([16, 0]), None);
    }

    #[test]
    fn details_are_counted_from_one() {
        for end in STEP_ENDS {
            assert_eq!(StepEnd::of(end as u8), Some(end));
        }
        for push in PUSHES {
            assert_eq!(Push::of(push as u8), Some(push));
        }
        assert_eq!(
            (StepEnd::of(0), StepEnd::of(9), Push::of(0), Push::of(5)),
            (None, None, None, None)
        );
    }

    #[test]
    fn an_address_and_a_site_fit_into_a_word() {
        let address = 0x7fff_ffff_ffc8_usize;
        assert_eq!(
            task_of_word(task_word(address, u16::MAX)),
            (address as u64, u16::MAX)
        );
    }

    #[test]
    fn stamps_are_made_whole() {
        let now = 5 << STAMP_BITS | 10;
        for stamp in [now, now - 10, now - 11, now - (1 << 40)] {
            assert_eq!(whole_stamp(record(stamp, Kind::Park, 0, 0), now), stamp);
        }
        assert_eq!(whole_stamp(record(u64::MAX, Kind::Park, 0, 0), 3), u64::MAX);
    }
}
