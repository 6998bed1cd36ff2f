//! The questions by which a shard was certified and their exact nearest nodes, so that recall can be measured again
//! without another exact scan once documents are deleted.
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
use crate::search::NodeSet;
use crate::storage::MmapFile;

/// Name of the file inside a shard's directory.
pub const GROUND_TRUTH_FILE: &str = "ground-truth.dyad";

const MAGIC: [u8; 8] = *b"DYADTRUE";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;
/// Hits for which it is known what deletions can cost: those for which certificates have recall.
const LOST_AT: [usize; 2] = [10, LOST_DEPTH];
const LOST_DEPTH: usize = 100;

/// The questions of a certificate.
#[derive(Debug, Clone, PartialEq)]
pub enum CertificateQuestions {
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

impl CertificateQuestions {
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
    pub questions: CertificateQuestions,
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
            CertificateQuestions::Nodes(nodes) => (0, nodes.as_bytes()),
            CertificateQuestions::Vectors { dim, values } => (*dim, values.as_bytes()),
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
        Self::parse(&bytes, dim, nodes).ok_or_else(|| refused(path, &bytes, nodes))
    }

    fn parse(bytes: &[u8], dim: usize, nodes: usize) -> Option<Self> {
        let GroundTruthParts {
            own_dim,
            asked,
            neighbours,
            ..
        } = GroundTruthParts::split(bytes, dim, nodes)?;
        let numbers = |part: &[u8]| -> Vec<u32> {
            part.as_chunks()
                .0
                .iter()
                .map(|number| u32::from_le_bytes(*number))
                .collect()
        };
        let inside = |all: &[u32]| all.iter().all(|node| (*node as usize) < nodes);
        let questions = if own_dim == 0 {
            CertificateQuestions::Nodes(Some(numbers(asked)).filter(|nodes| inside(nodes))?)
        } else {
            let values: Vec<f32> = numbers(asked).into_iter().map(f32::from_bits).collect();
            if !values.iter().all(|value| value.is_finite()) {
                return None;
            }
            CertificateQuestions::Vectors { dim, values }
        };
        let neighbours = Some(numbers(neighbours)).filter(|nodes| inside(nodes))?;
        Some(Self {
            questions,
            neighbours,
            nodes,
        })
    }
}

/// Why these bytes are not the file of a shard of `nodes` nodes.
fn refused(path: &Path, bytes: &[u8], nodes: usize) -> Error {
    let version = bytes
        .strip_prefix(&MAGIC)
        .and_then(|rest| rest.first_chunk().copied())
        .map(u32::from_le_bytes);
    if let Some(got) = version.filter(|version| *version > VERSION) {
        return Error::Newer {
            path: path.to_owned(),
            got,
            supported: VERSION,
        };
    }
    Error::Format {
        path: path.to_owned(),
        part: "content".to_owned(),
        expected: format!("questions and nearest nodes of a shard of {nodes} documents"),
        got: "something else".to_owned(),
        hint: "`dyad-indexer verify` says which file is damaged. Write an intact copy under another name and `mv` it there",
    }
}

/// What a file consists of.
struct GroundTruthParts<'a> {
    /// Values of a question, 0 where the questions are documents of the shard.
    own_dim: usize,
    questions: usize,
    depth: usize,
    /// The bytes of the questions.
    asked: &'a [u8],
    /// The bytes of their nearest nodes.
    neighbours: &'a [u8],
}

impl<'a> GroundTruthParts<'a> {
    /// None where the bytes are no such file, or of a shard with another number of nodes.
    fn split(bytes: &'a [u8], dim: usize, nodes: usize) -> Option<Self> {
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
        Some(Self {
            own_dim,
            questions,
            depth,
            asked,
            neighbours,
        })
    }
}

/// The nearest nodes of a shard's questions, read where they are in its file: what a deletion looks at is a small part
/// of it.
#[derive(Debug)]
pub struct NearestNodes {
    map: MmapFile,
    dim: usize,
    nodes: usize,
}

impl NearestNodes {
    /// Opens the file of a shard of `nodes` nodes and vectors of `dim` values.
    pub fn open(path: &Path, dim: usize, nodes: usize) -> Result<Self> {
        let map = MmapFile::open(path)?;
        match GroundTruthParts::split(&map, dim, nodes) {
            Some(_) => Ok(Self { map, dim, nodes }),
            None => Err(refused(path, &map, nodes)),
        }
    }

    /// The most by which recall@10 or recall@100 can fall, whichever falls further, when the live nodes `before` become
    /// `after`: the mean share of a question's nearest live nodes that are no longer there. After deletions a search
    /// goes at least as far as before, and finds every remaining node that it found before. In the worst case it finds
    /// none of the nodes that take the place of the deleted ones. Where too few nearest nodes of a question are known,
    /// all that were deleted count as near to it.
    pub fn most_lost(&self, before: impl Fn(u32) -> bool, after: &NodeSet, deleted: usize) -> f64 {
        let Some(GroundTruthParts {
            own_dim,
            questions,
            depth,
            neighbours,
            ..
        }) = GroundTruthParts::split(&self.map, self.dim, self.nodes)
        else {
            return 1.0;
        };
        // A document is not among its own hits.
        let is_whole = depth + usize::from(own_dim == 0) >= self.nodes;
        let mut lost = LOST_AT.map(|_| 0.0);
        for question in 0..questions {
            let list = neighbours
                .get(question * depth * 4..(question + 1) * depth * 4)
                .unwrap_or_default();
            let list = list.as_chunks().0.iter().map(|node| u32::from_le_bytes(*node));
            let mut gone = Vec::with_capacity(LOST_DEPTH);
            gone.extend(
                list.filter(|node| before(*node))
                    .map(|node| !after.contains(node))
                    .take(LOST_DEPTH),
            );
            for (lost, k) in lost.iter_mut().zip(LOST_AT) {
                let known = gone.get(..k).unwrap_or(&gone);
                let near = known.iter().filter(|gone| **gone).count();
                let missing = if is_whole { 0 } else { k - known.len() };
                let wanted = (known.len() + missing).max(1);
                *lost += (near + missing.min(deleted.saturating_sub(near))) as f64 / wanted as f64;
            }
        }
        lost.into_iter().fold(0.0, f64::max) / questions.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> [GroundTruth; 3] {
        let neighbours = vec![3, 1, 2, 0, 4, 3];
        let vectors = CertificateQuestions::Vectors {
            dim: 2,
            values: vec![0.5, -1.0, 0.0, 2.0],
        };
        [
            GroundTruth {
                questions: CertificateQuestions::Nodes(vec![4, 0]),
                neighbours: neighbours.clone(),
                nodes: 5,
            },
            GroundTruth {
                questions: vectors,
                neighbours,
                nodes: 5,
            },
            GroundTruth {
                questions: CertificateQuestions::Nodes(vec![0]),
                neighbours: Vec::new(),
                nodes: 1,
            },
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
            assert!(
                refused.contains(GROUND_TRUTH_FILE) && refused.contains("verify"),
                "{refused}"
            );
        }
        fs_err::write(&path, [&MAGIC[..], &[9, 0, 0, 0]].concat()).unwrap();
        assert!(matches!(
            GroundTruth::open(&path, 2, 5),
            Err(Error::Newer { got: 9, .. })
        ));
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
