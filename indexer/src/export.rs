//! Vectors and metadata for the TensorFlow embedding projector: `vectors.tsv`, one vector per line, and `metadata.tsv`
//! with a header.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use dyad_files::AtomicDir;
use dyad_index::Snapshot;
use dyad_index::lexical::StoredDocument;
use serde_json::value::RawValue;

use crate::error::Error;

/// The file of vectors.
pub const VECTORS: &str = "vectors.tsv";
/// The file of what they belong to.
pub const METADATA: &str = "metadata.tsv";
/// Characters of a cell; the projector shows it as a label.
const CELL: usize = 200;
/// Fields of the metadata that become columns, in their order by name.
const FIELDS: usize = 30;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Of the index.
    pub generation: u64,
    /// Documents written.
    pub documents: usize,
    /// Documents of the index.
    pub of: usize,
}

/// A document's cells, but for the metadata's.
struct ExportRow {
    key: String,
    title: String,
    text: String,
    metadata: BTreeMap<String, String>,
}

impl ExportRow {
    fn new(document: StoredDocument) -> Self {
        let StoredDocument {
            key,
            title,
            text,
            metadata_json,
        } = document;
        let metadata: BTreeMap<String, &RawValue> = serde_json::from_str(&metadata_json).unwrap_or_default();
        let shown = |(name, value): (String, &RawValue)| Some((name, scalar(value.get())?));
        Self {
            key: cell(&key),
            title: cell(&title),
            text: cell(&text),
            metadata: metadata.into_iter().filter_map(shown).collect(),
        }
    }
}

/// A value as a cell, numbers as they are written; none where it is an array or an object, and empty where it is null.
fn scalar(json: &str) -> Option<String> {
    match json.as_bytes().first() {
        Some(b'[' | b'{') => None,
        Some(b'"') => serde_json::from_str::<String>(json).ok().map(|text| cell(&text)),
        _ => Some(if json == "null" { "" } else { json }.to_owned()),
    }
}

/// The beginning of a text in one cell: spaces in place of tabs, line breaks and other control characters.
fn cell(text: &str) -> String {
    text.chars()
        .take(CELL)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Writes documents of the current generation into a new directory: all, or `limit` chosen at random by a seed.
pub fn export_projector(index: &Path, out: &Path, limit: usize, seed: u64) -> Result<Exported, Error> {
    let snapshot = Snapshot::open(index)?;
    let chosen = snapshot.sample(limit, seed, None)?;
    let rows = chosen
        .iter()
        .map(|(shard, node)| Ok(ExportRow::new(snapshot.document(*shard, *node)?)));
    let rows = rows.collect::<Result<Vec<ExportRow>, Error>>()?;
    let dir = AtomicDir::create(out)?;
    write_vectors(&snapshot, &chosen, &dir.path().join(VECTORS))?;
    write_metadata(&rows, &dir.path().join(METADATA))?;
    dir.commit()?;
    Ok(Exported {
        generation: snapshot.manifest().generation,
        documents: rows.len(),
        of: snapshot.len(),
    })
}

fn write_vectors(snapshot: &Snapshot, chosen: &[(usize, u32)], path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(fs_err::File::create_new(path)?);
    let mut row = Vec::new();
    for (shard, node) in chosen {
        if let Some(shard) = snapshot.shards().get(*shard) {
            shard.dense.rows().decode(*node, &mut row);
        }
        for (at, value) in row.iter().enumerate() {
            write!(file, "{}{value}", if at == 0 { "" } else { "\t" })?;
        }
        writeln!(file)?;
    }
    file.flush()
}

fn write_metadata(rows: &[ExportRow], path: &Path) -> io::Result<()> {
    let fields: BTreeSet<&String> = rows.iter().flat_map(|row| row.metadata.keys()).collect();
    let fields: Vec<&String> = fields.into_iter().take(FIELDS).collect();
    let mut file = BufWriter::new(fs_err::File::create_new(path)?);
    write!(file, "key\ttitle\ttext")?;
    for field in &fields {
        write!(file, "\t{}", cell(field))?;
    }
    writeln!(file)?;
    for row in rows {
        write!(file, "{}\t{}\t{}", row.key, row.title, row.text)?;
        for field in &fields {
            write!(file, "\t{}", row.metadata.get(*field).map_or("", String::as_str))?;
        }
        writeln!(file)?;
    }
    file.flush()
}
