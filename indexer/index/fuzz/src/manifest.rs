//! A valid manifest with edits: cut, copied, and with pieces of JSON put in that are hard for readers.

use dyad_index::TextLanguage;
use dyad_index::manifest::{FileEntry, Manifest, ShardEntry};
use dyad_index::{Metric, ModelRecord};

use crate::Script;

/// Pieces that are hard for readers.
const PIECES: [&str; 24] = [
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "4294967295",
    "1e999",
    "0.5",
    "null",
    "true",
    "\"\"",
    "\"..\"",
    "\"../abc\"",
    "\"/etc/passwd\"",
    "\"abc/../../x\"",
    "\"abc\\u0000\"",
    "\"\\ud800\"",
    "\".\"",
    "\"abc/./x\"",
    "\"l2\"",
    "[",
    "{",
    "},{",
    ",",
    "\"text/meta.json\"",
    "\"dense.dyad\"",
];
/// More edits than this say nothing new.
const MAX_EDITS: usize = 16;
/// Levels of nesting that are put in at once: more than any reader should follow.
const NESTED: usize = 4096;

fn valid() -> Vec<u8> {
    let model = ModelRecord {
        name: "m".into(),
        fingerprint: "f".into(),
        dim: 3,
        full_dim: None,
        metric: Metric::Cosine,
        max_tokens: 8,
    };
    let file = |path: &str| FileEntry {
        path: path.into(),
        bytes: 2,
        crc32c: 3,
    };
    let shard = |id: &str| ShardEntry {
        id: id.into(),
        documents: 7,
        files: vec![file("dense.dyad"), file("text/meta.json")],
        deleted: None,
        metadata: None,
        calibration: None,
    };
    let shards = vec![shard("abc"), shard("abd")];
    let manifest = Manifest {
        format_version: 2,
        generation: 1,
        parent: Some(1),
        created_unix_s: 5,
        tool: "t".into(),
        model,
        context: None,
        logit_scale: None,
        min_recall: None,
        language: TextLanguage::English,
        change: None,
        shards,
    };
    serde_json::to_vec_pretty(&manifest).expect("a record can be written as JSON")
}

/// Where the value after some colon, or some string in a list, begins and ends.
fn value_at(text: &[u8], which: usize) -> Option<std::ops::Range<usize>> {
    let starts: Vec<usize> = (0..text.len())
        .filter(|at| text[*at] == b':')
        .map(|at| at + 1)
        .collect();
    let start = *starts.get(which.checked_rem(starts.len())?)?;
    let len = text[start..]
        .iter()
        .position(|byte| matches!(byte, b',' | b'\n' | b'}' | b']'))?;
    Some(start..start + len)
}

/// The text of a manifest after the edits that the script says.
pub fn edited_manifest(script: &mut Script<'_>) -> Vec<u8> {
    let mut text = valid();
    for _ in 0..MAX_EDITS {
        if script.is_over() {
            break;
        }
        let action = script.byte();
        let at = script.below(text.len() + 1);
        let piece = PIECES[usize::from(script.byte()) % PIECES.len()].as_bytes();
        match action % 8 {
            // The value of a field.
            0..=2 => {
                if let Some(range) = value_at(&text, at) {
                    text.splice(range, piece.iter().copied());
                }
            }
            3 => drop(text.splice(at..at, piece.iter().copied())),
            4 => drop(text.drain(at..(at + usize::from(script.byte())).min(text.len()))),
            5 => {
                let byte = script.byte();
                text.iter_mut().skip(at).take(1).for_each(|slot| *slot = byte);
            }
            6 => {
                let copied = text[at..(at + usize::from(script.byte())).min(text.len())].to_vec();
                let to = script.below(text.len() + 1);
                text.splice(to..to, copied);
            }
            _ => drop(text.splice(
                at..at,
                std::iter::repeat_n(if piece[0] == b'{' { b'{' } else { b'[' }, NESTED),
            )),
        }
    }
    text
}
