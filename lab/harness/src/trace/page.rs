//! The page with the timeline: one file, which loads nothing.

use super::read::Timeline;
use crate::report::escape;

/// Writes the page.
pub(super) fn page(timeline: &Timeline, title: &str) -> serde_json::Result<String> {
    // In a script, `</` would end it.
    let data = serde_json::to_string(timeline)?.replace("</", "<\\/");
    let (title, summary) = (escape(title), escape(&timeline.summary()));
    let (style, script) = (include_str!("view.css"), include_str!("view.js"));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{style}</style></head><body>\n<header><h1>{title}</h1><p>{summary}. Scroll to zoom, drag to move, \
         point at a slice for its name. Keys: + and - zoom, the arrows move, 0 shows all.</p></header>\n\
         <canvas id=\"view\" tabindex=\"0\"></canvas><p id=\"tip\" hidden></p>\n\
         <script id=\"data\" type=\"application/json\">{data}</script>\n<script>{script}</script>\n</body></html>\n"
    ))
}
