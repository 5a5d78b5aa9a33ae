//! *news*: an agency. Each reporter publishes some messages, and every customer reads all of them.
//!
//! ```text
//!   reporter 1 ─┐      ┌─▶ mailbox ──▶ customer 1
//!       …       ├──────┼─▶ mailbox ──▶     …
//!   reporter m ─┘      └─▶ mailbox ──▶ customer n
//! ```
//!
//! To publish is to send to every mailbox. A mailbox has little room, so a reporter waits for the slowest
//! reader. A message names its reporter and its number, and a reader checks that no reporter's messages come
//! out of order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, GO_CHANNELS, JAVA_QUEUES, MOST_ACTORS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    customers: u64,
    reporters: u64,
    messages: u64,
    room: usize,
}

/// A message: its reporter, and its number.
#[derive(Clone, Copy)]
struct Message {
    reporter: u32,
    number: u32,
}

/// The messages that the customers read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Read {
    messages: u64,
    /// Those that were not the next of their reporter.
    misplaced: u64,
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "news",
        about: "reporters publish messages, and every customer reads all of them",
        unit: "deliveries",
        params: params! {
            count("1000", "customers", MOST_ACTORS);
            Param::number("reporters", "10", 1, MOST_ACTORS, "reporters");
            Param::number("messages", "10", 1, 1_000_000, "messages of each reporter");
            Param::number("room", "10", 1, 1 << 20, "messages that a mailbox has room for");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "30"), ("reporters", "3")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[
        ("go", Caveat::same(GO_CHANNELS)),
        ("java", Caveat::same(JAVA_QUEUES)),
    ];

    type Counted = Read;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            customers: params.number("n"),
            reporters: params.number("reporters"),
            messages: params.number("messages"),
            room: params.number("room") as usize,
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            messages: (self.messages / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Read) {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for _ in 0..self.customers {
            let (sender, receiver) = W::mailbox::<Message>(self.room);
            senders.push(sender);
            receivers.push(receiver);
        }
        let senders = Arc::new(senders);
        let start = Instant::now();
        let customers: Vec<_> = receivers
            .into_iter()
            .map(|receiver| tasks.spawn(customer::<W>(self.reporters, receiver)))
            .collect();
        let reporters: Vec<_> = (0..self.reporters as u32)
            .map(|reporter| tasks.spawn(publish::<W>(self, reporter, Arc::clone(&senders))))
            .collect();
        // The customers stop reading when no reporter can send any more.
        drop(senders);
        for reporter in reporters {
            reporter.await;
        }
        let mut all = Read::default();
        for customer in customers {
            let read = customer.await;
            all.messages += read.messages;
            all.misplaced += read.misplaced;
        }
        (start.elapsed(), all)
    }

    fn outcome(&self, elapsed: Duration, read: Read) -> Result<Outcome, LabError> {
        let deliveries = self.customers * self.reporters * self.messages;
        let expected = Read {
            messages: deliveries,
            misplaced: 0,
        };
        check("messages read", &read, &expected)?;
        Ok(per_step(deliveries, elapsed, "ns_per_delivery"))
    }
}

async fn publish<W: Actors>(plan: Plan, reporter: u32, senders: Arc<Vec<W::Sender<Message>>>) {
    for number in 0..plan.messages as u32 {
        for customer in senders.iter() {
            W::send(customer, Message { reporter, number }).await;
        }
    }
}

async fn customer<W: Actors>(reporters: u64, mut mailbox: W::Receiver<Message>) -> Read {
    let mut next = vec![0; reporters as usize];
    let mut read = Read::default();
    while let Some(message) = W::recv(&mut mailbox).await {
        let next = &mut next[message.reporter as usize];
        read.messages += 1;
        read.misplaced += u64::from(message.number != *next);
        *next = message.number + 1;
    }
    read
}
