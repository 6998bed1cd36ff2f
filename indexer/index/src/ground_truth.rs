//! The questions by which a shard was certified and their exact nearest nodes, so that recall can be measured again without
//! another exact scan once documents are deleted.
//!
//! `ground-truth.dyad` is written once with its shard. All integers are little-endian:
//!
//! ```text
//! 0    magic        8 bytes  "DYADTRUE"
//! 8    version      u32      1; a reader refuses others
//! 12   dim          u32      values of a question, 0 where the questions are documents of the shard
//! 16   questions    u64      q
//! 24   depth        u64      d, nearest nodes of each question, itself left out
//! 32   nodes        u64      n, of the shard
//! 40   reserved     24 bytes zero
//! 64   questions    f32 x q x dim, or u32 x q nodes where dim is 0
//!      neighbours   u32 x q x d, nearest first
//! ```
//!
//! The manifest has its length and checksum. Shards of earlier releases have none: their nearest nodes are computed.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use zerocopy::IntoBytes as _;

use crate::error::{Error, Result};

/// Name of the file inside a shard's directory.
pub const GROUND_TRUTH_FILE: &str = "ground-truth.dyad";

const MAGIC: [u8; 8] = *b"DYADTRUE";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;

/// The questions of a certificate.
#[derive(Debug, Clone, PartialEq)]
pub enum Questions {
    /// Documents of the shard, each left out of its own hits.
    Nodes(Vec<u32>),
    /// Vectors of `dim` values, one after another.
    Vectors {
        /// Values of each, at least 1.
        dim: usize,
        /// All of them.
        values: Vec<f32>,
    },
}

impl Questions {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Nodes(nodes) => nodes.len(),
            Self::Vectors { dim, values } => values.len() / (*dim).max(1),
        }
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Questions, and the nodes nearest to each.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundTruth {
    /// The questions.
    pub questions: Questions,
    /// Nearest nodes of each, as many of each question, nearest first.
    pub neighbours: Vec<u32>,
    /// Nodes of the shard.
    pub nodes: usize,
}

impl GroundTruth {
    /// Nearest nodes of each question.
    pub fn depth(&self) -> usize {
        self.neighbours.len() / self.questions.len().max(1)
    }

    /// Writes a new file and makes its bytes durable; the caller makes its name durable.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = BufWriter::new(fs_err::File::create(path)?);
        self.write_to(&mut file)?;
        Ok(file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?)
    }

    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let (dim, asked) = match &self.questions {
            Questions::Nodes(nodes) => (0, nodes.as_bytes()),
            Questions::Vectors { dim, values } => (*dim, values.as_bytes()),
        };
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(dim as u32).to_le_bytes())?;
        for number in [self.questions.len(), self.depth(), self.nodes, 0, 0, 0] {
            out.write_all(&(number as u64).to_le_bytes())?;
        }
        out.write_all(asked)?;
        out.write_all(self.neighbours.as_bytes())
    }

    /// Opens the file of a shard of `nodes` nodes and vectors of `dim` values.
    pub fn open(path: &Path, dim: usize, nodes: usize) -> Result<Self> {
        let bytes = fs_err::read(path)?;
        let version = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk().copied()).map(u32::from_le_bytes);
        if let Some(got) = version.filter(|version| *version > VERSION) {
            return Err(Error::Newer { path: path.to_owned(), got, supported: VERSION });
        }
        Self::parse(&bytes, dim, nodes).ok_or_else(|| Error::Format {
            path: path.to_owned(),
            part: "content".to_owned(),
            expected: format!("questions and nearest nodes of a shard of {nodes} documents"),
            got: "something else".to_owned(),
            hint: "`dyad-indexer verify` says which file is damaged. Write an intact copy under another name and `mv` it there",
        })
    }

    fn parse(bytes: &[u8], dim: usize, nodes: usize) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_LEN)?;
        let header = header.strip_prefix(&MAGIC)?;
        let number = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let long = |at: usize| usize::try_from(u64::from_le_bytes(*header.get(at..)?.first_chunk()?)).ok();
        let (version, own_dim) = (number(0)?, number(4)? as usize);
        let (questions, depth, own_nodes) = (long(8)?, long(16)?, long(24)?);
        if version != VERSION || own_nodes != nodes || (own_dim != 0 && own_dim != dim) {
            return None;
        }
        let (asked, neighbours) = rest.split_at_checked(questions.checked_mul(own_dim.max(1))?.checked_mul(4)?)?;
        if neighbours.len() != questions.checked_mul(depth)?.checked_mul(4)? {
            return None;
        }
        let numbers =
            |part: &[u8]| -> Vec<u32> { part.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect() };
        let inside = |all: &[u32]| all.iter().all(|node| (*node as usize) < nodes);
        let questions = if own_dim == 0 {
            Questions::Nodes(Some(numbers(asked)).filter(|nodes| inside(nodes))?)
        } else {
            let values: Vec<f32> = numbers(asked).into_iter().map(f32::from_bits).collect();
            if !values.iter().all(|value| value.is_finite()) {
                return None;
            }
            Questions::Vectors { dim, values }
        };
        let neighbours = Some(numbers(neighbours)).filter(|nodes| inside(nodes))?;
        Some(Self { questions, neighbours, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> [GroundTruth; 3] {
        let neighbours = vec![3, 1, 2, 0, 4, 3];
        let vectors = Questions::Vectors { dim: 2, values: vec![0.5, -1.0, 0.0, 2.0] };
        [
            GroundTruth { questions: Questions::Nodes(vec![4, 0]), neighbours: neighbours.clone(), nodes: 5 },
            GroundTruth { questions: vectors, neighbours, nodes: 5 },
            GroundTruth { questions: Questions::Nodes(vec![0]), neighbours: Vec::new(), nodes: 1 },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(GROUND_TRUTH_FILE);
        for truth in some() {
            truth.write(&path).unwrap();
            assert_eq!(GroundTruth::open(&path, 2, truth.nodes).unwrap(), truth);
            let refused = GroundTruth::open(&path, 2, truth.nodes + 1).unwrap_err().to_string();
            assert!(refused.contains(GROUND_TRUTH_FILE) && refused.contains("verify"), "{refused}");
        }
        fs_err::write(&path, [&MAGIC[..], &[9, 0, 0, 0]].concat()).unwrap();
        assert!(matches!(GroundTruth::open(&path, 2, 5), Err(Error::Newer { got: 9, .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(which in 0usize..3, at in 0usize..120, byte: u8, cut in 0usize..120) {
            let mut bytes = Vec::new();
            some()[which].write_to(&mut bytes).unwrap();
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            if let Some(read) = GroundTruth::parse(&bytes, 2, 5) {
                assert!(read.neighbours.iter().all(|node| *node < 5));
            }
        }
    }
}
