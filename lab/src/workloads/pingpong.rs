//! *pingpong*: tasks that wait for each other's messages. One round trip at a time: nothing can be done
//! ahead.
//!
//! ```text
//!  channel   A ──▶ channel ──▶ B ──▶ channel ──▶ A
//!  oneshot   A ──▶ channel: question and a promise ──▶ B ──▶ the promise ──▶ A
//!  fan       A ──▶ a channel each ──▶ B1 … Bn ──▶ one channel ──▶ A     a round is `fan` messages and back
//! ```
//!
//! The answering task adds one, and A checks the answer: a message that is lost, doubled or overtaken is
//! found at once.

use std::time::Duration;

use crate::kit::host;
use crate::prelude::*;

#[derive(Clone, Copy)]
enum Form {
    Channel,
    Oneshot,
    Fan,
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    form: Form,
    capacity: usize,
    fan: u64,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "pingpong",
        about: "tasks that wait for each other's messages, one round trip at a time",
        unit: "round trips",
        params: params! {
            Param::number("n", "1m", 1, 1_000_000_000, "round trips");
            Param::word("form", "channel", &["channel", "oneshot", "fan"],
                "channel: there and back over two channels; oneshot: the answer through a promise that goes with \
                 the question; fan: one task to `fan` others, each over its own channel, and back over one for \
                 all");
            Param::number("capacity", "1", 1, 1 << 20, "values that a channel has room for");
            Param::number("fan", "8", 1, 4096, "tasks that answer, in the form fan");
            STYLE;
        },
        variants: variants! {
            Variant::new("oneshot", &[("form", "oneshot")], "question over a channel, answer through a promise");
            Variant::new("fan", &[("form", "fan"), ("n", "100k")], "one task to eight, and eight to one");
            FIBERS;
        },
        smoke: &[("n", "500")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Waits;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go"];

    fn caveat(request: &Request) -> Option<Caveat> {
        let oneshot = request.params.word("form") == "oneshot";
        Some(match request.runtime.as_str() {
            "may" if oneshot => Caveat::other("no promises: a channel stands for them"),
            "may" => Caveat::same("its channels have no bound"),
            "smol" if oneshot => Caveat::other("no promises: a channel of one place stands for them"),
            _ => return None,
        })
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
            form: match params.word("form") {
                "oneshot" => Form::Oneshot,
                "fan" => Form::Fan,
                _ => Form::Channel,
            },
            capacity: params.number("capacity") as usize,
            fan: params.number("fan"),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            n: (self.n / 10).max(1),
            ..*self
        })
    }

    fn waits<P: TaskPool<Tasks: Promises>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let tasks = pool.tasks();
        let messages = match self.form {
            Form::Fan => self.fan,
            Form::Channel | Form::Oneshot => 1,
        };
        let (elapsed, sum) = match self.form {
            Form::Channel => inside(pool, channel(tasks, self.n, self.capacity))?,
            Form::Oneshot => inside(pool, oneshot(tasks, self.n, self.capacity))?,
            Form::Fan => inside(pool, fan(tasks, self.n, self.fan, self.capacity))?,
        };
        // In round i each answer is i + 1.
        let expected = messages * (self.n * (self.n + 1) / 2);
        check("sum of the answers", &sum, &expected)?;
        let trips = self.n * messages;
        let nanos = elapsed.as_nanos() as f64 / trips as f64;
        Ok(Outcome::new(trips, elapsed).with_measure("ns_per_round_trip", nanos))
    }
}

/// The time of the run, and the sum of the answers: a task that went away in the middle shows in it.
type Answers = (Duration, u64);

async fn channel<W: Promises>(tasks: W, n: u64, capacity: usize) -> Answers {
    let (ping, mut asked) = W::channel(capacity);
    let (answer, mut pong) = W::channel(capacity);
    let other = tasks.spawn(async move {
        while let Some(number) = W::recv::<u64>(&mut asked).await {
            if !W::send(&answer, number + 1).await {
                break;
            }
        }
    });
    let start = host::now();
    let mut sum = 0;
    for i in 0..n {
        W::send(&ping, i).await;
        sum += W::recv::<u64>(&mut pong).await.unwrap_or_default();
    }
    let elapsed = host::since(start);
    drop(ping);
    other.await;
    (elapsed, sum)
}

async fn oneshot<W: Promises>(tasks: W, n: u64, capacity: usize) -> Answers {
    let (ping, mut asked) = W::channel::<(u64, W::Promise)>(capacity);
    let other = tasks.spawn(async move {
        while let Some((number, promise)) = W::recv(&mut asked).await {
            W::keep(promise, number + 1);
        }
    });
    let start = host::now();
    let mut sum = 0;
    for i in 0..n {
        let (promise, promised) = W::promise();
        W::send(&ping, (i, promise)).await;
        sum += W::promised(promised).await.unwrap_or_default();
    }
    let elapsed = host::since(start);
    drop(ping);
    other.await;
    (elapsed, sum)
}

async fn fan<W: Promises>(tasks: W, n: u64, fan: u64, capacity: usize) -> Answers {
    let (answer, mut answers) = W::channel(capacity);
    let mut pings = Vec::new();
    let mut others = Vec::new();
    for _ in 0..fan {
        let (ping, mut asked) = W::channel(capacity);
        let answer = answer.clone();
        others.push(tasks.spawn(async move {
            while let Some(number) = W::recv::<u64>(&mut asked).await {
                if !W::send(&answer, number + 1).await {
                    break;
                }
            }
        }));
        pings.push(ping);
    }
    let start = host::now();
    let mut sum = 0;
    for i in 0..n {
        for ping in &pings {
            W::send(ping, i).await;
        }
        for _ in 0..fan {
            sum += W::recv::<u64>(&mut answers).await.unwrap_or_default();
        }
    }
    let elapsed = host::since(start);
    drop(pings);
    for other in others {
        other.await;
    }
    (elapsed, sum)
}
