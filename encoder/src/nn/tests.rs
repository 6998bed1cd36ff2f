//! Whole towers by our kernels against the same towers by torch's operators.

use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::packed::{LengthRun, Packed};
use super::*;
use crate::config::{
    Architecture, BertConfig, BertFamily, HiddenActivation, MultiHopConfig, PoolingConfig, PoolingMode, RecurrentCell,
    RecurrentConfig, T5Config,
};
use crate::device::set_operator_threads;
use crate::error::Error;
use crate::tokenize::{TokenBatch, Tokens};

/// Random values, the same for each use of a name.
struct RandomParameters {
    tensors: HashMap<String, Tensor>,
    kind: Kind,
    form: WeightForm,
}

impl Parameters for RandomParameters {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        let tensor = self.tensors.entry(name.to_owned()).or_insert_with(|| {
            let scale = if shape.len() == 2 {
                (1.0 / shape[1] as f64).sqrt()
            } else {
                0.5
            };
            Tensor::randn(&size, (Kind::Float, Device::Cpu)) * scale
        });
        Ok(tensor.to_kind(self.kind))
    }

    fn form(&self) -> WeightForm {
        self.form
    }
}

fn bert(family: BertFamily) -> Architecture {
    Architecture::Bert(BertConfig {
        model_type: "bert".into(),
        family,
        vocab_size: 50,
        hidden_size: 64,
        layers: 2,
        heads: 2,
        intermediate_size: 128,
        position_rows: 80,
        type_rows: usize::from(family == BertFamily::Bert),
        layer_norm_eps: 1e-12,
        activation: HiddenActivation::Gelu,
        first_position: 0,
        relative_buckets: (family == BertFamily::MpNet).then_some(8),
        projection: None,
        scores: false,
    })
}

fn t5() -> Architecture {
    Architecture::T5(T5Config {
        vocab_size: 50,
        d_model: 48,
        d_kv: 32,
        d_ff: 64,
        layers: 2,
        heads: 3,
        buckets: 8,
        max_distance: 20,
        epsilon: 1e-6,
        activation: HiddenActivation::GeluTanh,
        gated: true,
    })
}

fn recurrent(cell: RecurrentCell, bidirectional: bool) -> Architecture {
    let (vocab_size, embedding_size, hidden_size, layers) = (50, 12, 16, 2);
    Architecture::Recurrent(RecurrentConfig {
        cell,
        vocab_size,
        embedding_size,
        hidden_size,
        layers,
        bidirectional,
    })
}

#[test]
fn kernels_give_the_states_of_operators() {
    tch::manual_seed(11);
    let run = |first, rows, tokens| LengthRun { first, rows, tokens };
    let runs = vec![run(0, 1, 70), run(70, 2, 33), run(136, 3, 5), run(151, 1, 1)];
    let positions = runs
        .iter()
        .flat_map(|run| (0..run.rows).flat_map(|_| 0..run.tokens))
        .chain([0; 8]);
    let positions = Tensor::from_slice(&positions.collect::<Vec<i64>>());
    let ids = Tensor::from_slice(&(0..160).map(|place| place * 7 % 50).collect::<Vec<i64>>());
    let mut packed = Packed {
        spans: Vec::new(),
        ids,
        positions,
        types: None,
        lengths: Vec::new(),
        masks: Vec::new(),
        runs,
        filler: 8,
        prompt: 0,
        exec: Exec::ONE_THREAD,
    };
    for architecture in [bert(BertFamily::Bert), bert(BertFamily::MpNet), t5()] {
        // States are of size 1 to 10; int8 may round to the neighbour where the last bits of a sum differ.
        for (kind, int8, limit) in [
            (Kind::Float, false, 1e-4),
            (Kind::Float, true, 0.1),
            (Kind::BFloat16, false, 0.3),
        ] {
            let form = if int8 { WeightForm::Int8 } else { WeightForm::Fixed };
            let mut random = RandomParameters {
                tensors: HashMap::new(),
                kind,
                form,
            };
            let fixed = Transformer::load(&mut random, &architecture).unwrap();
            // In f32 our kernels multiply with any number of threads, unless the network learns.
            if kind == Kind::Float && !int8 {
                random.form = WeightForm::Learned;
            }
            let other = Transformer::load(&mut random, &architecture).unwrap();
            let mut states = |network: &Transformer, threads| {
                set_operator_threads(threads);
                packed.exec = Exec::on(threads);
                tch::no_grad(|| network.forward(&packed))
                    .unwrap()
                    .to_kind(Kind::Float)
                    .narrow(0, 0, 152)
            };
            let (kernels, operators) = (states(&fixed, 1), states(&other, 2));
            assert!(operators.abs().max().double_value(&[]) > 0.5);
            let apart = (kernels - operators).abs().max().double_value(&[]);
            assert!(apart < limit, "{architecture:?} {kind:?} {int8}: {apart}");
        }
    }
}

/// A batch of texts of many lengths, with and without padding: states of the tokens that are there, every way of
/// pooling, and the gradients of all weights.
#[test]
fn padding_changes_nothing() {
    tch::manual_seed(14);
    let texts: Vec<Tokens> = [21, 3, 9, 9, 2, 14, 20, 1, 7, 7]
        .iter()
        .map(|&length| Tokens {
            ids: (0..length).map(|place| (place * 7 + length) % 50).collect(),
            ..Tokens::default()
        })
        .collect();
    let cells = [RecurrentCell::Lstm, RecurrentCell::Gru, RecurrentCell::Rnn].map(|cell| recurrent(cell, true));
    for architecture in [bert(BertFamily::Bert), bert(BertFamily::MpNet), t5()]
        .into_iter()
        .chain(cells)
    {
        let mut random = RandomParameters {
            tensors: HashMap::new(),
            kind: Kind::Float,
            form: WeightForm::Learned,
        };
        let network = Transformer::load(&mut random, &architecture).unwrap();
        let width = architecture.hidden_size();
        let modes = vec![
            PoolingMode::Cls,
            PoolingMode::Max,
            PoolingMode::Mean,
            PoolingMode::MeanSqrtLength,
            PoolingMode::WeightedMean,
            PoolingMode::LastToken,
        ];
        for (include_prompt, prompt) in [(true, 0), (false, 4)] {
            let pooling = PoolingLayer::new(PoolingConfig {
                modes: modes.clone(),
                include_prompt,
            });
            let hops = MultiHopConfig {
                in_features: width,
                inner: 6,
                hops: 2,
                include_prompt,
            };
            let hops = MultiHop::load(&mut random, &hops).unwrap();
            let learned: Vec<Tensor> = random
                .tensors
                .values()
                .map(|tensor| tensor.set_requires_grad(true))
                .collect();
            let outcome = |padding| {
                let batch = TokenBatch::new(&texts.iter().collect::<Vec<_>>(), prompt);
                let packed = Packed::new(&batch, Device::Cpu, padding, Exec::on(2), None).unwrap();
                assert_eq!(packed.is_padded(), padding != Padding::No);
                let tokens = network.forward(&packed).unwrap();
                let there = packed.rows().map(|(first, length)| tokens.narrow(0, first, length));
                let there = Tensor::cat(&there.collect::<Vec<_>>(), 0);
                let pooled = pooling.forward(&tokens, &packed).unwrap();
                let hopped = hops.forward(&tokens, &packed).unwrap();
                [there, pooled, hopped]
            };
            let (plain, padded) = (outcome(Padding::No), outcome(Padding::Rows(RunCosts::of(width, None))));
            for (place, (plain, padded)) in plain.iter().zip(&padded).enumerate() {
                assert_eq!(plain.size(), padded.size());
                let apart = (plain - padded).abs().max().double_value(&[]);
                assert!(apart < 2e-5, "{architecture:?} {place}, {include_prompt}: {apart}");
            }
            let gradients = |of: &[Tensor; 3]| {
                let weighed = of.iter().map(|values| {
                    let weights = Tensor::arange(values.numel() as i64, (Kind::Float, Device::Cpu)).sin();
                    (values.view([-1]) * weights).sum(Kind::Float)
                });
                Tensor::run_backward(&[weighed.sum::<Tensor>()], &learned, false, false)
            };
            let largest = |gradient: &Tensor| gradient.abs().max().double_value(&[]);
            for (plain, padded) in gradients(&plain).iter().zip(gradients(&padded)) {
                assert_eq!(plain.defined(), padded.defined());
                if !plain.defined() {
                    continue;
                }
                let apart = largest(&(plain - padded)) / largest(plain).max(1.0);
                assert!(apart < 1e-4, "{architecture:?}, {:?}: {apart}", plain.size());
            }
        }
    }
}

/// The tensors that a configuration lists without a network are those that the network loads.
#[test]
fn networks_take_the_tensors_that_their_configuration_lists() {
    let mut plain = t5();
    if let Architecture::T5(config) = &mut plain {
        config.gated = false;
    }
    let families = [BertFamily::Bert, BertFamily::DistilBert, BertFamily::MpNet].map(bert);
    let others = [
        t5(),
        plain,
        recurrent(RecurrentCell::Lstm, true),
        recurrent(RecurrentCell::Gru, false),
        recurrent(RecurrentCell::Rnn, false),
    ];
    for architecture in families.into_iter().chain(others) {
        let mut random = RandomParameters {
            tensors: HashMap::new(),
            kind: Kind::Float,
            form: WeightForm::Learned,
        };
        Transformer::load(&mut random, &architecture).unwrap();
        let shape = |tensor: &Tensor| tensor.size().iter().map(|&length| length as usize).collect::<Vec<_>>();
        let mut taken: Vec<_> = random
            .tensors
            .iter()
            .map(|(name, tensor)| (name.clone(), shape(tensor)))
            .collect();
        let mut listed: Vec<_> = architecture.tensors().collect();
        taken.sort();
        listed.sort();
        assert_eq!(taken, listed, "{architecture:?}");
    }
}
