//! *yield*: each task yields, over and over.
//!
//! With one task per worker there is nothing to yield to; with a hundred, each waits for its turn.

use crate::kit::task_bench::Window;
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: usize,
    window: Window,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "yield",
        about: "tasks that give way, over and over",
        unit: "yields",
        params: params! {
            per_worker("tasks", "tasks for each worker");
            MS;
            CLOCK;
            STYLE;
        },
        variants: variants! {
            Variant::new("one", &[("tasks", "1")], "a task for each worker: there is nothing to give way to");
            CLOCKED;
            FIBERS;
        },
        smoke: &[("tasks", "3"), ("ms", "20")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Parks;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "java"];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        Ok(Self {
            tasks: params.number("tasks") as usize * workers,
            window: Window::new(params, workers),
        })
    }

    fn parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let api = pool.tasks();
        let counted = self.window.count(
            pool,
            self.tasks,
            |_| true,
            move |bench, slot| async move {
                let own = bench.enter(slot).await;
                let mut turns = 0;
                while !bench.is_over() {
                    turns += 1;
                    own.turn(turns, &bench);
                    api.yield_now().await;
                }
            },
        )?;
        Ok(counted.outcome(1))
    }
}
