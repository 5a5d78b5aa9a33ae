//! The page of a trial: advice, a chart of the times, all counters, and how it was measured.

use super::dots::{self, Dot};
use super::page::{begin, quoted};
use super::svg::{escape, put};
use crate::stats::{Ratio, Spread};
use crate::table::ratio;
use crate::text::{nanos, si};
use crate::trial::{SettingRuns, Trial};

impl Trial {
    /// Returns the report: one page without scripts.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let lead = "Each setting in turn, round by round, against the program as it is";
        let mut html = begin("try", &format!("{title} · try"), &title, lead);
        for warning in self.warnings() {
            put(
                &mut html,
                format_args!("<p class=\"warning\">{}</p>", quoted(&warning)),
            );
        }
        put(
            &mut html,
            format_args!(
                "<section class=\"advice\"><p>{}</p></section>",
                quoted(&self.advice())
            ),
        );
        let wall = self.chart(SettingRuns::wall);
        let cpu = self.chart(SettingRuns::cpu);
        put(
            &mut html,
            format_args!(
                "<section><h2>Wall time</h2><p>Medians with quartiles. The dashed line is the program as it \
                 is.</p>{wall}</section><section><h2>Processor time</h2><p>Of all threads of the program.</p>{cpu}</section>"
            ),
        );
        put(
            &mut html,
            format_args!("<section><h2>Figures</h2>{}</section>", self.figures()),
        );
        if let Some(counters) = self.all_counters() {
            put(
                &mut html,
                format_args!(
                    "<section><h2>Scheduler counters</h2><p>Of the last run, summed over its pools.</p>{counters}</section>"
                ),
            );
        }
        if let Some(delays) = self.all_delays() {
            put(
                &mut html,
                format_args!(
                    "<section><h2>Delays and run times of steps</h2><p>p50 / p99 of all rounds that count \
                     and all pools.</p>{delays}</section>"
                ),
            );
        }
        html.push_str("<section class=\"how\"><h2>How this was measured</h2><ul>");
        for note in self.footnotes() {
            put(&mut html, format_args!("<li>{}</li>", escape(&note)));
        }
        for failure in self.failures() {
            put(
                &mut html,
                format_args!("<li>Did not complete: {}</li>", quoted(failure)),
            );
        }
        let machine = &self.machine;
        put(
            &mut html,
            format_args!(
                "</ul><dl><dt>machine<dd>{}, {} CPUs, {} MiB<dt>system<dd>{}, {}</dl></section></main></body></html>\n",
                escape(&machine.processor),
                machine.cpus,
                machine.memory_mib,
                escape(&machine.system),
                machine.architecture
            ),
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
        let mut html = String::from(
            "<div class=\"wide\"><table><thead><tr><th>setting<th>wall<th>quartiles<th>× as it is<th>CPU \
             time<th>quartiles<th>× as it is<th>runs<th class=\"text\">remarks</thead><tbody>",
        );
        for cell in &self.cells {
            put(
                &mut html,
                format_args!("<tr><th>{}", quoted(&cell.setting.words())),
            );
            put_times(&mut html, cell.wall(), self.speed_up(cell));
            put_times(&mut html, cell.cpu(), self.cpu_ratio(cell));
            let remark = cell.failure.as_deref().unwrap_or(&cell.detail);
            put(
                &mut html,
                format_args!("<td>{}<td class=\"text\">{}", cell.count(), quoted(remark)),
            );
        }
        html + "</tbody></table></div>"
    }

    /// The delays of all settings; nothing if none was measured.
    fn all_delays(&self) -> Option<String> {
        self.shown_delays().next()?;
        let mut html = String::from("<div class=\"wide\"><table><thead><tr><th>setting");
        for (heading, _) in self.shown_delays() {
            put(&mut html, format_args!("<th>{heading}"));
        }
        html.push_str("</thead><tbody>");
        for cell in &self.cells {
            put(
                &mut html,
                format_args!("<tr><th>{}", quoted(&cell.setting.words())),
            );
            let delays = cell.delays();
            for (_, delay) in self.shown_delays() {
                let quantiles = delay(&delays).quantiles();
                let text = quantiles.map_or_else(String::new, |it| it.words());
                put(&mut html, format_args!("<td>{text}"));
            }
        }
        Some(html + "</tbody></table></div>")
    }

    /// All counters of all settings; nothing if the program has none.
    fn all_counters(&self) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        for (name, value) in self.cells.iter().flat_map(SettingRuns::counters) {
            if *value > 0.0 && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return None;
        }
        let mut html = String::from("<div class=\"wide\"><table><thead><tr><th>setting");
        for name in &names {
            put(&mut html, format_args!("<th>{}", escape(&name.replace('_', " "))));
        }
        html.push_str("</thead><tbody>");
        for cell in self.cells.iter().filter(|cell| !cell.counters().is_empty()) {
            put(
                &mut html,
                format_args!("<tr><th>{}", quoted(&cell.setting.words())),
            );
            for name in &names {
                let found = cell.counters().iter().find(|(other, _)| other == name);
                let value = found.map_or(0.0, |(_, value)| *value);
                let text = if value == 0.0 {
                    String::from("·")
                } else {
                    si(value)
                };
                put(&mut html, format_args!("<td>{text}"));
            }
        }
        Some(html + "</tbody></table></div>")
    }
}

fn put_times(html: &mut String, spread: Option<Spread>, over: Option<Ratio>) {
    let Some(spread) = spread else {
        html.push_str("<td>–<td><td>");
        return;
    };
    let time = |seconds: f64| nanos(seconds * 1e9);
    put(
        html,
        format_args!(
            "<td>{}<td>{} – {}<td>{}",
            time(spread.median),
            time(spread.low),
            time(spread.high),
            over.map_or_else(String::new, ratio)
        ),
    );
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
