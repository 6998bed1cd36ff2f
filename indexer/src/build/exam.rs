//! What a finished graph is asked, and what it must reach: questions, beam widths, the floor.

use dyad_index::Certificate;
use dyad_index::search::VectorRows;

use super::graph::BuildParams;
use crate::error::Error;

/// Beam widths measured.
pub const LADDER: [usize; 11] = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

/// How a graph is measured. The default: by its own documents, without a floor.
#[derive(Clone, Copy, Default)]
pub struct Exam<'a> {
    /// Questions that are none of the documents, of the documents' dimension and unit length; without them, documents
    /// are searched for.
    pub questions: Option<&'a dyn VectorRows>,
    /// What must be reached.
    pub floor: Option<Floor>,
}

impl std::fmt::Debug for Exam<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let questions = self.questions.map(VectorRows::len);
        f.debug_struct("Exam").field("questions", &questions).field("floor", &self.floor).finish()
    }
}

impl Exam<'_> {
    /// The ladder with the width of the floor, ascending.
    pub fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = LADDER.into_iter().chain(self.floor.map(|floor| floor.ef)).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    }
}

/// The least recall that a build accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    recall: f64,
    ef: usize,
}

impl Floor {
    /// At least `recall` of the 10 nearest at beam width `ef`, in every shard.
    pub fn new(recall: f64, ef: usize) -> Result<Self, Error> {
        let (low, high) = (*BuildParams::EF_CONSTRUCTION.start(), *BuildParams::EF_CONSTRUCTION.end());
        if !(recall > 0.0 && recall <= 1.0) {
            return Err(Error::FloorValue { got: recall });
        }
        if !(low..=high).contains(&ef) {
            return Err(Error::Parameter { name: "at-ef", low, high, got: ef });
        }
        Ok(Self { recall, ef })
    }

    /// Refuses a certificate that does not reach it; `shard` is named in the error.
    pub fn check(self, certificate: &Certificate, shard: &str) -> Result<(), Error> {
        let point = certificate.recall.iter().find(|point| point.ef == self.ef);
        let recall = point.map_or(0.0, |point| point.recall_at_10);
        if recall >= self.recall {
            return Ok(());
        }
        Err(Error::BelowFloor { shard: shard.to_owned(), recall, floor: self.recall, ef: self.ef })
    }
}

#[cfg(test)]
mod tests {
    use dyad_index::RecallPoint;

    use super::*;

    #[test]
    fn floors_outside_of_their_range_are_refused() {
        for recall in [0.0, -0.1, 1.001, f64::NAN, f64::INFINITY] {
            assert!(matches!(Floor::new(recall, 128), Err(Error::FloorValue { .. })), "{recall}");
        }
        assert!(matches!(Floor::new(0.9, 0), Err(Error::Parameter { name: "at-ef", .. })));
        assert!(Floor::new(1.0, 10_000).is_ok() && Floor::new(1e-9, 1).is_ok());
    }

    #[test]
    fn the_width_of_the_floor_is_measured_once() {
        let exam = |ef| Exam { questions: None, floor: Some(Floor::new(0.9, ef).unwrap()) };
        assert_eq!(exam(128).widths(), LADDER);
        assert_eq!(exam(100).widths().get(5..8), Some([96, 100, 128].as_slice()));
        assert_eq!(Exam::default().widths(), LADDER);
    }

    #[test]
    fn a_certificate_below_the_floor_is_refused_with_the_fix() {
        let point =
            RecallPoint { ef: 64, recall_at_10: 0.9, recall_at_100: None, distance_computations: 1.0, scored: 1.0 };
        let certificate = Certificate { recall: vec![point], ..Certificate::default() };
        Floor::new(0.9, 64).unwrap().check(&certificate, "1/1").unwrap();
        let refused = Floor::new(0.95, 64).unwrap().check(&certificate, "2/4").unwrap_err().to_string();
        for part in ["shard 2/4", "0.9000", "0.95", "ef 64", "--ef-construction", "--min-recall"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
