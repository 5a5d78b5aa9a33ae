//! The pages of an exploration, of comparisons and of a trial: one HTML file each, without a script.
//!
//! ```text
//!  explore.rs   compare.rs  against.rs  trial.rs  the pages
//!  tables.rs    lines.rs  plane.rs  speed_up.rs
//!  owners.rs    places.rs             a picture of its own; what charts over a quantity share
//!  page.rs      chart.rs    dots.rs   what pages share, what charts share, and a small chart
//!               svg.rs                escaped text, scales, ticks, marks, labels
//! ```
//!
//! A file imports from the lines below its own only. A page is a function of what was measured: it prints
//! nothing and writes no file.

pub(crate) mod against;
mod chart;
pub(crate) mod compare;
mod dots;
pub(crate) mod explore;
mod lines;
pub(crate) mod owners;
mod page;
mod places;
mod plane;
mod speed_up;
mod svg;
mod tables;
mod trial;

pub(crate) use svg::escape;
