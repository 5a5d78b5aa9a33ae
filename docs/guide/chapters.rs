//! The chapters of the guide, as documentation tests: `cargo test --doc -p warpweft-guide` compiles and runs
//! their examples.
#![forbid(unsafe_code)]

/// A module per chapter, so that a failed example names its chapter.
macro_rules! chapters {
    ($($module:ident = $file:literal),+ $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("src/", $file))]
            pub mod $module {}
        )+
    };
}

chapters! {
    introduction = "introduction.md",
    hello = "01-hello.md",
    fork_join = "02-fork-join.md",
    async_tasks = "03-async.md",
    fibers = "04-fibers.md",
    mixing = "05-mixing.md",
    waiting = "06-waiting.md",
    blocking_code = "07-blocking.md",
    choosing_a_policy = "08-policy.md",
    pools = "09-pools.md",
    effects = "10-effects.md",
    cooperative = "11-cooperative.md",
    ends = "12-ends.md",
    own_policy = "13-policy.md",
    observing = "14-observing.md",
    stalls = "15-stalls.md",
    my_program = "16-my-program.md",
    dump = "17-dump.md",
    recorder = "18-recorder.md",
    system = "20-system.md",
    cancellation = "21-cancellation.md",
    cookbook = "cookbook.md",
    from_rayon = "from-rayon.md",
    from_tokio = "from-tokio.md",
}
