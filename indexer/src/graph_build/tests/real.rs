//! Real text embeddings for tests, where `DYAD_DATA` names them.

use std::path::Path;

use super::synthetic::Rows;

const DIM: usize = 384;
/// Header of the files, which numpy has written.
const HEADER: usize = 128;

/// Sentences and questions by all-MiniLM-L6-v2.
pub(super) struct Real {
    pub(super) rows: Rows,
    pub(super) questions: Rows,
}

/// The first `n` sentences and 1,000 questions; none, and a line about it, without `DYAD_DATA`.
pub(super) fn minilm(n: usize) -> Option<Real> {
    let Some(data) = std::env::var_os("DYAD_DATA") else {
        eprintln!("skipped: DYAD_DATA is not set");
        return None;
    };
    let dir = Path::new(&data).join("minilm-vectors");
    let sentences = fs_err::read(dir.join("base.f16.npy")).unwrap();
    let values = sentences[HEADER..].as_chunks::<2>().0.iter().take(n * DIM);
    let rows = Rows::new(
        values.map(|value| half::f16::from_le_bytes(*value).to_f32()).collect(),
        DIM,
    );
    let questions = fs_err::read(dir.join("queries.f32.npy")).unwrap();
    let values = questions[HEADER..].as_chunks::<4>().0.iter();
    let questions = Rows::new(
        values
            .map(|value| f32::from_le_bytes(*value))
            .take(1_000 * DIM)
            .collect(),
        DIM,
    );
    Some(Real { rows, questions })
}
