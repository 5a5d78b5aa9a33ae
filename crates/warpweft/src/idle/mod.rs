#![doc = include_str!("README.md")]

use warpweft_platform::atomic::spin_loop;
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::thread::sharply;
use warpweft_queue::EventCount;

/// How a worker without work waits for some, and how it is woken.
#[derive(Debug)]
pub(crate) struct Idle {
    events: EventCount,
    /// Looks at others' work before sleep is announced.
    rounds: u32,
}

/// What waiting came to.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    /// Work.
    Found(T),
    /// What came while the worker slept in its bed has been handed out: there may be work of its own.
    Roused,
    /// The pool closes.
    Stop,
}

/// Somewhere else to sleep: a poller. Whoever has it sleeps there alone.
pub(crate) trait Bed {
    /// Sleeps until something happens there, somebody rouses the sleeper, or `at_most_ns` nanoseconds are over.
    fn sleep(&mut self, at_most_ns: Option<u64>);
    /// Leaves the bed, and hands out what happened; whether there was anything.
    fn rise(self) -> bool;
}

/// The longest pause between two looks, in spin hints: one to ten microseconds. A look fetches the line of a lane that its owner
/// writes to all the time; who looks too often slows down the one who has the work.
const LONGEST_PAUSE: u32 = 256;

impl Idle {
    /// For workers `0..workers`, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        // At most half of the workers search: one finds what there is, and leaves a successor when it does.
        let searchers = (workers / 2).max(1);
        // A worker alone has nobody to rob: what comes from outside wakes it.
        let rounds = match workers {
            1 => 1,
            _ if cfg!(any(warpweft_loom, warpweft_shuttle)) => 2,
            _ => 14,
        };
        Self {
            events: EventCount::new(workers, searchers, Asymmetric::new()),
            rounds,
        }
    }

    /// Worker `w` has nothing of its own: waits until `look` or `scan` finds something, or `stop` says so.
    ///
    /// `look` is called again and again and may miss things; `scan` is the last look before sleep and may not.
    /// `parks` is told when the worker goes to sleep. Before that `nap_ns` may say that it is to look again after so many
    /// nanoseconds, because something is there that is not yet to be taken. `bed` gives another place to sleep, or to nap, as it is told, if there is one
    /// and nobody is in it; that it is free counts as work, which one sleeper takes. `in_haste` says that one look is enough before
    /// sleep is announced: what comes will say so.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is one thing that a worker can be asked"
    )]
    pub(crate) fn wait<T, B: Bed>(
        &self,
        w: usize,
        mut look: impl FnMut() -> Option<T>,
        mut scan: impl FnMut() -> Option<T>,
        stop: impl Fn() -> bool,
        parks: impl Fn(),
        mut nap_ns: impl FnMut() -> Option<u64>,
        bed: impl Fn(bool) -> Option<B>,
        in_haste: impl Fn() -> bool,
    ) -> Waited<T> {
        // Registered searchers keep pushes from waking sleepers. With nobody asleep there is nothing to keep, and the
        // word, which every push reads, is left alone.
        let nobody_sleeps = self.events.snapshot().1 == 0;
        let mut registered = !nobody_sleeps && self.events.try_search();
        let mut searching = nobody_sleeps || registered;
        let mut rounds = self.rounds;
        loop {
            if stop() {
                if registered {
                    self.end_search();
                }
                return Waited::Stop;
            }
            if searching && let Some(found) = self.search(rounds, &mut look, &in_haste) {
                if registered {
                    self.end_search();
                }
                return Waited::Found(found);
            }
            self.events.prepare(w, registered);
            // From here to `cancel` or `park` this worker is announced as asleep: look at everything once more.
            if stop() {
                self.events.cancel(w);
            } else if let Some(found) = scan() {
                self.events.cancel(w);
                self.end_search();
                return Waited::Found(found);
            } else {
                let nap = nap_ns();
                // After the announcement: whoever left the bed before looks for sleepers after that.
                let bed = if nap == Some(0) { None } else { bed(nap.is_some()) };
                if nap.is_none() {
                    parks();
                }
                rounds = if nap.is_some() { 1 } else { self.rounds };
                match (nap, bed) {
                    (Some(0), _) => self.events.cancel(w),
                    (nap, Some(bed)) => {
                        if self.sleep_in(w, bed, nap) {
                            self.end_search();
                            return Waited::Roused;
                        }
                    }
                    (Some(ns), None) => sharply(|| self.events.nap(w, ns)),
                    (None, None) => self.events.park(w),
                }
            }
            // After `cancel` and after `park` alike.
            registered = true;
            searching = true;
        }
    }

    /// Sleeps in `bed`; whether anything happened there.
    fn sleep_in(&self, w: usize, mut bed: impl Bed, nap: Option<u64>) -> bool {
        self.events.park_elsewhere(w, || match nap {
            Some(_) => sharply(|| bed.sleep(nap)),
            None => bed.sleep(None),
        });
        // Registered as a searcher again: what is handed out here wakes nobody; whoever ends the search does.
        bed.rise()
    }

    /// Says how a worker in its bed is woken.
    pub(crate) fn rouse_by(&self, rouse: impl Fn() + Send + Sync + 'static) {
        self.events.rouse_by(rouse);
    }

    fn search<T>(
        &self,
        rounds: u32,
        look: &mut impl FnMut() -> Option<T>,
        in_haste: &impl Fn() -> bool,
    ) -> Option<T> {
        let mut pause = 4;
        for round in 1..=rounds {
            if let Some(found) = look() {
                return Some(found);
            }
            if in_haste() {
                break;
            }
            if round < rounds {
                (0..pause).for_each(|_| spin_loop());
                pause = (pause * 4).min(LONGEST_PAUSE);
            }
        }
        None
    }

    /// The last searcher leaves a successor, for nobody else was told of what came in while it searched.
    fn end_search(&self) {
        if self.events.found() {
            self.events.notify_one();
        }
    }

    /// Whether worker `w` is neither asleep nor about to be.
    pub(crate) fn is_awake(&self, w: usize) -> bool {
        self.events.is_awake(w)
    }

    /// Work that anybody can do became visible. Returns whether a sleeper was woken.
    #[inline]
    pub(crate) fn wake_one(&self) -> bool {
        self.events.notify_one()
    }

    /// Whether [`wake_one`](Idle::wake_one) would wake somebody at this moment: it has to be called then, and need not be otherwise.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.is_wanted()
    }

    /// Work became visible that worker `w` should do.
    pub(crate) fn wake(&self, w: usize) -> bool {
        self.events.notify(w)
    }

    /// `stop` became true.
    pub(crate) fn wake_all(&self) {
        self.events.notify_all();
    }

    /// How many workers search and how many sleep at this moment.
    pub(crate) fn snapshot(&self) -> (usize, usize) {
        self.events.snapshot()
    }
}
