//! From whom a worker steals, in which order: worked out when the pool is built.

use super::Victims;
use crate::{Cx, PoolEnv};

/// Once in so many searches a worker begins a level farther out.
const ESCAPE: usize = 8;

/// The victims of one worker, nearest level first.
pub(super) struct Circle(Box<[Box<[usize]>]>);

impl Circle {
    pub(super) fn of(worker: usize, victims: Victims, env: &PoolEnv) -> Self {
        let others = (0..env.workers).filter(|&other| other != worker);
        let mut levels: Vec<Vec<usize>> = Vec::new();
        match victims {
            Victims::Nearest(number) => {
                let mut others: Vec<usize> = others.collect();
                let away = |other: &usize| other.abs_diff(worker).min(env.workers - other.abs_diff(worker));
                others.sort_by_key(away);
                others.truncate(number.get());
                levels.push(others);
            }
            Victims::Topology if env.places.len() == env.workers => {
                levels.resize(4, Vec::new());
                let mine = env.places[worker];
                for other in others {
                    let place = env.places[other];
                    let shared = [
                        place.core == mine.core,
                        place.cache == mine.cache,
                        place.node == mine.node,
                    ];
                    let level = shared.iter().position(|&shared| shared).unwrap_or(3);
                    levels[level].push(other);
                }
            }
            Victims::Random | Victims::Topology => levels.push(others.collect()),
        }
        levels.retain(|level| !level.is_empty());
        Self(levels.into_iter().map(Vec::into_boxed_slice).collect())
    }

    /// All of them, each once: mostly those that are near first, each level from another beginning.
    pub(super) fn round(&self, cx: &Cx<'_>) -> impl Iterator<Item = usize> {
        let mut first = 0;
        while first + 1 < self.0.len() && cx.random(ESCAPE) == 0 {
            first += 1;
        }
        let (before, from_first) = self.0.split_at(first);
        from_first.iter().chain(before).flat_map(|level| {
            let (before, rest) = level.split_at(cx.random(level.len()));
            rest.iter().chain(before).copied()
        })
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::{Clock, Counters, Place, WorkerId};
    use std::cell::RefCell;
    use std::num::NonZeroUsize;
    use warpweft_platform::random::Rng;

    /// A thousand rounds.
    fn rounds(circle: &Circle) -> Vec<Vec<usize>> {
        let (counters, random) = (Counters::default(), RefCell::new(Rng::seeded(1)));
        let cx = Cx::for_worker(WorkerId(0), 8, &counters, &random, Clock::Machine);
        (0..1000).map(|_| circle.round(&cx).collect()).collect()
    }

    fn sorted(mut victims: Vec<usize>) -> Vec<usize> {
        victims.sort_unstable();
        victims
    }

    #[test]
    fn by_chance_everybody_is_first_now_and_then() {
        let rounds = rounds(&Circle::of(2, Victims::Random, &PoolEnv::new(4)));
        for first in [0, 1, 3] {
            assert!(rounds.iter().filter(|round| round[0] == first).count() > 200);
        }
        assert!(rounds.into_iter().all(|round| sorted(round) == [0, 1, 3]));
    }

    #[test]
    fn the_nearest_are_those_beside_also_round_the_corner() {
        let nearest = |worker, number| {
            let victims = Victims::Nearest(NonZeroUsize::new(number).expect("not 0"));
            let round = rounds(&Circle::of(worker, victims, &PoolEnv::new(8))).swap_remove(0);
            sorted(round)
        };
        assert_eq!(nearest(0, 2), [1, 7]);
        assert_eq!(nearest(4, 4), [2, 3, 5, 6]);
        assert_eq!(nearest(3, 15), [0, 1, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn the_near_come_first_and_the_far_are_not_out_of_reach() {
        let place = |core, cache, node| Place::new(core, cache, node);
        let env = PoolEnv::new(5).with_places(vec![
            place(0, 0, 0),
            place(0, 0, 0),
            place(1, 0, 0),
            place(2, 1, 0),
            place(3, 2, 1),
        ]);
        let rounds = rounds(&Circle::of(0, Victims::Topology, &env));
        let begun_with = |victim| rounds.iter().filter(|round| round[0] == victim).count();
        assert!(rounds.iter().filter(|round| **round == [1, 2, 3, 4]).count() > 800);
        assert!(begun_with(2) > begun_with(3) && begun_with(3) > begun_with(4));
        assert!(rounds.iter().all(|round| sorted(round.clone()) == [1, 2, 3, 4]));
    }

    #[test]
    fn where_nobody_knows_who_is_near_it_is_by_chance() {
        let rounds = rounds(&Circle::of(0, Victims::Topology, &PoolEnv::new(3)));
        assert!(rounds.iter().filter(|round| round[0] == 2).count() > 300);
    }

    #[test]
    fn a_lone_worker_has_no_victims() {
        for victims in [
            Victims::Random,
            Victims::Nearest(NonZeroUsize::MIN),
            Victims::Topology,
        ] {
            assert!(rounds(&Circle::of(0, victims, &PoolEnv::new(1)))[0].is_empty());
        }
    }
}
