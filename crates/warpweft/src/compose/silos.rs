//! Several equal pools, one for each part of the keys.

use crate::runtime::handle::Runtime;
use crate::runtime::pool::Pool;
use crate::runtime::pool_error::UnknownPool;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

impl Runtime {
    /// Returns the silos of that name: see [`Builder::silos`](crate::Builder::silos).
    ///
    /// # Errors
    ///
    /// [`UnknownPool`] if there are none of that name. The error lists the names.
    pub fn silos(&self, name: &str) -> Result<Silos, UnknownPool> {
        match self.silos_of(name) {
            Some(pools) => Ok(Silos::new(
                pools.iter().map(|&pool| self.pools()[pool].clone()).collect(),
            )),
            None => Err(UnknownPool::new(name, self.silo_names())),
        }
    }
}

/// Equal pools, one for each part of the keys. [`Builder::silos`](crate::Builder::silos) makes them, and
/// [`Runtime::silos`](crate::Runtime::silos) finds them.
///
/// Tasks with the same key go to the same pool, whose workers alone run them. So they stay near the data in
/// those workers' caches, and a load peak in one silo does not reach the others. The price is that idle
/// workers of other silos do not help.
///
/// ```
/// use warpweft::Runtime;
/// let runtime = Runtime::builder()
///     .workers(1)
///     .silos("room", 2, |_| Runtime::builder().workers(1))
///     .build()?;
/// let rooms = runtime.silos("room")?;
/// assert_eq!(rooms.of("alice"), rooms.of("alice"));
/// assert_eq!(rooms.get(1).map(|room| room.name()), Some("room-1"));
/// assert!(rooms.get(2).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Silos {
    /// At least one.
    pools: Box<[Pool]>,
}

impl Silos {
    pub(crate) fn new(pools: Box<[Pool]>) -> Self {
        Self { pools }
    }

    /// Returns the silo for `key`: the same for the same key, in each run of the program.
    #[must_use]
    pub fn of(&self, key: impl Hash) -> &Pool {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        &self.pools[scale(hash, self.pools.len())]
    }

    /// Returns the silo with that number, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Pool> {
        self.pools.get(index)
    }

    /// Returns all silos, in order.
    #[must_use]
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }
}

/// Maps `hash` to one of `count` numbers by its upper bits.
fn scale(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::scale;

    #[test]
    fn every_hash_has_a_silo_and_every_silo_its_share() {
        for count in [1, 2, 3, 10] {
            assert_eq!((scale(0, count), scale(u64::MAX, count)), (0, count - 1));
            let step = u64::MAX / (100 * count as u64);
            let mut shares = vec![0; count];
            (0..100 * count as u64).for_each(|n| shares[scale(n * step, count)] += 1);
            assert!(
                shares.iter().all(|&share| (99..=101).contains(&share)),
                "{shares:?}"
            );
        }
    }
}
