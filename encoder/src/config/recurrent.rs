//! Sizes of a recurrent encoder: `config.json` of `model_type: "dyad-recurrent"`, a type of our own that no other
//! library reads.
//!
//! ```json
//! {"model_type": "dyad-recurrent", "cell": "lstm", "vocab_size": 30522, "embedding_size": 384, "hidden_size": 256,
//!  "layers": 2, "bidirectional": false}
//! ```

use serde_json::{Value, json};

use super::TensorSpec;
use super::json::JsonFile;
use crate::error::Error;

/// More layers than anybody stacks.
const MOST_LAYERS: usize = 256;

/// The recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentCell {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997), with a forget gate.
    Lstm,
    /// Gated recurrent unit (Cho et al. 2014), the reset gate after the product.
    Gru,
    /// `tanh` of input and state (Elman 1990).
    Rnn,
}

impl RecurrentCell {
    const ALL: [Self; 3] = [Self::Lstm, Self::Gru, Self::Rnn];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lstm => "lstm",
            Self::Gru => "gru",
            Self::Rnn => "rnn",
        }
    }

    /// Blocks of rows in a cell's matrices: gates, and what they let through.
    pub(crate) fn blocks(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }
}

/// Sizes of an LSTM, GRU or RNN over a table of token vectors (the encoders of Wang et al. 2021, "ENDX").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecurrentConfig {
    pub(crate) cell: RecurrentCell,
    pub(crate) vocab_size: usize,
    /// Values of a row of the token table.
    pub(crate) embedding_size: usize,
    /// Values of a state, in each direction.
    pub(crate) hidden_size: usize,
    pub(crate) layers: usize,
    /// A second network reads from the end; the states of both stand side by side.
    pub(crate) bidirectional: bool,
}

impl RecurrentConfig {
    /// The model type in `config.json`.
    pub(crate) const MODEL_TYPE: &str = "dyad-recurrent";
    /// The token table's name.
    pub(crate) const TABLE: &str = "embeddings.weight";

    pub(super) fn read(file: &JsonFile) -> Result<Self, Error> {
        let name = file.text("cell")?.unwrap_or_default();
        let cell = RecurrentCell::ALL.into_iter().find(|cell| cell.name() == name);
        Ok(Self {
            cell: cell.ok_or_else(|| file.unsupported("cell", "`lstm`, `gru` and `rnn`", name))?,
            vocab_size: file.positive("vocab_size")?,
            embedding_size: file.positive("embedding_size")?,
            hidden_size: file.positive("hidden_size")?,
            layers: match file.positive("layers")? {
                layers if layers <= MOST_LAYERS => layers,
                _ => return Err(file.wrong("layers", "a whole number from 1 to 256")),
            },
            bidirectional: file.flag("bidirectional")?.unwrap_or(false),
        })
    }

    pub(crate) fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Values of a token vector that comes out.
    pub(crate) fn output_size(&self) -> usize {
        self.hidden_size * self.directions()
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        let table = (Self::TABLE.to_owned(), vec![self.vocab_size, self.embedding_size]);
        std::iter::once(table).chain(self.cells())
    }

    /// The cells' tensors, in the order in which torch takes them: those of `torch.nn.LSTM`, `GRU` and `RNN`, below
    /// `rnn.`.
    pub(crate) fn cells(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        let rows = self.cell.blocks() * self.hidden_size;
        (0..self.layers).flat_map(move |layer| {
            let input = if layer == 0 {
                self.embedding_size
            } else {
                self.output_size()
            };
            ["", "_reverse"]
                .into_iter()
                .take(self.directions())
                .flat_map(move |end| {
                    let tensor = |part: &str, shape: Vec<usize>| (format!("rnn.{part}_l{layer}{end}"), shape);
                    [
                        tensor("weight_ih", vec![rows, input]),
                        tensor("weight_hh", vec![rows, self.hidden_size]),
                        tensor("bias_ih", vec![rows]),
                        tensor("bias_hh", vec![rows]),
                    ]
                })
        })
    }

    /// `config.json`, and for the fingerprint.
    pub(crate) fn fact(&self) -> Value {
        json!({
            "model_type": Self::MODEL_TYPE,
            "cell": self.cell.name(),
            "vocab_size": self.vocab_size,
            "embedding_size": self.embedding_size,
            "hidden_size": self.hidden_size,
            "layers": self.layers,
            "bidirectional": self.bidirectional,
        })
    }
}
