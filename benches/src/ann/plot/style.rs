//! Colours and headings of all plots.

use plotters::style::RGBColor;

use crate::ann::measured::Measured;

/// Colours that also differ for the colour-blind (Okabe and Ito 2008), the first for our own engine.
const COLOURS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

/// The colour of an engine: in all plots that of the name by which it was asked for.
pub(super) fn colour(measured: &Measured, engine: &str) -> RGBColor {
    let asked = measured.asked.iter();
    let at = asked.map(|asked| asked.name == engine || asked.members.iter().any(|member| member == engine));
    COLOURS[at.take_while(|found| !found).count() % COLOURS.len()]
}

pub(super) fn heading(measured: &Measured, what: &str) -> String {
    format!("{}: {what}", measured.workload)
}
