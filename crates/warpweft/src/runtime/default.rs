//! The default runtime, which free functions use outside of any pool.

use super::build_error::BuildError;
use super::builder::Builder;
use super::handle::Runtime;
use std::sync::OnceLock;
use warpweft_platform::sync::StaticMutex;

static DEFAULT: OnceLock<Runtime> = OnceLock::new();

/// Held while the default runtime is built or set, so that only one thread tries at a time.
static BUILDING: StaticMutex<()> = StaticMutex::new(());

impl Builder {
    /// Builds the default runtime, which free functions use outside of any pool, for the rest of the process.
    ///
    /// # Errors
    ///
    /// As [`build`](Builder::build), and [`BuildError::DefaultExists`] if there is one already, built by this
    /// function or by its first use.
    pub fn build_default(self) -> Result<&'static Runtime, BuildError> {
        set_default(self.build()?).map_err(|_surplus| BuildError::DefaultExists)
    }
}

/// Returns the runtime that free functions use outside of any pool. It has one worker per CPU and the default
/// policy, unless the [environment](Builder#environment) says otherwise. It is built at its first use, unless
/// [`Builder::build_default`] has built another one.
///
/// # Panics
///
/// Panics with the reason if the runtime cannot be built. The failed attempt leaves nothing behind, and the
/// next call tries again. [`try_default_runtime`] returns the error instead.
#[must_use]
pub fn default_runtime() -> &'static Runtime {
    match try_default_runtime() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the default runtime: {error}"),
    }
}

/// The same as [`default_runtime`], but returns an error where that panics.
///
/// Call this first in a program that must not panic later. Functions that use the default runtime implicitly,
/// such as [`spawn`](crate::spawn) or [`join`](crate::join()) outside of any pool, then find it built.
///
/// ```
/// let workers = warpweft::try_default_runtime()?.workers();
/// let (a, b) = warpweft::join(|| 1, || 2);
/// assert!(workers >= 1 && a + b == 3);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
///
/// # Errors
///
/// The runtime cannot be built. The failed attempt leaves nothing behind, and the next call tries again.
pub fn try_default_runtime() -> Result<&'static Runtime, BuildError> {
    match DEFAULT.get() {
        Some(runtime) => Ok(runtime),
        None => build_default_runtime(),
    }
}

#[cold]
fn build_default_runtime() -> Result<&'static Runtime, BuildError> {
    BUILDING.with(|()| {
        if let Some(runtime) = DEFAULT.get() {
            return Ok(runtime);
        }
        let runtime = Builder::new().name("warpweft").build()?;
        Ok(DEFAULT.get_or_init(|| runtime))
    })
}

/// Makes `runtime` the default one, or returns it if there is one already.
pub(crate) fn set_default(runtime: Runtime) -> Result<&'static Runtime, Box<Runtime>> {
    BUILDING.with(|()| match DEFAULT.get() {
        Some(_) => Err(Box::new(runtime)),
        None => Ok(DEFAULT.get_or_init(|| runtime)),
    })
}
