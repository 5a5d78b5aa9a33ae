//! *token-ring*: players in a ring pass one token round and round.
//!
//! ```text
//!   player 0 ──▶ mailbox ──▶ player 1 ──▶ … ──▶ player n-1
//!      ▲                                            │
//!      └──────────────────── mailbox ◀──────────────┘
//! ```
//!
//! One of them has something to do, all others wait: each pass wakes one and puts one to sleep. The token
//! counts the passes, so that each player knows whether it is its turn.

use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, GO_CHANNELS, MOST_ACTORS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    players: u64,
    rounds: u64,
}

/// The counts of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PlayerCounts {
    /// The number of times it had the token.
    turns: u64,
    /// The number of times at which that was not its turn.
    wrong: u64,
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "token-ring",
        about: "players in a ring pass one token round",
        unit: "passes",
        params: params! {
            count("1000", "players", MOST_ACTORS);
            Param::number("rounds", "1000", 1, 1_000_000, "how often the token goes round");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "30"), ("rounds", "10")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[
        ("go", Caveat::same(GO_CHANNELS)),
        ("java", Caveat::same("blocking queues are its mailboxes")),
    ];

    type Counted = Vec<PlayerCounts>;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            players: params.number("n"),
            rounds: params.number("rounds"),
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            rounds: (self.rounds / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Vec<PlayerCounts>) {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for _ in 0..self.players {
            let (sender, receiver) = W::mailbox::<u64>(1);
            senders.push(sender);
            receivers.push(receiver);
        }
        let first = senders[0].clone();
        // The player of place i sends to the mailbox of i + 1.
        senders.rotate_left(1);
        let start = Instant::now();
        let players: Vec<_> = (senders.into_iter().zip(receivers).zip(0..))
            .map(|((sender, receiver), place)| tasks.spawn(player::<W>(self, place, receiver, sender)))
            .collect();
        W::send(&first, 0).await;
        let mut seen = Vec::with_capacity(players.len());
        for player in players {
            seen.push(player.await);
        }
        (start.elapsed(), seen)
    }

    fn outcome(&self, elapsed: Duration, seen: Vec<PlayerCounts>) -> Result<Outcome, LabError> {
        let each = PlayerCounts {
            turns: self.rounds,
            wrong: 0,
        };
        let right = seen.iter().filter(|seen| **seen == each).count() as u64;
        check("players that had the token in their turns", &right, &self.players)?;
        Ok(per_step(self.players * self.rounds, elapsed, "ns_per_pass"))
    }
}

async fn player<W: Actors>(
    plan: Plan,
    place: u64,
    mut from: W::Receiver<u64>,
    to: W::Sender<u64>,
) -> PlayerCounts {
    let mut seen = PlayerCounts::default();
    while seen.turns < plan.rounds {
        let Some(passes) = W::recv(&mut from).await else {
            break;
        };
        seen.turns += 1;
        seen.wrong += u64::from(passes % plan.players != place);
        // The last player keeps it in the last round: no player would take it.
        if passes + 1 < plan.players * plan.rounds {
            W::send(&to, passes + 1).await;
        }
    }
    seen
}
