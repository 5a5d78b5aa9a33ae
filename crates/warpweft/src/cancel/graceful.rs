//! The token of a graceful shutdown.

use super::token::CancelToken;
use crate::runtime::GracefulShutdown;

impl GracefulShutdown {
    /// Sets the token that is cancelled when the time of the drain is over. What was under it has until nine
    /// tenths of the limit to end, and futures that wait for the cancellation have their
    /// [grace](CancelToken::with_grace) as usual, if it is no longer.
    pub fn then_cancel(self, token: &CancelToken) -> Self {
        self.with_node(&token.0)
    }
}
