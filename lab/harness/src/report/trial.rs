//! The page of a trial: advice, a chart of the times, all counters, and how it was measured.

use super::dots::{self, Dot};
use super::page::{begin, quoted, table};
use super::svg::escape;
use super::tables::counter_table;
use crate::stats::Spread;
use crate::text::nanos;
use crate::trial::{SettingRuns, TIME_HEADINGS, Trial, time_cells};

impl Trial {
    /// Returns the report: one page without scripts.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let lead = "Each setting in turn, round by round, against the program as it is";
        let mut html = begin("try", &format!("{title} · try"), &title, lead);
        for warning in self.warnings() {
            html += &format!("<p class=\"warning\">{}</p>", quoted(&warning));
        }
        html += &format!(
            "<section class=\"advice\"><p>{}</p></section>",
            quoted(&self.advice())
        );
        let wall = self.chart(SettingRuns::wall);
        let cpu = self.chart(SettingRuns::cpu);
        html += &format!(
            "<section><h2>Wall time</h2><p>Medians with quartiles. The dashed line is the program as it \
                 is.</p>{wall}</section><section><h2>Processor time</h2><p>Of all threads of the program.</p>{cpu}</section>"
        );
        html += &format!("<section><h2>Figures</h2>{}</section>", self.figures());
        if let Some(counters) = self.all_counters() {
            html += &format!(
                "<section><h2>Scheduler counters</h2><p>Of the last run, summed over its pools.</p>{counters}</section>"
            );
        }
        if let Some(delays) = self.all_delays() {
            html += &format!(
                "<section><h2>Delays and run times of steps</h2><p>p50 / p99 of all rounds that count \
                     and all pools.</p>{delays}</section>"
            );
        }
        html.push_str("<section class=\"how\"><h2>How this was measured</h2><ul>");
        for note in self.footnotes() {
            html += &format!("<li>{}</li>", escape(&note));
        }
        for failure in self.failures() {
            html += &format!("<li>Did not complete: {}</li>", quoted(failure));
        }
        let machine = &self.machine;
        html += &format!(
            "</ul><dl><dt>machine<dd>{}, {} CPUs, {} MiB<dt>system<dd>{}, {}</dl></section></main></body></html>\n",
            escape(&machine.processor),
            machine.cpus,
            machine.memory_mib,
            escape(&machine.system),
            machine.architecture
        );
        html
    }

    /// A line for each setting.
    fn chart(&self, figure: fn(&SettingRuns) -> Option<Spread>) -> String {
        let dots: Vec<Dot> = self
            .cells
            .iter()
            .filter_map(|cell| {
                let name = cell.setting.words().replace('`', "");
                let spread = figure(cell)?;
                Some(Dot { name, spread })
            })
            .collect();
        let baseline = self.baseline().and_then(figure).map(|spread| spread.median);
        let chart = dots::chart(&dots, baseline, |seconds| nanos(seconds * 1e9));
        chart.unwrap_or_else(|| String::from("<p>There are no figures.</p>"))
    }

    fn figures(&self) -> String {
        let mut headings = vec!["setting"];
        headings.extend(TIME_HEADINGS);
        headings.extend(["runs", "remarks"]);
        let headings: Vec<_> = headings.into_iter().map(String::from).collect();
        let rows = self.cells.iter().map(|cell| {
            let mut cells = vec![quoted(&cell.setting.words())];
            cells.extend(time_cells(cell.wall(), self.speed_up(cell)));
            cells.extend(time_cells(cell.cpu(), self.cpu_ratio(cell)));
            let remark = cell.failure.as_deref().unwrap_or(&cell.detail);
            cells.extend([cell.count().to_string(), quoted(remark)]);
            (0, cells)
        });
        table(&headings, &["remarks"], rows)
    }

    /// The delays of all settings; nothing if none was measured.
    fn all_delays(&self) -> Option<String> {
        self.shown_delays().next()?;
        let mut headings = vec![String::from("setting")];
        headings.extend(self.shown_delays().map(|(heading, _)| heading.to_owned()));
        let rows = self.cells.iter().map(|cell| {
            let mut cells = vec![quoted(&cell.setting.words())];
            let delays = cell.delays();
            cells.extend(self.shown_delays().map(|(_, delay)| {
                let quantiles = delay(&delays).quantiles();
                quantiles.map_or_else(String::new, |it| it.words())
            }));
            (0, cells)
        });
        Some(table(&headings, &[], rows))
    }

    /// All counters of all settings; nothing if the program has none.
    fn all_counters(&self) -> Option<String> {
        let counted = self.cells.iter().filter(|cell| !cell.counters().is_empty());
        let rows: Vec<_> = counted
            .map(|cell| (0, vec![quoted(&cell.setting.words())], cell.counters(), 1.0))
            .collect();
        counter_table(&["setting"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::tests::trial;

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let html = trial(&[("as it is", 100.0), ("lifo", 80.0), ("<b>", 300.0)], 9, 0.1).html();
        for part in [
            "Wall time",
            "Processor time",
            "Figures",
            "Scheduler counters",
            "<th>run time",
            "<td>1.50 µs / 21.0 µs",
            "<code>lifo</code>",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
        for foreign in [
            "<script", "http://", "https://", "src=", "@import", "url(", "<b>", "NaN",
        ] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert!(html.contains("class=\"warning\"") && html.contains("10 % of the machine"));
        assert_eq!(html.matches("<svg").count(), 2);
    }
}
