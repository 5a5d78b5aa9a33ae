//! The order in which a worker tries its victims, computed when the pool is built.

use super::Victims;
use crate::{Cx, PoolEnv};

/// Once in this number of searches a worker begins a level farther out.
const ESCAPE: usize = 8;

/// Of `OF` successes, `FEW` must be of the nearest level for the worker to continue beginning there, and
/// `ENOUGH` to begin there again.
const OF: u32 = 16;
const FEW: u32 = 4;
const ENOUGH: u32 = 8;

/// The victims of one worker.
pub(super) struct VictimOrder {
    /// Nearest level first.
    levels: Box<[Box<[usize]>]>,
    reach: Option<NearSuccess>,
}

/// What a worker has learned about how far it must search.
struct NearSuccess {
    /// All victims, as one level.
    by_chance: Box<[Box<[usize]>]>,
    /// True if the worker begins with the nearest.
    near: bool,
    /// How many of the last successes were of the nearest level: a moving average, in sixteenths of all,
    /// times 16.
    successes: u32,
}

impl VictimOrder {
    pub(super) fn of(worker: usize, victims: Victims, env: &PoolEnv) -> Self {
        let others = (0..env.workers).filter(|&other| other != worker);
        let away = |other: &usize| other.abs_diff(worker).min(env.workers - other.abs_diff(worker));
        let mut levels: Vec<Vec<usize>> = Vec::new();
        match victims {
            Victims::Nearest(number) => {
                let mut others: Vec<usize> = others.collect();
                others.sort_by_key(away);
                others.truncate(number.get());
                levels.push(others);
            }
            Victims::Topology | Victims::Adaptive if env.places.len() == env.workers => {
                levels.resize(5, Vec::new());
                let mine = env.places[worker];
                for other in others {
                    let place = env.places[other];
                    let shared = [
                        place.core == mine.core,
                        place.l2 == mine.l2,
                        place.cache == mine.cache,
                        place.node == mine.node,
                    ];
                    let level = shared.iter().position(|&shared| shared).unwrap_or(4);
                    levels[level].push(other);
                }
            }
            Victims::Adaptive => {
                let (beside, rest) = others.partition(|other| away(other) == 1);
                levels.extend([beside, rest]);
            }
            Victims::Random | Victims::Topology => levels.push(others.collect()),
        }
        levels.retain(|level| !level.is_empty());
        let reach = (victims == Victims::Adaptive && levels.len() > 1).then(|| NearSuccess {
            by_chance: Box::new([levels.concat().into()]),
            near: true,
            successes: OF * OF,
        });
        let levels = levels.into_iter().map(Vec::into_boxed_slice).collect();
        Self { levels, reach }
    }

    /// Returns one victim, each in turn, near or far; `None` if there is none.
    pub(super) fn by_turns(&self, turn: usize) -> Option<usize> {
        let all: usize = self.levels.iter().map(|level| level.len()).sum();
        let index = turn.checked_rem(all)?;
        self.levels.iter().flatten().nth(index).copied()
    }

    /// Records that a theft from this victim succeeded, and whether it was near.
    pub(super) fn found(&mut self, victim: usize) {
        let Some(reach) = &mut self.reach else {
            return;
        };
        let near = self.levels[0].contains(&victim);
        reach.successes = reach.successes - reach.successes.div_ceil(OF) + if near { OF } else { 0 };
        let bar = if reach.near { FEW } else { ENOUGH };
        reach.near = reach.successes >= bar * OF;
    }

    /// Calls `steal` with one victim after the other until it returns true, and returns that victim. Each is
    /// there once: mostly the near ones first, each level from a random beginning.
    pub(super) fn find(&self, cx: &Cx<'_>, steal: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let levels = match &self.reach {
            // Now and then as before, or the worker would not notice when near ones have tasks again.
            Some(reach) if !reach.near && cx.random(ESCAPE) != 0 => &reach.by_chance,
            _ => &self.levels,
        };
        let mut first = 0;
        while first + 1 < levels.len() && cx.random(ESCAPE) == 0 {
            first += 1;
        }
        let (before, from_first) = levels.split_at(first);
        from_first.iter().chain(before).find_map(|level| {
            let (before, rest) = level.split_at(cx.random(level.len()));
            rest.iter().chain(before).copied().find(|&victim| steal(victim))
        })
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::{Clock, CoreLocation, Counters, WorkerId};
    use std::cell::RefCell;
    use std::num::NonZeroUsize;
    use warpweft_platform::random::Rng;

    /// A thousand rounds.
    fn rounds(victims: &VictimOrder) -> Vec<Vec<usize>> {
        let (counters, random) = (Counters::default(), RefCell::new(Rng::seeded(1)));
        let cx = Cx::for_worker(WorkerId(0), 8, &counters, &random, Clock::Machine);
        let round = |_| {
            let mut round = Vec::new();
            let found = victims.find(&cx, &mut |victim| {
                round.push(victim);
                false
            });
            assert_eq!(found, None);
            round
        };
        (0..1000).map(round).collect()
    }

    fn sorted(mut victims: Vec<usize>) -> Vec<usize> {
        victims.sort_unstable();
        victims
    }

    #[test]
    fn by_chance_everybody_is_first_now_and_then() {
        let rounds = rounds(&VictimOrder::of(2, Victims::Random, &PoolEnv::new(4)));
        for first in [0, 1, 3] {
            assert!(rounds.iter().filter(|round| round[0] == first).count() > 200);
        }
        assert!(rounds.into_iter().all(|round| sorted(round) == [0, 1, 3]));
    }

    #[test]
    fn the_nearest_are_those_beside_also_round_the_corner() {
        let nearest = |worker, number| {
            let victims = Victims::Nearest(NonZeroUsize::new(number).expect("not 0"));
            let round = rounds(&VictimOrder::of(worker, victims, &PoolEnv::new(8))).swap_remove(0);
            sorted(round)
        };
        assert_eq!(nearest(0, 2), [1, 7]);
        assert_eq!(nearest(4, 4), [2, 3, 5, 6]);
        assert_eq!(nearest(3, 15), [0, 1, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn the_near_come_first_and_the_far_are_not_out_of_reach() {
        let place = |core, cache, node| CoreLocation::new(core, cache, node);
        let env = PoolEnv::new(6).with_places(vec![
            place(0, 0, 0),
            place(0, 0, 0),
            place(1, 0, 0),
            place(2, 1, 0),
            place(3, 2, 1),
            place(4, 0, 0).with_l2(0),
        ]);
        let rounds = rounds(&VictimOrder::of(0, Victims::Topology, &env));
        let begun_with = |victim| rounds.iter().filter(|round| round[0] == victim).count();
        assert!(rounds.iter().filter(|round| **round == [1, 5, 2, 3, 4]).count() > 800);
        assert!(begun_with(5) > begun_with(2) && begun_with(2) > begun_with(3));
        assert!(begun_with(3) > 0);
        assert!(
            rounds
                .iter()
                .all(|round| sorted(round.clone()) == [1, 2, 3, 4, 5])
        );
    }

    #[test]
    fn where_nobody_knows_who_is_near_it_is_by_chance() {
        let rounds = rounds(&VictimOrder::of(0, Victims::Topology, &PoolEnv::new(3)));
        assert!(rounds.iter().filter(|round| round[0] == 2).count() > 300);
    }

    /// A worker that finds something with near victims, or with the others only.
    #[test]
    fn who_finds_nothing_near_learns_to_go_far_and_back() {
        let mut victims = VictimOrder::of(0, Victims::Adaptive, &PoolEnv::new(8));
        let near_first = |victims: &VictimOrder| {
            let first = rounds(victims)
                .into_iter()
                .filter(|round| [1, 7].contains(&round[0]));
            first.count()
        };
        assert!(near_first(&victims) > 800);
        for _ in 0..5 {
            victims.found(4);
        }
        assert!(near_first(&victims) > 800, "a few mean nothing");
        for _ in 0..40 {
            victims.found(4);
        }
        let by_chance = near_first(&victims);
        assert!((200..600).contains(&by_chance), "{by_chance}");
        assert!(
            rounds(&victims)
                .into_iter()
                .all(|round| sorted(round) == [1, 2, 3, 4, 5, 6, 7])
        );
        for _ in 0..40 {
            victims.found(7);
        }
        assert!(near_first(&victims) > 800);
        // With only one level there is nothing to learn.
        for workers in [2, 3] {
            assert!(
                VictimOrder::of(0, Victims::Adaptive, &PoolEnv::new(workers))
                    .reach
                    .is_none()
            );
        }
        let place = |core, cache| CoreLocation::new(core, cache, 0);
        let env = PoolEnv::new(4).with_places(vec![place(0, 0), place(1, 1), place(2, 1), place(3, 0)]);
        let victims = VictimOrder::of(0, Victims::Adaptive, &env);
        let first = rounds(&victims).into_iter().filter(|round| round[0] == 3).count();
        assert!(first > 800, "{first}: where places are known they count");
    }

    #[test]
    fn a_lone_worker_has_no_victims() {
        for victims in [
            Victims::Random,
            Victims::Nearest(NonZeroUsize::MIN),
            Victims::Topology,
            Victims::Adaptive,
        ] {
            assert!(rounds(&VictimOrder::of(0, victims, &PoolEnv::new(1)))[0].is_empty());
        }
    }
}
