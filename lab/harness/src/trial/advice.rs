//! One or two sentences: whether a setting is better than the program as it is, and by how much.
//!
//! The setting with the best median is compared with the baseline in pairs, round by round. An interval that
//! holds 1 shows nothing, and the advice is to change nothing. The error of each interval is divided by the
//! number of settings (Bonferroni): with 95 % no setting is called better that is not. A difference below
//! [`LEAST`] is not worth a change.

use super::{SettingRuns, Trial};
use crate::stats::{LEAST, Ratio, pairs_needed};
use crate::table::withheld;
use crate::text::{list, nanos, times};

impl Trial {
    /// Returns which setting to take, compared with the program as it is.
    pub fn advice(&self) -> String {
        if self.by_wall().is_empty() {
            return String::from("Nothing completed, so there is nothing to advise.");
        }
        let Some(baseline) = self.baseline().filter(|cell| cell.wall().is_some()) else {
            return self.without_baseline();
        };
        let (is, others) = (described(baseline), self.by_wall());
        if others.len() < 2 {
            return format!(
                "Nothing but the program {is} could be measured, so there is nothing to compare."
            );
        }
        let compared = others.len() - 1;
        let needed = pairs_needed(compared);
        if baseline.count() < needed {
            let hint = self
                .hint
                .as_ref()
                .map_or_else(String::new, |hint| format!(": {hint}"));
            return format!(
                "Nothing can be told apart in so few rounds ({} counted, {needed} are needed){hint}.",
                baseline.count()
            );
        }
        if let Some(withheld) = withheld(self.others, self.most_load, self.despite) {
            return withheld;
        }
        let faster = |cell: &&SettingRuns| shown(cell.speed_up_among(baseline, compared), true);
        let better: Vec<&SettingRuns> = others.iter().copied().filter(faster).collect();
        let mut advice = match better.as_slice() {
            [] => {
                let least = LEAST * 100.0;
                format!(
                    "Leave it {is}: no setting is better by {least:.0} % or more, as far as this machine can show."
                )
            }
            [best, rest @ ..] => best_of(best, rest, baseline, &is),
        };
        let lean = |cell: &&SettingRuns| {
            shown(cell.cpu_ratio_among(baseline, compared), false) && !shown_slower(cell, baseline)
        };
        let mut leaner: Vec<&SettingRuns> = others.iter().copied().filter(lean).collect();
        leaner.sort_by(|a, b| median_cpu(a).total_cmp(&median_cpu(b)));
        if let Some(cell) = leaner.first() {
            let ratio = cell.cpu_ratio(baseline).map_or(1.0, |ratio| ratio.median);
            let what = cell.setting.words();
            advice += &format!(
                " The least processor time without a loss of speed has {what}: {} of what it has as it is.",
                times(ratio)
            );
        }
        advice
    }

    fn without_baseline(&self) -> String {
        match self.by_wall().first() {
            Some(best) => format!(
                "The program as it is did not complete, so there is nothing to compare with; the fastest that did \
                 is {} ({}).",
                best.setting.words(),
                best.wall()
                    .map_or_else(String::new, |wall| nanos(wall.median * 1e9))
            ),
            None => String::from("Nothing completed, so there is nothing to advise."),
        }
    }

    /// The cells with figures, fastest first.
    fn by_wall(&self) -> Vec<&SettingRuns> {
        let mut cells: Vec<&SettingRuns> = self.cells.iter().filter(|cell| cell.wall().is_some()).collect();
        cells.sort_by(|a, b| median_wall(a).total_cmp(&median_wall(b)));
        cells
    }
}

fn median_wall(cell: &SettingRuns) -> f64 {
    cell.wall().map_or(f64::INFINITY, |wall| wall.median)
}

fn median_cpu(cell: &SettingRuns) -> f64 {
    cell.cpu().map_or(f64::INFINITY, |cpu| cpu.median)
}

/// Returns true if the pairs show that the ratio is above 1, or below, and if it is so by [`LEAST`].
fn shown(ratio: Option<Ratio>, above: bool) -> bool {
    ratio.is_some_and(|ratio| {
        let factor = if above { ratio.median } else { 1.0 / ratio.median };
        ratio.is_shown() && factor >= 1.0 + LEAST
    })
}

/// Returns true if a setting lost some speed, however little.
fn shown_slower(cell: &SettingRuns, baseline: &SettingRuns) -> bool {
    cell.speed_up(baseline)
        .is_some_and(|ratio| ratio.is_shown() && ratio.median < 1.0)
}

/// "as it is (`fifo` on 2 workers, 1.60 s)".
fn described(baseline: &SettingRuns) -> String {
    let wall = nanos(median_wall(baseline) * 1e9);
    match baseline.detail.as_str() {
        "" => format!("as it is ({wall})"),
        detail => format!("as it is ({detail}, {wall})"),
    }
}

fn best_of(best: &SettingRuns, rest: &[&SettingRuns], baseline: &SettingRuns, is: &str) -> String {
    let ratio = best.speed_up(baseline).map_or(1.0, |ratio| ratio.median);
    // A pair that shows the other one ahead contradicts the medians: no difference to speak of either.
    let ties: Vec<String> = rest
        .iter()
        .filter(|other| !shown(best.speed_up(other), true))
        .map(|other| other.setting.words())
        .collect();
    let ties = if ties.is_empty() {
        String::new()
    } else {
        format!("; no difference to {} that this machine can show", list(&ties))
    };
    format!(
        "Take {} ({}): {} as fast as the program {is}, more than the spread{ties}.",
        best.setting.words(),
        nanos(median_wall(best) * 1e9),
        times(ratio)
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::trial;

    #[test]
    fn a_setting_that_is_faster_is_compared_with_the_program_as_it_is_and_not_with_the_worst() {
        let text = trial(
            &[
                ("as it is", 100.0),
                ("lifo", 80.0),
                ("slot", 90.0),
                ("deque", 300.0),
            ],
            9,
            0.0,
        )
        .advice();
        assert!(
            text.starts_with("Take `lifo` (80.1 ms): 1.25× as fast as the program as it is (100 ms)"),
            "{text}"
        );
        assert!(!text.contains("deque"), "{text}");
        assert!(
            text.contains("The least processor time without a loss of speed has `lifo`: 0.80×"),
            "{text}"
        );
    }

    #[test]
    fn a_difference_below_three_percent_is_no_advice() {
        let text = trial(&[("as it is", 100.0), ("lifo", 98.0), ("slot", 98.5)], 11, 0.0).advice();
        assert!(
            text.starts_with("Leave it as it is (100 ms): no setting is better by 3 % or more"),
            "{text}"
        );
        assert!(!text.contains("processor time"), "{text}");
    }

    #[test]
    fn many_settings_need_more_rounds() {
        let names: Vec<String> = (0..20).map(|number| format!("slot:{number}")).collect();
        let mut times = vec![("as it is", 100.0)];
        times.extend(names.iter().map(|name| (name.as_str(), 80.0)));
        let text = trial(&times, 9, 0.0).advice();
        assert!(
            text.contains("so few rounds (8 counted, 10 are needed)"),
            "{text}"
        );
        assert!(text.contains("advice needs `--repeat 11`"), "{text}");
        assert!(trial(&times, 11, 0.0).advice().starts_with("Take `slot:"));
    }

    #[test]
    fn nothing_is_changed_for_nothing() {
        let text = trial(&[("as it is", 100.0), ("lifo", 100.0), ("deque", 120.0)], 9, 0.0).advice();
        assert!(text.starts_with("Leave it as it is (100 ms)"), "{text}");
    }

    #[test]
    fn advice_is_withheld_where_it_would_mean_nothing() {
        let times = [("as it is", 100.0), ("lifo", 80.0)];
        let text = trial(&times, 9, 0.74).advice();
        assert!(
            text.contains("other processes used 74 %") && !text.contains("lifo"),
            "{text}"
        );
        // A program has no flag to give.
        assert!(
            text.contains("with `Plan::most_load`") && !text.contains("--"),
            "{text}"
        );
        let text = trial(&times, 3, 0.0).advice();
        assert!(text.contains("so few rounds (2 counted, 6 are needed)"), "{text}");
        let text = trial(&times[..1], 9, 0.0).advice();
        assert!(text.contains("nothing to compare"), "{text}");
    }
}
