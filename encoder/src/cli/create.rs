//! `dyad-encoder create`: a dual encoder from one pretrained model.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::{RecurrentCell, Sharing};
use crate::model::{create_from_scratch, create_over, create_with, own_projection};
use crate::transform::{Aggregation, Creation, NewEncoder};

/// Values per vector where neither the command nor the model says it.
const DIM: usize = 768;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoolingChoice {
    /// The mean over all tokens
    Mean,
    /// Multi-hop self-attention, randomly initialised; sentence-transformers cannot read it
    Multihop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoder {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997)
    Lstm,
    /// Gated recurrent unit (Cho et al. 2014)
    Gru,
    /// tanh of input and state (Elman 1990)
    Rnn,
    /// A small BERT: positions are learned, and each block is normalised after the residual sum (post-norm), not
    /// before; sentence-transformers reads it as a BERT
    Transformer,
}

#[derive(Debug, Args)]
pub(crate) struct CreateOptions {
    /// Pretrained model that the towers start from: both from its one tower, or each from its own where it has two (a
    /// DPR pair, a `Router`); what the new towers share is then that of the question tower
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Directory of the new model
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// sde, ade, ade-ste, ade-fte, ade-spl, or token=T,transformer=T,projection=T with shared, separate or frozen
    #[arg(long, default_value_t = Sharing::SDE)]
    sharing: Sharing,
    /// Values per vector [default: those of the model's own projection (DPR's `encode_proj`), which is then kept;
    /// else 768]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dim: Option<u32>,
    /// From token vectors to one vector [default: as the pretrained model has it]
    #[arg(long, value_enum)]
    pooling: Option<PoolingChoice>,
    /// Weighted means of `--pooling multihop`
    #[arg(
        long, value_name = "N", default_value_t = 4, requires = "pooling",
        value_parser = clap::value_parser!(u32).range(1..=256),
    )]
    hops: u32,
    /// Values between the two maps of `--pooling multihop`
    #[arg(
        long, value_name = "N", default_value_t = 350, requires = "pooling",
        value_parser = clap::value_parser!(u32).range(1..=65_536),
    )]
    inner: u32,
    /// Use this randomly initialised encoder over the token vectors and the tokenizer of `--model` (of two towers: the
    /// question tower's)
    #[arg(long, value_enum)]
    encoder: Option<Encoder>,
    /// Initialise everything randomly, token vectors too: no weights of `--model` are read, and without `--encoder` the
    /// transformer is that of its `config.json` (of two towers: the question tower's)
    #[arg(long)]
    from_scratch: bool,
    /// Layers of `--encoder`
    #[arg(
        long, value_name = "N", default_value_t = 2, requires = "encoder",
        value_parser = clap::value_parser!(u32).range(1..=64),
    )]
    layers: u32,
    /// Values of a state of `--encoder lstm`, `gru` and `rnn`; a transformer is as wide as the token vectors
    #[arg(
        long, value_name = "N", default_value_t = 384, requires = "encoder",
        value_parser = clap::value_parser!(u32).range(1..=65_536),
    )]
    hidden: u32,
    /// With `--encoder lstm`, `gru` or `rnn`: also read from the end
    #[arg(long, requires = "encoder")]
    bidirectional: bool,
    /// Seed of the random initialisation
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(options: &CreateOptions) -> anyhow::Result<()> {
    let brings_none = options.from_scratch || options.encoder.is_some() || options.pooling.is_some();
    let dim = match options.dim {
        Some(dim) => dim as usize,
        None if brings_none => DIM,
        None => own_projection(&options.model)?.unwrap_or(DIM),
    };
    let creation = Creation {
        sharing: options.sharing,
        dim,
        seed: options.seed,
    };
    let aggregation = match options.pooling {
        None => Aggregation::Kept,
        Some(PoolingChoice::Mean) => Aggregation::Mean,
        Some(PoolingChoice::Multihop) => Aggregation::MultiHop {
            inner: options.inner as usize,
            hops: options.hops as usize,
        },
    };
    let cell = match options.encoder {
        Some(Encoder::Lstm) => Some(RecurrentCell::Lstm),
        Some(Encoder::Gru) => Some(RecurrentCell::Gru),
        Some(Encoder::Rnn) => Some(RecurrentCell::Rnn),
        Some(Encoder::Transformer) | None => None,
    };
    let (layers, hidden, bidirectional) = (options.layers as usize, options.hidden as usize, options.bidirectional);
    let encoder = match cell {
        Some(cell) => Some(NewEncoder::Recurrent {
            cell,
            layers,
            hidden,
            bidirectional,
        }),
        None => options.encoder.map(|_| NewEncoder::Transformer { layers }),
    };
    match encoder {
        encoder if options.from_scratch => {
            create_from_scratch(&options.model, &options.out, &creation, encoder, aggregation)?;
        }
        Some(encoder) => create_over(&options.model, &options.out, &creation, encoder, aggregation)?,
        None => create_with(&options.model, &options.out, &creation, aggregation)?,
    }
    writeln!(
        std::io::stdout().lock(),
        "created {} ({})",
        options.out.display(),
        options.sharing
    )?;
    Ok(())
}
