//! *idle*: a rank waits for a message and has nothing else to do. How often it wakes, and what that costs.

use crate::idioms::WarpweftTasks;
use crate::workload::{Figure, OURS_ALONE, Setting, Workload};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Idle {
    time: Duration,
}

/// After this time, a rank sleeps.
const SETTLED: Duration = Duration::from_millis(200);

impl Workload for Idle {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "idle",
        about: "a rank waits for a message and has nothing else to do; the amount is milliseconds",
        amount: 3000,
        smoke: 100,
        jobs: &[(2, 1), (4, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self {
            time: Duration::from_millis(amount as u64),
        }
    }

    fn lacks(&self, contestant: &str, _: usize, _: usize) -> Option<&'static str> {
        (contestant != "warpweft").then_some(OURS_ALONE)
    }

    async fn warpweft<W: WarpweftTasks>(self, on: W) -> Vec<Figure> {
        let (rank, ranks) = (on.rank(), on.size());
        let receive = on.recv((rank + ranks - 1) % ranks, 1, vec![0]);
        on.barrier().await;
        let time = self.time;
        // A thread beside the runtime looks: the rank sleeps from before the first look until after the last.
        let looks = std::thread::spawn(move || {
            std::thread::sleep(SETTLED);
            let (slept, used) = (sleeps(), cpu());
            std::thread::sleep(time);
            (sleeps() - slept, cpu() - used)
        });
        on.sleep(SETTLED * 2 + time).await;
        let (slept, used) = looks.join().expect("no panic");
        on.send((rank + 1) % ranks, 1, vec![7]).await;
        assert_eq!(receive.await, [7]);
        let seconds = time.as_secs_f64();
        vec![
            Figure::less("wake-ups", slept as f64 / seconds, "/s"),
            Figure::less("of a core", 100.0 * used / seconds, "%"),
        ]
    }
}

/// Returns how often the other threads of this process have slept.
fn sleeps() -> u64 {
    let own = std::fs::read_link("/proc/thread-self").expect("this is Linux");
    let tasks = std::fs::read_dir("/proc/self/task").expect("as above").flatten();
    tasks
        .filter(|task| Some(task.file_name().as_os_str()) != own.file_name())
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|status| {
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

/// The processor time of this process, in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
