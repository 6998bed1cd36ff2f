//! Small valid shards, one for each way in which shards differ: type of rows, metric, layers, words per sketch, no
//! vector, one vector.

use std::sync::LazyLock;

use dyad_index::certificate::RankScore;
use dyad_index::format::RowType;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::DenseRows;
use dyad_index::shard::{self, ShardInput, ShardMeta};
use dyad_index::{Arranged, BuildRecord, Certificate, Graph, GraphLayer, Metric, ModelRecord, RecallPoint};

use crate::MemoryFile;

/// What a shard is made from.
struct Shape {
    n: u32,
    dim: usize,
    layers: u32,
    metric: Metric,
    row_type: RowType,
}

const SHAPES: [Shape; 8] = [
    Shape {
        n: 12,
        dim: 5,
        layers: 2,
        metric: Metric::Cosine,
        row_type: RowType::F32,
    },
    Shape {
        n: 12,
        dim: 5,
        layers: 1,
        metric: Metric::Cosine,
        row_type: RowType::F16,
    },
    Shape {
        n: 12,
        dim: 5,
        layers: 2,
        metric: Metric::Dot,
        row_type: RowType::F16,
    },
    Shape {
        n: 9,
        dim: 70,
        layers: 3,
        metric: Metric::L2,
        row_type: RowType::F32,
    },
    Shape {
        n: 20,
        dim: 4,
        layers: 2,
        metric: Metric::L2,
        row_type: RowType::F16,
    },
    Shape {
        n: 0,
        dim: 3,
        layers: 0,
        metric: Metric::Cosine,
        row_type: RowType::F32,
    },
    Shape {
        n: 1,
        dim: 1,
        layers: 1,
        metric: Metric::Cosine,
        row_type: RowType::F32,
    },
    Shape {
        n: 70,
        dim: 130,
        layers: 3,
        metric: Metric::Cosine,
        row_type: RowType::F16,
    },
];

/// Their bytes.
pub fn small_shards() -> &'static [Vec<u8>] {
    static SHARDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| SHAPES.iter().map(Shape::bytes).collect());
    &SHARDS
}

impl Shape {
    /// Rows that repeat after a while, so that there are ties; of unit length for cosine.
    fn vectors(&self) -> Vec<f32> {
        let mut values: Vec<f32> = (0..self.n as usize * self.dim)
            .map(|i| ((i * 37 % 17) as f32) - 8.0)
            .collect();
        for row in values.chunks_mut(self.dim).filter(|_| self.metric == Metric::Cosine) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
        values
    }

    /// On every layer a ring with a few chords; each layer holds every fourth node of the one below.
    fn graph(&self) -> Graph {
        let layer = |at: u32| {
            let nodes: Vec<u32> = (0..self.n).step_by(4usize.pow(at)).collect();
            let links = |i: usize| {
                let mut links: Vec<u32> = [1, nodes.len() - 1, 5]
                    .map(|step| nodes[(i + step) % nodes.len()])
                    .into();
                links.sort_unstable();
                links.dedup();
                links.retain(|target| *target != nodes[i]);
                links
            };
            let lists: Vec<Vec<u32>> = (0..nodes.len()).map(links).collect();
            GraphLayer::from_lists(nodes, &lists)
        };
        Graph {
            entry: 0,
            layers: (0..self.layers).map(layer).collect(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let values = self.vectors();
        let rows = DenseRows::new(&values, self.dim);
        let codes = Codes::encode(&rows, Codec::fit(&rows, self.metric, 7));
        let model = ModelRecord {
            name: "m".into(),
            fingerprint: "f00d".into(),
            dim: self.dim,
            full_dim: None,
            metric: self.metric,
            max_tokens: 256,
        };
        let build = BuildRecord {
            builder: "b".into(),
            m: 4,
            ef_construction: 8,
            seed: 1,
            threads: 1,
            tool: "t".into(),
        };
        let point = RecallPoint {
            ef: 16,
            recall_at_10: 1.0,
            recall_at_100: None,
            distance_computations: 9.0,
            scored: 3.0,
        };
        let certificate = Certificate {
            vectors: u64::from(self.n),
            calibration: [(1, 0.9), (4, 0.5), (8, 0.1)]
                .map(|(rank, score)| RankScore {
                    rank,
                    score,
                    low: score - 0.1,
                })
                .into(),
            recall: vec![point],
            ..Certificate::default()
        };
        let keys: Vec<String> = (0..self.n)
            .map(|node| format!("key-{}", u64::from(node) * 7 % 71))
            .collect();
        let arranged = Arranged::new(&self.graph(), &codes).expect("the graph is valid");
        let input = ShardInput {
            meta: &ShardMeta { model, build },
            vectors: &rows,
            row_type: self.row_type,
            arranged: &arranged,
            keys: &keys,
            certificate: &certificate,
        };
        let file = MemoryFile::new(&[]).expect("a file in memory");
        shard::write(&file.path(), &input).expect("the shard can be written");
        std::fs::read(file.path()).expect("what was written can be read")
    }
}
