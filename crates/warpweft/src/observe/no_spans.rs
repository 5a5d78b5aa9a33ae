//! Spans without the feature `tracing`: nothing. The interface is that of `spans.rs`.

/// As in `spans.rs`.
#[derive(Debug)]
pub(crate) struct SpawnSpan;

impl SpawnSpan {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "nothing is to be left of it")]
    pub(crate) fn current() -> Self {
        Self
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "nothing is to be left of it")]
    pub(crate) fn of_task<I>(_kind: &'static str, _info: &I) -> Self {
        Self
    }

    #[inline(always)]
    #[allow(
        clippy::inline_always,
        clippy::unused_self,
        reason = "nothing is to be left of it"
    )]
    pub(crate) fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// As in `spans.rs`.
#[derive(Debug)]
#[must_use = "dropping it enters the spans again"]
pub(crate) struct LeftSpans;

impl LeftSpans {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "nothing is to be left of it")]
    pub(crate) fn leave() -> Self {
        Self
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "nothing is to be left of it")]
    pub(crate) fn come_back(self) {}
}
