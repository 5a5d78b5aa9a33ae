//! *nbody*: one step of the forces between n bodies. The bodies are halved down to 16; each is attracted by
//! all.

use fastrand::Rng;

use super::{Timed, nanos_each};
use crate::prelude::*;

/// This number of bodies is not halved any more.
const LEAF: usize = 16;
/// Keeps the force between near bodies, and of a body on itself, finite.
const SOFTENING: f64 = 1e-3;

/// Three coordinates.
type Vector = [f64; 3];

/// A body.
struct Body {
    place: Vector,
    mass: f64,
}

/// The accelerations of some of the bodies.
struct Accelerations<'a> {
    all: &'a [Body],
    some: &'a [Body],
    into: &'a mut [Vector],
}

impl Branch for Accelerations<'_> {
    type Out = ();

    fn run<F: Fork>(self, mut cx: F) {
        let Self { all, some, into } = self;
        if some.len() <= LEAF {
            return leaf(all, some, into);
        }
        let middle = some.len() / 2;
        let (first, second) = some.split_at(middle);
        let (into_first, into_second) = into.split_at_mut(middle);
        let half = |some, into| Accelerations { all, some, into };
        cx.join(half(first, into_first), half(second, into_second));
    }
}

/// The accelerations of bodies that are not halved any more.
#[inline(never)]
fn leaf(all: &[Body], some: &[Body], into: &mut [Vector]) {
    for (body, acceleration) in some.iter().zip(into) {
        *acceleration = attraction(all, body.place);
    }
}

/// The acceleration of a point by all bodies, in the order of the bodies.
fn attraction(all: &[Body], place: Vector) -> Vector {
    let mut sum = [0.0; 3];
    for body in all {
        let away: Vector = std::array::from_fn(|axis| body.place[axis] - place[axis]);
        let squared = away.iter().map(|along| along * along).sum::<f64>() + SOFTENING;
        let pull = body.mass / (squared * squared.sqrt());
        for (axis, along) in sum.iter_mut().zip(away) {
            *axis += along * pull;
        }
    }
    sum
}

/// Always the same bodies.
fn bodies(n: usize) -> Vec<Body> {
    let mut random = Rng::with_seed(0x0b0d);
    (0..n)
        .map(|_| Body {
            place: std::array::from_fn(|_| random.f64()),
            mass: 0.5 + random.f64(),
        })
        .collect()
}

/// One step over n bodies.
pub(super) fn run<P: ForkPool>(pool: &P, n: usize) -> Result<Outcome, LabError> {
    let bodies = bodies(n);
    // Not zeros: the pages are there before the clock runs.
    let mut into = vec![[f64::NAN; 3]; n];
    let ((), elapsed) = pool.run(Timed(Accelerations {
        all: &bodies,
        some: &bodies,
        into: &mut into,
    }));
    // The order of the sums is the same, so they are exactly equal.
    for (body, acceleration) in bodies.iter().zip(&into) {
        check("acceleration", acceleration, &attraction(&bodies, body.place))?;
    }
    let pairs = (n as u64).pow(2);
    Ok(Outcome::new(pairs, elapsed).with_measure("ns_per_pair", nanos_each(elapsed, pairs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bodies_attract_each_other_by_their_masses() {
        let body = |x, mass| Body {
            place: [x, 0.0, 0.0],
            mass,
        };
        let both = [body(0.0, 1.0), body(10.0, 4.0)];
        let [of_first, of_second] = [0, 1].map(|at| attraction(&both, both[at].place));
        assert!((of_first[0] - 0.04).abs() < 1e-5 && (of_second[0] + 0.01).abs() < 1e-5);
        assert_eq!((of_first[1], of_second[2]), (0.0, 0.0));
    }
}
