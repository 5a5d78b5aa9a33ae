//! `try`: runs any program under each policy and number of workers, and compares them with how it is.
//!
//! The program is told by environment variables, and each of its pools answers with a line of figures: see
//! `trial::child`. The first run is without a setting. It shows which of them the program would follow.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::seconds;
use crate::error::LabError;
use crate::interrupt;
use crate::lab::{Lab, check_workers};
use crate::measured::{Outputs, Papers};
use crate::trial::{Child, Ending, Plan, Pool, Process, Setting, Trial, usual_workers};
use crate::workload::{Policies, Variables};

/// `try`.
#[derive(Args, Debug)]
pub(crate) struct TryArgs {
    /// Policies; may be repeated, or a list with commas [default: those that differ most]
    #[arg(
        short,
        long = "policies",
        alias = "policy",
        value_name = "POLICY",
        value_delimiter = ','
    )]
    policies: Vec<String>,

    /// Numbers of workers, a list with commas [default: 1, half and all of the machine's]
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    workers: Vec<usize>,

    /// Rounds at most; the first is not counted unless it is the only one
    #[arg(long, value_name = "N", default_value_t = 11)]
    repeat: usize,

    /// No round but the first is begun that would end later than this
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = seconds, allow_negative_numbers = true)]
    budget: u64,

    /// Seconds after which a run is ended, with all processes that it has started
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 120.0,
        allow_negative_numbers = true
    )]
    timeout: f64,

    /// The program's standard input, for each run anew [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Does not measure how long steps take and wait, which costs each step some 10 ns
    #[arg(long)]
    without_delays: bool,

    /// Gives the advice even if other processes use the machine
    #[arg(long)]
    despite_load: bool,

    #[command(flatten)]
    outputs: Outputs,

    /// Writes all runs and conclusions as one JSON document
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The program, with its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Tries.
pub(crate) fn run(lab: &Lab, arguments: &TryArgs) -> Result<(), LabError> {
    let (policies, variables) = lab
        .home()
        .and_then(|(_, policies)| Some((policies, policies.variables()?)))
        .ok_or_else(|| {
            LabError::Usage(String::from(
                "try: no runtime here is told its policy by variables",
            ))
        })?;
    for policy in &arguments.policies {
        policies.check(policy)?;
    }
    for workers in &arguments.workers {
        check_workers(*workers)?;
    }
    if arguments.repeat == 0 {
        return Err(LabError::Usage(String::from(
            "--repeat 0: at least one round is needed",
        )));
    }
    let timeout = Duration::try_from_secs_f64(arguments.timeout)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| LabError::Usage(format!("--timeout {}: a run needs some time", arguments.timeout)))?;
    let words: Vec<_> = arguments
        .program
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let (title, name) = (words.join(" "), name_of(&words[0]));
    let usual = format!("reports/try-{name}.html");
    let process = Process::new(&arguments.program, arguments.input.as_ref(), timeout, variables)?;
    let open = || Papers::open(&arguments.outputs, Some(&usual), arguments.json.as_ref());
    let start = || {
        let first = process.run(&Setting::default(), false);
        match interrupt::is_asked() {
            true => Err(LabError::Interrupted(String::from("no round was finished"))),
            false => first,
        }
    };
    // Our own folder is made only for a program that can be started.
    let (papers, first) = if arguments.outputs.names_report() {
        let papers = open()?;
        (papers, start()?)
    } else {
        let first = start()?;
        (open()?, first)
    };
    let found = Found::of(&first, variables, policies, arguments);
    let mut plan = Plan::new(title, found.settings, Some(Duration::from_secs(arguments.budget)));
    plan.rounds = arguments.repeat;
    plan.measures = !arguments.without_delays;
    plan.despite = "`--despite-load`";
    if arguments.despite_load {
        plan.most_load = 1.0;
    }
    let mut trial = Trial::run(&plan, |setting, measures| process.attempt(setting, measures))?;
    trial.notes.extend(found.notes);
    trial.describe_baseline(found.detail);
    let printed = writeln!(io::stdout(), "\n{trial}").map_err(LabError::from);
    let written = papers.finish(
        &mut io::stdout().lock(),
        || trial.html(),
        || trial.document(),
        || trial.lines(),
    );
    printed.and(written)?;
    if trial.is_interrupted() {
        return Err(LabError::Interrupted(String::from(
            "the figures are those of the rounds before",
        )));
    }
    // The reasons are on both streams already.
    let failures = trial
        .failures()
        .map(|failure| failure.split(": ").next().unwrap_or_default());
    let failures: Vec<&str> = failures.collect();
    match (failures.as_slice(), found.refusal) {
        ([], None) => Ok(()),
        ([], Some(refusal)) => Err(LabError::Usage(refusal)),
        (failures, _) => Err(LabError::Incomplete(failures.join(", "))),
    }
}

/// The last part of a path, for the name of a file.
fn name_of(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let plain = |letter: char| if letter.is_alphanumeric() { letter } else { '-' };
    name.chars().map(plain).collect()
}

/// The pools in words.
fn described(pools: &[Pool], policies: &dyn Policies) -> String {
    let names = policies.named().into_iter().map(|(name, _)| name);
    let known: Vec<&str> = policies.tried().iter().copied().chain(names).collect();
    let short = |text: &str| {
        let found = known.iter().find(|name| policies.canonical(name) == text);
        let name = found.map(|name| (*name).to_owned());
        // What cannot be typed is a type of the program.
        name.or_else(|| policies.check(text).is_ok().then(|| text.to_owned()))
    };
    let mut words: Vec<String> = pools.iter().map(|pool| pool.words(short)).collect();
    words.dedup();
    match (words.as_slice(), pools.len()) {
        ([], _) => String::new(),
        ([one], 1) => one.clone(),
        ([one], count) => format!("{count} pools of {one}"),
        ([one, other], 2) => format!("{one} and {other}"),
        ([one, ..], count) => format!("{count} pools, such as {one}"),
    }
}

/// What the first run showed.
struct Found {
    settings: Vec<Setting>,
    /// What the program has without being told.
    detail: String,
    notes: Vec<String>,
    /// The reason if there is nothing to compare.
    refusal: Option<String>,
}

impl Found {
    fn of(first: &Child, variables: Variables, policies: &dyn Policies, arguments: &TryArgs) -> Self {
        let pools = &first.pools;
        let mut found = Self {
            settings: vec![Setting::default()],
            detail: String::new(),
            notes: Vec::new(),
            refusal: None,
        };
        if pools.is_empty() && first.ending == Ending::Well {
            found.refusal = Some(format!(
                "the program ignores the environment: none of its pools wrote a line to the file that {} names. It \
                 uses another runtime (or rayon without the line of `compat/rayon-core` in its Cargo.toml), or an older \
                 version of this one, or it ends by an abort or `_exit`",
                variables.stats
            ));
            return found;
        }
        found.detail = described(pools, policies);
        let fixed = |from: fn(&Pool) -> &str| {
            let names = pools.iter().filter(|pool| from(pool) == "program");
            names.map(|pool| format!("`{}`", pool.pool)).collect::<Vec<_>>()
        };
        let (policy_is, workers_is) = (fixed(|pool| &pool.policy_from), fixed(|pool| &pool.workers_from));
        let mut chosen: Vec<&str> = arguments.policies.iter().map(String::as_str).collect();
        if chosen.is_empty() {
            chosen = policies.tried().to_vec();
        }
        let mut workers: Vec<Option<usize>> = match arguments.workers.as_slice() {
            [] => usual_workers().into_iter().map(Some).collect(),
            named => named.iter().copied().map(Some).collect(),
        };
        let some = |names: &[String]| !names.is_empty() && names.len() < pools.len();
        for (names, what, method) in [
            (&policy_is, "policy", "policy"),
            (&workers_is, "workers", "workers"),
        ] {
            if some(names) {
                found.notes.push(format!(
                    "The program sets the {what} of {} itself: there it stays as it is, and only its other pools change. \
                     With Builder::default_{method} in the place of Builder::{method} all change.",
                    names.join(", ")
                ));
            }
        }
        if !pools.is_empty() && policy_is.len() == pools.len() {
            chosen.clear();
            found.notes.push(format!(
                "The program sets the policy of {} itself, so {} has no effect there. With Builder::default_policy in \
                 the place of Builder::policy it has.",
                policy_is.join(", "),
                variables.policy
            ));
        }
        if !pools.is_empty() && workers_is.len() == pools.len() {
            workers.clear();
            found.notes.push(format!(
                "The program sets the workers of {} itself, so {} has no effect there. With \
                 Builder::default_workers in the place of Builder::workers it has.",
                workers_is.join(", "),
                variables.workers
            ));
        }
        if workers.is_empty() {
            workers.push(None);
        }
        let mut policies_tried: Vec<Option<&str>> = chosen.into_iter().map(Some).collect();
        if policies_tried.is_empty() && workers.iter().any(Option::is_some) {
            policies_tried.push(None);
        }
        for count in &workers {
            for policy in &policies_tried {
                let setting = Setting {
                    policy: policy.map(str::to_owned),
                    workers: *count,
                };
                // A pool that the program sets itself is the same in each setting.
                let same = |pool: &Pool| {
                    let is_fixed = |from: &str| from == "program";
                    let policy = is_fixed(&pool.policy_from)
                        || policy.is_none_or(|text| policies.canonical(text) == pool.policy);
                    let workers =
                        is_fixed(&pool.workers_from) || count.is_none_or(|count| count == pool.workers);
                    policy && workers
                };
                if pools.is_empty() || !pools.iter().all(same) {
                    found.settings.push(setting);
                }
            }
        }
        if found.settings.len() == 1 {
            found.refusal = Some(match found.notes.is_empty() {
                true => {
                    String::from("the program has already what was to be tried: there is nothing to compare")
                }
                false => format!("nothing can be compared. {}", found.notes.join(" ")),
            });
        }
        found
    }
}
