//! The page with the timeline: one file, which loads nothing.

use serde::Serialize;

use super::slowest::{self, Slowest};
use super::timeline::Timeline;
use crate::report::escape;

/// How many of the slowest tasks are listed.
const SLOWEST: usize = 12;

/// What the script gets.
#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    timeline: &'a Timeline,
    slowest: Slowest,
}

/// Writes the page.
pub(super) fn page(timeline: &Timeline, title: &str) -> serde_json::Result<String> {
    // In a script, `</` would end it.
    let data = Data {
        timeline,
        slowest: slowest::slowest(timeline, SLOWEST),
    };
    let data = serde_json::to_string(&data)?.replace("</", "<\\/");
    let (title, summary) = (escape(title), escape(&timeline.summary(None)));
    let lacks = timeline.lacks().into_iter();
    let lacks: String = lacks
        .map(|lack| format!("<p class=\"lack\">{}.</p>", escape(&lack)))
        .collect();
    let (style, script) = (include_str!("view.css"), include_str!("view.js"));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{style}</style></head><body>\n<header><h1>{title}</h1><p>{summary}. Scroll to zoom, drag to move. \
         Point at a slice, or at a mark above it, to see what it is. Keys: + and - zoom, the arrows move, \
         0 shows all.</p>{lacks}\n\
         <p><input id=\"search\" type=\"search\" placeholder=\"name, site or number of a task\" \
         aria-label=\"search\"> <button id=\"before\">before</button> <button id=\"next\">next</button> \
         <span id=\"found\"></span></p></header>\n\
         <canvas id=\"view\" tabindex=\"0\"></canvas><p id=\"note\" role=\"status\"></p>\
         <p id=\"chosen\" role=\"status\"></p><p id=\"tip\" hidden></p>\n\
         <div id=\"lists\"><section><h2>Slowest tasks</h2><p>from spawn to end; click for where the time went</p>\
         <ol id=\"slowest\"></ol></section><section><h2>Longest delays</h2><p>from runnable to running</p>\
         <ol id=\"delays\"></ol></section><section><h2>Longest slices</h2><p>without a wait</p>\
         <ol id=\"slices\"></ol></section></div>\n\
         <script id=\"data\" type=\"application/json\">{data}</script>\n<script>{script}</script>\n</body></html>\n"
    ))
}
