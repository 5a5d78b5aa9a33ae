//! One sentence: which policy to take for which objective, and whether the difference is one.
//!
//! For each objective the best cell (policy and worker count) is the one with the best median. Every other
//! *policy*, at its own best worker count, is then compared with it in pairs, round by round. A policy whose
//! interval holds 1 cannot be told from the best, and the sentence says so. Any policy could have been the
//! best, so the error of each interval is divided by the number of pairs of policies, for all objectives
//! (Bonferroni). A difference below [`LEAST`] is none. How much better the best is, is
//! said against the default policy, which is what a program has that chooses nothing. A peer that is better
//! than the best policy is named. Beside others on the machine there is no advice.

use std::collections::BTreeSet;

use crate::lab::Chosen;
use crate::record::Outcome;
use crate::session::{CellRuns, Session};
use crate::stats::{LEAST, Ratio, family_error, least_sample, median, paired_ratio_within};
use crate::summary::{Row, p99, throughput};
use crate::table::withheld;
use crate::text::{list, nanos, si, times, workers};
use crate::workload::About;

/// The figure that a policy is chosen for.
#[derive(Clone, Copy)]
enum Objective {
    Throughput,
    P99,
    /// The smaller of the two losses against the best of each; holds the best throughput and the best p99.
    Both(f64, f64),
}

impl Objective {
    /// The figure to make large.
    fn merit(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Self::Throughput => throughput(outcome),
            Self::P99 => p99(outcome).map(|p99| 1.0 / p99.max(1.0)),
            Self::Both(best_throughput, best_p99) => {
                let loss =
                    (best_throughput / throughput(outcome)?.max(1e-9)).max(p99(outcome)? / best_p99.max(1.0));
                Some(1.0 / loss)
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P99 => "p99",
            Self::Both(..) => "both",
        }
    }
}

/// The number of comparisons of that many policies: each pair of them, for each objective.
pub(crate) fn comparisons(policies: usize, about: &About) -> usize {
    let objectives = if about.latency.is_none() || about.open_load {
        1
    } else {
        3
    };
    policies * policies.saturating_sub(1) / 2 * objectives
}

/// Returns true if the pairs show that the ratio is above 1, and if it is so by [`LEAST`].
fn is_lead(ratio: &Ratio) -> bool {
    ratio.is_shown() && ratio.median >= 1.0 + LEAST
}

/// The best cell for an objective and the other policies beside it.
struct Recommendation<'a> {
    objective: Objective,
    best: &'a CellRuns,
    /// Policies that cannot be told from the best.
    ties: Vec<String>,
    /// The best of the others, with best ÷ other.
    next: Option<(String, Ratio)>,
    /// The default policy at its own best worker count, with best ÷ default; `None` if it was not measured.
    default: Option<(String, Option<Ratio>)>,
    /// The best of the peers that are better.
    peer: Option<BetterPeer>,
}

/// A peer that is better for an objective.
struct BetterPeer {
    name: String,
    /// Peer ÷ best.
    ratio: Ratio,
    /// The p99.9 of the peer and of the best, if the objective is a latency and the peer's is the longer one.
    worse_tail: Option<(f64, f64)>,
}

/// The sentence for the policies of a session.
pub(crate) fn advise(
    session: &Session,
    rows: &[Row],
    chosen: &Chosen,
    default: Option<&str>,
    most_load: f64,
) -> String {
    let policies: BTreeSet<_> = session
        .cells
        .iter()
        .filter_map(|cell| cell.cell.policy.as_ref())
        .collect();
    let error = family_error(comparisons(policies.len(), chosen.workload.about()));
    // In so few rounds nothing is told apart in any case.
    if session.counted_rounds() >= least_sample(error)
        && let Some(withheld) = withheld(session.others, most_load, "`--despite-load`")
    {
        return withheld;
    }
    let of = |policies: bool| -> Vec<&CellRuns> {
        let cells = session.cells.iter().zip(rows);
        let wanted = cells.filter(|(_, row)| row.is_policy == policies);
        wanted.map(|(cell, _)| cell).collect()
    };
    let (cells, mut peers) = (of(true), of(false));
    // A peer that did something else is no alternative.
    peers.retain(|peer| !peer.remark.is_some_and(|remark| remark.differs));
    let verdict = |objective| verdict(session, &cells, &peers, default, objective, error);
    let Some(fastest) = verdict(Objective::Throughput) else {
        return String::from("No policy was measured, so there is none to advise.");
    };
    let mut quickest = verdict(Objective::P99);
    if chosen.workload.about().open_load
        && let Some(only) = quickest.take()
    {
        let sentence = no_difference(session, &only, None, chosen, error);
        return sentence.unwrap_or_else(|| capital(&clause(&only, chosen, &mut Vec::new())) + ".");
    }
    if let Some(sentence) = no_difference(session, &fastest, quickest.as_ref(), chosen, error) {
        return sentence;
    }
    // What was said of a peer is not said again for both objectives together.
    let mut named = Vec::new();
    let mut clauses = vec![clause(&fastest, chosen, &mut named)];
    if let Some(quickest) = quickest {
        clauses.push(clause(&quickest, chosen, &mut named));
        let best = |cell: &CellRuns, figure: fn(&Outcome) -> Option<f64>| {
            median(&cell.sample(figure)).unwrap_or(1.0)
        };
        let both = Objective::Both(best(fastest.best, throughput), best(quickest.best, p99));
        clauses.extend(verdict(both).map(|balanced| clause(&balanced, chosen, &mut named)));
    }
    capital(&clauses.join("; ")) + "."
}

/// The text with a capital letter.
fn capital(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    text
}

/// The best cell, and what can be said about the others.
fn verdict<'a>(
    session: &Session,
    cells: &[&'a CellRuns],
    peers: &[&CellRuns],
    default: Option<&str>,
    objective: Objective,
    error: f64,
) -> Option<Recommendation<'a>> {
    let merit = |cell: &CellRuns| median(&cell.sample(|outcome| objective.merit(outcome)));
    // Per policy the worker count that serves it best, best policy first.
    let mut champions: Vec<(f64, &'a CellRuns)> = Vec::new();
    for cell in cells {
        let Some(value) = merit(cell) else { continue };
        match champions
            .iter_mut()
            .find(|(_, other)| other.cell.policy == cell.cell.policy)
        {
            Some(champion) if champion.0 < value => *champion = (value, cell),
            Some(_) => {}
            None => champions.push((value, cell)),
        }
    }
    champions.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, best) = *champions.first()?;
    let by_round = |cell: &CellRuns| cell.by_round(session.rounds, |outcome| objective.merit(outcome));
    let of_best = by_round(best);
    let mut ties = Vec::new();
    let mut next = None;
    for (_, other) in &champions[1..] {
        match paired_ratio_within(&of_best, &by_round(other), error) {
            // A pair that shows the other one ahead contradicts the medians: no difference to speak of
            // either.
            Some(ratio) if is_lead(&ratio) => {
                next.get_or_insert((other.cell.contestant(), ratio));
            }
            _ => ties.push(other.cell.contestant()),
        }
    }
    let of_default = champions
        .iter()
        .find(|(_, cell)| cell.cell.policy.as_deref() == default);
    let default = of_default.filter(|_| default.is_some()).map(|(_, cell)| {
        let is_best = std::ptr::eq(*cell, best);
        let ratio = (!is_best)
            .then(|| paired_ratio_within(&of_best, &by_round(cell), error))
            .flatten();
        (cell.cell.contestant(), ratio)
    });
    let better = |peer: &&CellRuns| {
        let ratio = paired_ratio_within(&by_round(peer), &of_best, error)?;
        let name = format!("`{}` on {}", peer.cell.contestant(), workers(peer.cell.workers));
        let tail = |cell: &CellRuns| median(&cell.sample(p999));
        let tails = tail(peer).zip(tail(best));
        let is_latency = !matches!(objective, Objective::Throughput);
        is_lead(&ratio).then_some(BetterPeer {
            name,
            ratio,
            worse_tail: tails.filter(|(peer, best)| is_latency && peer > best),
        })
    };
    // One whose tail is not worse comes first.
    let key = |peer: &BetterPeer| (peer.worse_tail.is_none(), peer.ratio.median);
    let better = peers.iter().filter_map(better);
    let peer = better.max_by(|a, b| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
    Some(Recommendation {
        objective,
        best,
        ties,
        next,
        default,
        peer,
    })
}

/// The sentence for when no objective distinguishes any two policies.
fn no_difference(
    session: &Session,
    fastest: &Recommendation<'_>,
    quickest: Option<&Recommendation<'_>>,
    chosen: &Chosen,
    error: f64,
) -> Option<String> {
    let all_tie = |verdict: &Recommendation<'_>| verdict.next.is_none() && !verdict.ties.is_empty();
    if !all_tie(fastest) || !quickest.is_none_or(all_tie) {
        return None;
    }
    let best = |verdict: &Recommendation<'_>| {
        let cell = &verdict.best.cell;
        format!(
            "{} with `{}` on {}",
            figures(verdict, chosen),
            cell.contestant(),
            workers(cell.workers)
        )
    };
    let bests: Vec<String> = std::iter::once(fastest).chain(quickest).map(best).collect();
    let bests = list(&bests);
    let needed = least_sample(error);
    if session.counted_rounds() < needed {
        let hint = session.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
        return Some(format!(
            "Nothing can be told apart in so few rounds ({} counted, {needed} are needed{hint}; the best medians are {bests}).",
            session.counted_rounds()
        ));
    }
    let policies: Vec<String> = std::iter::once(fastest.best.cell.contestant())
        .chain(fastest.ties.clone())
        .map(|name| format!("`{name}`"))
        .collect();
    let what = match (quickest, fastest.objective) {
        (Some(_), _) => "throughput or p99",
        (None, objective) => objective.name(),
    };
    Some(format!(
        "Take whichever you like: between {} there is no difference in {what} that this machine can show (the best medians \
         are {bests}).",
        list(&policies)
    ))
}

/// The figures of the best cell that belong to the objective.
fn figures(verdict: &Recommendation<'_>, chosen: &Chosen) -> String {
    let cell = verdict.best;
    let throughput = median(&cell.sample(throughput))
        .map(|value| format!("{} {}/s", si(value), chosen.unit))
        .unwrap_or_default();
    let p99 = median(&cell.sample(p99))
        .map(|value| format!("p99 {}", nanos(value)))
        .unwrap_or_default();
    match verdict.objective {
        Objective::Throughput => throughput,
        Objective::P99 => p99,
        Objective::Both(..) => format!("{throughput} at {p99}"),
    }
}

/// "for throughput take `lifo` on 2 workers (1.52 M packets/s, 1.06× the next, `fifo`)".
/// `named` has the peers that were named before.
fn clause(verdict: &Recommendation<'_>, chosen: &Chosen, named: &mut Vec<String>) -> String {
    let objective = verdict.objective;
    let cell = verdict.best;
    let best = format!("`{}` on {}", cell.cell.contestant(), workers(cell.cell.workers));
    let figures = figures(verdict, chosen);
    let quoted: Vec<String> = verdict.ties.iter().map(|name| format!("`{name}`")).collect();
    let wanted = match objective {
        Objective::Both(..) => String::from("where both count"),
        other => format!("for {}", other.name()),
    };
    let alternatives = list(&quoted);
    let peer = match &verdict.peer {
        Some(peer) if !(matches!(objective, Objective::Both(..)) && named.contains(&peer.name)) => {
            named.push(peer.name.clone());
            peer.words()
        }
        _ => String::new(),
    };
    let said = match (&verdict.next, verdict.ties.is_empty()) {
        (None, true) => format!("{wanted} take {best}, the only policy measured ({figures})"),
        (None, false) => format!(
            "{wanted} there is no difference that this machine can show between {best} ({figures}) and {alternatives}"
        ),
        (Some(_), true) => format!(
            "{wanted} take {best} ({figures}; {}more than the spread)",
            lead(verdict)
        ),
        (Some(_), false) => format!(
            "{wanted} take {best} ({figures}; no difference to {alternatives} that this machine can show, but {}more than \
             the spread)",
            lead(verdict)
        ),
    };
    said + &peer
}

/// The p99.9 in nanoseconds.
fn p999(outcome: &Outcome) -> Option<f64> {
    Some(outcome.latency.as_ref()?.p999 as f64)
}

impl BetterPeer {
    /// ", but the peer `rayon` on 2 workers is 1.20× better".
    fn words(&self) -> String {
        let (name, ratio) = (&self.name, times(self.ratio.median));
        match self.worse_tail {
            None => format!(", but the peer {name} is {ratio} better"),
            Some((peer, best)) => format!(
                ", and the peer {name} is no alternative: its p99 is {ratio} better, but its p99.9 is {} against {}",
                nanos(peer),
                nanos(best)
            ),
        }
    }
}

/// By how much the best is ahead of the default policy. It is the next best instead where the default is the
/// best itself, is not told from it, or was not measured.
fn lead(verdict: &Recommendation<'_>) -> String {
    let next = || {
        let next = verdict.next.as_ref();
        next.map_or_else(String::new, |(name, ratio)| {
            format!("{} better than `{name}`, ", times(ratio.median))
        })
    };
    match &verdict.default {
        Some((_, None)) => format!("it is the default; {}", next()),
        Some((name, Some(ratio))) if is_lead(ratio) => {
            format!("{} better than the default, `{name}`, ", times(ratio.median))
        }
        _ => next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{
        rows,
        tests::{Contestant, session},
    };
    use crate::testing::chosen;

    const STEADY: [f64; 12] = [
        1.0e6, 1.01e6, 0.99e6, 1.0e6, 1.02e6, 0.98e6, 1.0e6, 1.0e6, 1.01e6, 0.99e6, 1.0e6, 1.0e6,
    ];

    fn scaled(factor: f64) -> Vec<f64> {
        STEADY.iter().map(|value| value * factor).collect()
    }

    fn sentence(contestants: &[Contestant<'_>]) -> String {
        beside(contestants, 0.0)
    }

    /// The sentence on a machine of which others use that share.
    fn beside(contestants: &[Contestant<'_>], others: f64) -> String {
        let mut session = session(contestants);
        session.others = Some(others);
        let chosen = chosen("packet", true, &[]).unwrap();
        advise(
            &session,
            &rows(&session),
            &chosen,
            Some("fifo"),
            crate::table::LOADED,
        )
    }

    #[test]
    fn beside_others_there_is_no_advice() {
        let contestants: [Contestant<'_>; 2] = [
            ("warpweft", Some("fifo"), 2, &STEADY, 10),
            ("warpweft", Some("lifo"), 2, &scaled(1.2), 40),
        ];
        let text = beside(&contestants, 0.74);
        assert!(
            text.contains("other processes used 74 %") && !text.contains("lifo"),
            "{text}"
        );
        assert!(beside(&contestants, 0.1).contains("take `lifo`"));
    }

    #[test]
    fn the_lead_is_that_over_the_default_and_not_over_the_worst() {
        let text = sentence(&[
            ("warpweft", Some("fifo"), 2, &STEADY, 10),
            ("warpweft", Some("lifo"), 2, &scaled(1.5), 10),
            ("warpweft", Some("deque"), 2, &scaled(1.4), 10),
            ("warpweft", Some("slow"), 2, &scaled(0.1), 10),
        ]);
        assert!(text.contains("1.50× better than the default, `fifo`"), "{text}");
        assert!(!text.contains("slow`, more"), "{text}");
        let text = sentence(&[
            ("warpweft", Some("fifo"), 2, &STEADY, 10),
            ("warpweft", Some("lifo"), 2, &scaled(0.5), 10),
        ]);
        assert!(
            text.contains("it is the default; 2.00× better than `lifo`"),
            "{text}"
        );
    }

    #[test]
    fn each_objective_gets_its_policy_with_figures() {
        let text = sentence(&[
            ("warpweft", Some("fifo"), 2, &STEADY, 10),
            ("warpweft", Some("lifo"), 2, &scaled(1.2), 40),
            ("rayon", None, 2, &scaled(9.0), 1),
        ]);
        assert!(text.starts_with("For throughput take `lifo` on 2 workers (1.20 M packets/s; 1.20× better than the default, `fifo`, more than the spread), but the peer `rayon` on 2 workers is 7.50× better; "), "{text}");
        assert!(
            text.contains(
                "; for p99 take `fifo` on 2 workers (p99 10.0 µs; it is the default; 4.00× better than `lifo`"
            ),
            "{text}"
        );
        assert!(
            text.contains("; where both count take `fifo` on 2 workers (1.00 M packets/s at p99 10.0 µs"),
            "{text}"
        );
        assert!(!text.contains("take `rayon`"), "peers are no policies: {text}");
        assert!(
            text.ends_with('.') && !text.contains(". "),
            "one sentence: {text}"
        );
    }

    #[test]
    fn a_peer_with_a_worse_tail_is_no_alternative() {
        let fifo: Contestant<'_> = ("warpweft", Some("fifo"), 2, &STEADY, 40);
        let lifo: Contestant<'_> = ("warpweft", Some("lifo"), 2, &scaled(0.5), 400);
        let mut session = session(&[fifo, lifo, ("rayon", None, 1, &scaled(0.1), 1)]);
        for record in &mut session.cells[2].records {
            if let Some(latency) = &mut record.outcome.latency {
                latency.p999 = 456_000_000;
            }
        }
        let chosen = chosen("packet", true, &[]).unwrap();
        let text = advise(&session, &rows(&session), &chosen, Some("fifo"), 1.0);
        assert!(
            text.contains("the peer `rayon` on 1 worker is no alternative"),
            "{text}"
        );
        assert!(text.contains("its p99.9 is 456 ms against"), "{text}");
        assert_eq!(text.matches("rayon").count(), 1, "{text}");
    }

    #[test]
    fn noise_is_called_noise() {
        let noisy: Vec<f64> = STEADY
            .iter()
            .enumerate()
            .map(|(i, v)| v * if i % 2 == 0 { 1.1 } else { 0.92 })
            .collect();
        let lifo = |p99| ("warpweft", Some("lifo"), 2, noisy.as_slice(), p99);
        let text = sentence(&[("warpweft", Some("fifo"), 2, &STEADY, 10), lifo(10)]);
        assert!(text.starts_with("Take whichever you like: between `"), "{text}");
        assert!(
            text.contains("no difference in throughput or p99 that this machine can show"),
            "{text}"
        );
        let text = sentence(&[("warpweft", Some("fifo"), 2, &STEADY, 10), lifo(20)]);
        assert!(
            text.starts_with("For throughput there is no difference that this machine can show between"),
            "{text}"
        );
        assert!(text.contains("for p99 take `fifo`"), "{text}");
    }

    #[test]
    fn few_rounds_are_called_few() {
        let text = sentence(&[
            ("warpweft", Some("fifo"), 2, &STEADY[..4], 10),
            ("warpweft", Some("lifo"), 2, &STEADY[..4], 90),
        ]);
        assert!(
            text.starts_with("Nothing can be told apart in so few rounds (3 counted, 7 are needed"),
            "{text}"
        );
    }

    #[test]
    fn many_policies_need_more_rounds() {
        let names = ["fifo", "lifo", "deque", "slot", "chain", "go"];
        let of = |rounds: usize| {
            let fast = scaled(1.5);
            let contestants: Vec<Contestant<'_>> = names
                .iter()
                .map(|name| {
                    let rates = if *name == "lifo" { &fast } else { &STEADY.to_vec() };
                    ("warpweft", Some(*name), 2, rates[..rounds].to_vec(), 10)
                })
                .map(|(runtime, name, workers, rates, p99)| (runtime, name, workers, &*rates.leak(), p99))
                .collect();
            sentence(&contestants)
        };
        // 15 pairs and three objectives: 2·2⁻ⁿ ≤ 0.05/45 from eleven on.
        let text = of(9);
        assert!(text.contains("so few rounds (8 counted, 11 are needed"), "{text}");
        assert!(of(12).contains("For throughput take `lifo`"), "{}", of(12));
        let two = chosen("packet", true, &[]).unwrap();
        assert_eq!(comparisons(2, two.workload.about()), 3);
        let without_latency = chosen("spawn", true, &[]).unwrap();
        assert_eq!(comparisons(6, without_latency.workload.about()), 15);
        assert_eq!(comparisons(0, without_latency.workload.about()), 0);
    }

    #[test]
    fn a_difference_below_three_percent_is_no_advice() {
        let of = |factor| {
            sentence(&[
                ("warpweft", Some("fifo"), 2, &STEADY, 10),
                ("warpweft", Some("lifo"), 2, &scaled(factor), 10),
            ])
        };
        assert!(of(1.02).starts_with("Take whichever you like"), "{}", of(1.02));
        assert!(of(1.04).starts_with("For throughput take `lifo`"), "{}", of(1.04));
    }

    #[test]
    fn a_tie_with_one_is_told_from_a_lead_over_another() {
        let noisy: Vec<f64> = STEADY
            .iter()
            .enumerate()
            .map(|(i, v)| v * if i % 2 == 0 { 1.02 } else { 0.97 })
            .collect();
        let text = sentence(&[
            ("warpweft", Some("fifo"), 2, &STEADY, 10),
            ("warpweft", Some("lifo"), 2, &noisy, 10),
            ("warpweft", Some("lifo+steal=one"), 2, &scaled(0.5), 10),
        ]);
        assert!(text.contains("no difference to"), "{text}");
        assert!(text.contains("better than `lifo+steal=one`"), "{text}");
    }

    #[test]
    fn the_worker_count_is_chosen_with_the_policy() {
        let text = sentence(&[
            ("warpweft", Some("fifo"), 1, &scaled(0.5), 10),
            ("warpweft", Some("fifo"), 2, &STEADY, 30),
        ]);
        assert!(
            text.contains("for throughput take `fifo` on 2 workers, the only policy measured")
                || text.contains("For throughput take `fifo` on 2 workers, the only policy measured"),
            "{text}"
        );
        assert!(
            text.contains("for p99 take `fifo` on 1 worker, the only policy measured"),
            "{text}"
        );
    }

    #[test]
    fn without_policies_there_is_no_advice() {
        let text = sentence(&[("rayon", None, 2, &STEADY, 10)]);
        assert!(text.contains("No policy was measured"), "{text}");
    }
}
