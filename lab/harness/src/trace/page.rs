//! The page with the timeline: one file, which loads nothing.

use super::timeline::Timeline;
use crate::report::escape;

/// Writes the page.
pub(super) fn page(timeline: &Timeline, title: &str) -> serde_json::Result<String> {
    // In a script, `</` would end it.
    let data = serde_json::to_string(timeline)?.replace("</", "<\\/");
    let (title, summary) = (escape(title), escape(&timeline.summary()));
    let (style, script) = (include_str!("view.css"), include_str!("view.js"));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{style}</style></head><body>\n<header><h1>{title}</h1><p>{summary}. Scroll to zoom, drag to move. \
         Point at a slice, or at a mark above it, to see what it is. Keys: + and - zoom, the arrows move, \
         0 shows all.</p>\n\
         <p><input id=\"search\" type=\"search\" placeholder=\"name, site or number of a task\" \
         aria-label=\"search\"> <button id=\"before\">before</button> <button id=\"next\">next</button> \
         <span id=\"found\"></span></p></header>\n\
         <canvas id=\"view\" tabindex=\"0\"></canvas><p id=\"note\" role=\"status\"></p>\
         <p id=\"chosen\" role=\"status\"></p><p id=\"tip\" hidden></p>\n\
         <div id=\"lists\"><section><h2>Longest delays</h2><p>from runnable to running</p>\
         <ol id=\"delays\"></ol></section><section><h2>Longest slices</h2><p>without a wait</p>\
         <ol id=\"slices\"></ol></section></div>\n\
         <script id=\"data\" type=\"application/json\">{data}</script>\n<script>{script}</script>\n</body></html>\n"
    ))
}
