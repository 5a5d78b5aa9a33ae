//! Latent forks and their theft: the mechanism under `join` and `scope`.
//!
//! | file | job |
//! |---|---|
//! | `list`, `list/checked` | the latent forks of one stack; where a cancellation token counts |
//! | `token_frame` | the frame of a stack that sets that token |
//! | `record` | a fork in its frame, whatever its closure is |
//! | `jobs` | the jobs of an open scope |
//! | `offer` | one fork on offer per worker, given and taken back without a read-modify-write |
//! | `offer_board` | the offers of a pool, from a thief's side |
//! | `stealable` | what a thief may take, and what it has then |
//! | `fork_claim` | a fork as a task, for when its owner has to wait |
//!
//! The list belongs to the stack, the offer to the worker. See `README.md` beside this file for the states
//! and the protocol. The reasons, with the numbers, are in `docs/decisions/0008-fork-join.md`.

pub(crate) mod fork_claim;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod offer;
pub(crate) mod offer_board;
pub(crate) mod record;
pub(crate) mod stealable;
pub(crate) mod token_frame;
