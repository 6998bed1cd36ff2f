//! What engines are given: chosen evenly over a file, handed over as lines of JSON.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Result;

/// `count` of them at like distances, in order; all where there are fewer.
pub fn evenly<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let all = items.len();
    if all <= count {
        return items;
    }
    let mut wanted = (0..count).map(|at| at * all / count).peekable();
    let chosen = |(at, item): (usize, T)| wanted.next_if_eq(&at).map(|_| item);
    items.into_iter().enumerate().filter_map(chosen).collect()
}

/// Writes one JSON value per line.
pub fn write_lines<T: Serialize>(path: &Path, items: &[T]) -> Result<()> {
    let mut out = std::io::BufWriter::new(fs_err::File::create(path)?);
    for item in items {
        serde_json::to_writer(&mut out, item).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Reads what [`write_lines`] wrote.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    Ok(fs_err::read_to_string(path)?.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_items_are_evenly_spaced() {
        let items = |count: usize| (0..count).collect::<Vec<_>>();
        assert_eq!(evenly(items(10), 4), [0, 2, 5, 7]);
        assert_eq!(evenly(items(3), 3), [0, 1, 2]);
        assert_eq!(evenly(items(2), 5).len(), 2);
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pairs.jsonl");
        let pairs = [("q0".to_owned(), "a\n0".to_owned()), ("q1".to_owned(), String::new())];
        write_lines(&path, &pairs).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "[\"q0\",\"a\\n0\"]\n[\"q1\",\"\"]\n");
        assert_eq!(read_lines::<(String, String)>(&path).unwrap(), pairs);
    }
}
