//! Named parts of the scheduler, which the simulator's report has. Other builds do not see them.

/// The calling thread is in a named part until this is dropped.
#[derive(Debug)]
#[must_use = "the part ends when it is dropped"]
pub struct InHook(
    #[cfg(warpweft_sim)]
    #[expect(dead_code, reason = "it is there to be dropped")]
    warpweft_sim::InHook,
);

/// Says that the calling thread is in this function or closure, whose name the compiler knows. It costs
/// nothing but in the simulator.
///
/// ```
/// let hook = || 7;
/// let _within = warpweft_platform::hook::enter(&hook);
/// assert_eq!(hook(), 7);
/// ```
#[inline(always)]
pub fn enter<F>(hook: &F) -> InHook {
    #[cfg(warpweft_sim)]
    return InHook(warpweft_sim::in_hook(std::any::type_name_of_val(hook)));
    #[cfg(not(warpweft_sim))]
    {
        let _ = hook;
        InHook()
    }
}
