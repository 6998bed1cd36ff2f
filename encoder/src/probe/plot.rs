//! The picture of a probe as SVG.

use std::fmt::Write as _;

use super::report::Probe;

const WIDTH: f32 = 720.0;
const HEIGHT: f32 = 640.0;
/// Room above for the words, and around.
const TOP: f32 = 84.0;
const AROUND: f32 = 24.0;
/// Two of Okabe and Ito's colours, which all eyes tell apart: questions, answers.
const COLOURS: [&str; 2] = ["#d55e00", "#0072b2"];

/// Draws the places of the questions and then of the answers, the numbers above them.
pub fn svg(probe: &Probe, places: &[[f32; 2]]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    let words = [
        format!("{}: {} questions and their answers, t-SNE", probe.model, probe.pairs),
        format!(
            "separable {:.3}   alignment {:.3}   uniformity {:.3}   centroids' cosine {:.3}",
            probe.separation.accuracy,
            probe.geometry.alignment,
            probe.geometry.uniformity,
            probe.geometry.centroid_cosine
        ),
    ];
    for (line, words) in words.iter().enumerate() {
        let y = 26 + 22 * line;
        // Writing to a string does not fail.
        let _ = writeln!(svg, "<text x=\"{AROUND}\" y=\"{y}\">{}</text>", escaped(words));
    }
    for ((name, colour), x) in ["questions", "answers"].iter().zip(COLOURS).zip([30.0, 140.0]) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"67\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" y=\"72\">{name}</text>",
            x + 10.0
        );
    }
    let frame = Frame::of(places);
    for (at, place) in places.iter().enumerate() {
        let (x, y) = frame.at(*place);
        let tower = usize::from(at >= probe.pairs);
        let colour = COLOURS.get(tower).copied().unwrap_or("#000000");
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.7\"/>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// From the plane to the picture, the same scale in both directions.
struct Frame {
    left: f32,
    low: f32,
    scale: f32,
}

impl Frame {
    fn of(places: &[[f32; 2]]) -> Self {
        let span = |axis: usize| {
            let values = places.iter().filter_map(|place| place.get(axis));
            values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| {
                (low.min(value), high.max(value))
            })
        };
        let ((left, right), (low, high)) = (span(0), span(1));
        let wide = (WIDTH - 2.0 * AROUND) / (right - left).max(f32::MIN_POSITIVE);
        let tall = (HEIGHT - TOP - AROUND) / (high - low).max(f32::MIN_POSITIVE);
        let scale = wide.min(tall);
        Self {
            left,
            low,
            scale: if scale.is_finite() { scale } else { 1.0 },
        }
    }

    fn at(&self, [x, y]: [f32; 2]) -> (f32, f32) {
        (AROUND + (x - self.left) * self.scale, TOP + (y - self.low) * self.scale)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::geometry::geometry;
    use crate::probe::separation::Separation;

    #[test]
    fn each_vector_is_a_point_inside_the_picture() {
        let probe = Probe {
            model: "a<b".into(),
            fingerprint: "f".into(),
            pairs: 2,
            seed: 0,
            separation: Separation {
                accuracy: 0.5,
                standard_error: 0.0,
                folds: 2,
            },
            geometry: geometry(&[1.0, 0.0], &[0.0, 1.0], 2),
        };
        let plotted = svg(&probe, &[[-3.0, 2.0], [5.0, 0.0], [0.0, 9.0], [1.0, 1.0]]);
        assert!(plotted.contains("a&lt;b: 2 questions"));
        for colour in COLOURS {
            assert_eq!(plotted.matches(&format!("r=\"3\" fill=\"{colour}\"")).count(), 2);
        }
        let numbers = |name: &str| -> Vec<f32> {
            plotted
                .split(&format!(" {name}=\""))
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
                .collect()
        };
        assert!(numbers("cx").iter().all(|x| (0.0..=WIDTH).contains(x)));
        assert!(numbers("cy").iter().all(|y| (0.0..=HEIGHT).contains(y)));
        assert!(!svg(&probe, &[[1.0, 1.0]]).contains("NaN"), "one point has no span");
    }
}
