//! For how long a worker has slept, in one word, so that no reader finds half of a change.
//!
//! While the worker is awake the word has the time that it has slept. While it sleeps, it has that time less
//! the moment at which it fell asleep: with any later moment added, it is the time until then.

use warpweft_platform::counter::Gauge;

/// Times are modulo this power of two; the bit beside them says that the worker sleeps.
const TIME: u64 = u64::MAX >> 1;

/// See the [module](self). Written by the thread that carries the worker.
#[derive(Debug, Default)]
pub(super) struct SleepTime(Gauge);

impl SleepTime {
    fn get(&self) -> (u64, bool) {
        let word = self.0.get();
        (word >> 1, word & 1 != 0)
    }

    fn set(&self, time: u64, asleep: bool) {
        self.0.set(time << 1 | u64::from(asleep));
    }

    /// Notes that the worker falls asleep now, at that tick of the clock.
    pub(super) fn begin(&self, now: u64) {
        self.end(now);
        self.set(self.get().0.wrapping_sub(now), true);
    }

    /// Notes that the worker is awake now. Returns false if it was awake before.
    pub(super) fn end(&self, now: u64) -> bool {
        let (_, asleep) = self.get();
        if asleep {
            self.set(self.until(now), false);
        }
        asleep
    }

    /// Returns for how many ticks the worker has slept until `now`. If it fell asleep after `now`, the part
    /// before counts as far as it is known.
    pub(super) fn until(&self, now: u64) -> u64 {
        let (time, asleep) = self.get();
        if !asleep {
            return time;
        }
        let until = time.wrapping_add(now) & TIME;
        // Beyond the half it is less than nothing.
        if until > TIME / 2 { 0 } else { until }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::SleepTime;

    #[test]
    fn sleeps_add_up_and_the_present_one_counts() {
        let time = SleepTime::default();
        assert!(!time.end(5), "it was awake");
        time.begin(100);
        assert_eq!((time.until(100), time.until(130)), (0, 30));
        assert!(time.end(140));
        assert_eq!((time.until(140), time.until(999)), (40, 40));
        time.begin(u64::MAX / 4);
        time.begin(u64::MAX / 4 + 2);
        assert_eq!(time.until(u64::MAX / 4 + 12), 52);
    }

    #[test]
    fn a_reader_with_an_older_moment_finds_no_more_than_there_was() {
        let time = SleepTime::default();
        time.begin(100);
        assert_eq!(time.until(90), 0);
        time.end(120);
        time.begin(200);
        assert_eq!(time.until(190), 10, "as far as it is known");
        assert_eq!(time.until(150), 0);
    }
}
