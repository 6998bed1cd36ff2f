//! The recall gate: the questions and beam widths by which a finished graph is measured, and the recall that it must
//! reach.

use std::ops::RangeInclusive;

use dyad_index::Certificate;
use dyad_index::manifest::MinRecall;
use dyad_index::search::VectorRows;

use super::graph::BuildParams;
use super::questions::QuestionVectors;
use crate::error::Error;

/// Beam widths measured.
pub const EF_SWEEP: [usize; 11] = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

/// Beam widths of a small sample.
const SMALL_SWEEP: [usize; 5] = [16, 32, 64, 128, 512];

/// How thoroughly a graph is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateSample {
    /// All beam widths, with as many questions as there are, up to 500 documents.
    #[default]
    Full,
    /// Fewer widths, with one question for every sixteen documents, 16 to 64: of a small shard that will soon be
    /// merged, measuring would be most of the work.
    Small,
}

/// Questions of a small sample, at least and at most.
const SMALL_SAMPLE: RangeInclusive<usize> = 16..=64;
/// Documents for each of its questions.
const SAMPLE_STEP: usize = 16;

impl CertificateSample {
    /// Questions for a shard of `documents`, where there are at most `most`.
    pub(crate) fn questions(self, documents: usize, most: usize) -> usize {
        match self {
            Self::Full => most,
            Self::Small => (documents / SAMPLE_STEP)
                .clamp(*SMALL_SAMPLE.start(), *SMALL_SAMPLE.end())
                .min(most),
        }
    }

    /// Beam widths that are measured, ascending.
    fn widths(self) -> &'static [usize] {
        match self {
            Self::Full => &EF_SWEEP,
            Self::Small => &SMALL_SWEEP,
        }
    }
}

/// How a graph is measured, and the recall that it must reach. The default: by its own documents, without a target.
#[derive(Clone, Copy, Default)]
pub struct RecallGate<'a> {
    /// Held-out questions, of the documents' dimension, and of unit length where cosine compares them; without them,
    /// documents serve as questions.
    pub questions: Option<&'a dyn VectorRows>,
    /// The recall that must be reached.
    pub target: Option<RecallTarget>,
    /// How many questions are asked.
    pub sample: CertificateSample,
}

impl std::fmt::Debug for RecallGate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let questions = self.questions.map(VectorRows::len);
        f.debug_struct("RecallGate")
            .field("questions", &questions)
            .field("target", &self.target)
            .finish()
    }
}

impl<'a> RecallGate<'a> {
    /// Measured by these questions, or else by documents.
    pub fn new(questions: Option<&'a QuestionVectors>, target: Option<RecallTarget>) -> Self {
        Self {
            questions: questions.map(|questions| questions as &dyn VectorRows),
            target,
            sample: CertificateSample::Full,
        }
    }

    /// The same with another number of questions.
    #[must_use]
    pub fn with_sample(self, sample: CertificateSample) -> Self {
        Self { sample, ..self }
    }

    /// Number of its questions; 0 where documents serve as such.
    pub(crate) fn question_count(&self) -> usize {
        self.questions.map_or(0, VectorRows::len)
    }

    /// The sweep and the width of the target, ascending.
    pub fn widths(&self) -> Vec<usize> {
        let swept = self.sample.widths().iter().copied();
        let mut widths: Vec<usize> = swept.chain(self.target.map(|target| target.ef)).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    }

    /// Refuses a certificate that does not reach the target, where there is one; `label` names the shard, an only one
    /// by nothing.
    pub(crate) fn check(&self, certificate: &Certificate, label: &str) -> Result<(), Error> {
        let shard = if label.is_empty() { "1/1" } else { label };
        self.target.map_or(Ok(()), |target| target.check(certificate, shard))
    }
}

/// The least recall that a build accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecallTarget {
    recall: f64,
    ef: usize,
}

impl RecallTarget {
    /// At least `recall` of the 10 nearest at beam width `ef`, in every shard.
    pub fn new(recall: f64, ef: usize) -> Result<Self, Error> {
        let (low, high) = (
            *BuildParams::EF_CONSTRUCTION.start(),
            *BuildParams::EF_CONSTRUCTION.end(),
        );
        if !(recall > 0.0 && recall <= 1.0) {
            return Err(Error::TargetValue { got: recall });
        }
        if !(low..=high).contains(&ef) {
            return Err(Error::Parameter {
                name: "at-ef",
                low,
                high,
                got: ef,
            });
        }
        Ok(Self { recall, ef })
    }

    /// As a manifest records it.
    pub fn kept(self) -> MinRecall {
        MinRecall {
            recall: self.recall,
            ef: self.ef,
        }
    }

    /// Refuses a certificate that does not reach it; `shard` is named in the error.
    pub fn check(self, certificate: &Certificate, shard: &str) -> Result<(), Error> {
        let point = certificate.recall.iter().find(|point| point.ef == self.ef);
        let recall = point.map_or(0.0, |point| point.recall_at_10);
        if recall >= self.recall {
            return Ok(());
        }
        Err(Error::BelowTarget {
            shard: shard.to_owned(),
            recall,
            target: self.recall,
            ef: self.ef,
        })
    }
}

impl From<MinRecall> for RecallTarget {
    fn from(MinRecall { recall, ef }: MinRecall) -> Self {
        Self { recall, ef }
    }
}

#[cfg(test)]
mod tests {
    use dyad_index::RecallPoint;

    use super::*;

    #[test]
    fn targets_outside_of_their_range_are_refused() {
        for recall in [0.0, -0.1, 1.001, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(RecallTarget::new(recall, 128), Err(Error::TargetValue { .. })),
                "{recall}"
            );
        }
        assert!(matches!(
            RecallTarget::new(0.9, 0),
            Err(Error::Parameter { name: "at-ef", .. })
        ));
        assert!(RecallTarget::new(1.0, 10_000).is_ok() && RecallTarget::new(1e-9, 1).is_ok());
    }

    #[test]
    fn the_width_of_the_target_is_measured_once() {
        let gate = |ef| RecallGate {
            questions: None,
            target: Some(RecallTarget::new(0.9, ef).unwrap()),
            ..RecallGate::default()
        };
        assert_eq!(gate(128).widths(), EF_SWEEP);
        assert_eq!(gate(100).widths().get(5..8), Some([96, 100, 128].as_slice()));
        assert_eq!(RecallGate::default().widths(), EF_SWEEP);
        let small = gate(100).with_sample(CertificateSample::Small);
        assert_eq!(small.widths(), [16, 32, 64, 100, 128, 512]);
    }

    #[test]
    fn a_certificate_below_the_target_is_refused_with_the_fix() {
        let point = RecallPoint {
            ef: 64,
            recall_at_10: 0.9,
            recall_at_100: None,
            distance_computations: 1.0,
            scored: 1.0,
        };
        let certificate = Certificate {
            recall: vec![point],
            ..Certificate::default()
        };
        RecallTarget::new(0.9, 64).unwrap().check(&certificate, "1/1").unwrap();
        let refused = RecallTarget::new(0.95, 64)
            .unwrap()
            .check(&certificate, "2/4")
            .unwrap_err()
            .to_string();
        for part in [
            "shard 2/4",
            "0.9000",
            "0.95",
            "ef 64",
            "--ef-construction",
            "--min-recall",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
