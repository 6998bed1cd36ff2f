//! Whole towers by our kernels against the same towers by torch's operators.

use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::packed::{Packed, Run};
use super::*;
use crate::config::{Architecture, BertConfig, BertFamily, Cell, HiddenActivation, RecurrentConfig, T5Config};
use crate::device::set_operator_threads;
use crate::error::Error;

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
            let scale = if shape.len() == 2 { (1.0 / shape[1] as f64).sqrt() } else { 0.5 };
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

#[test]
fn kernels_give_the_states_of_operators() {
    tch::manual_seed(11);
    let run = |first, rows, tokens| Run { first, rows, tokens };
    let runs = vec![run(0, 1, 70), run(70, 2, 33), run(136, 3, 5), run(151, 1, 1)];
    let positions = runs.iter().flat_map(|run| (0..run.rows).flat_map(|_| 0..run.tokens)).chain([0; 8]);
    let positions = Tensor::from_slice(&positions.collect::<Vec<i64>>());
    let ids = Tensor::from_slice(&(0..160).map(|place| place * 7 % 50).collect::<Vec<i64>>());
    let mut packed = Packed { ids, positions, types: None, runs, filler: 8, prompt: 0, exec: Exec::ONE_THREAD };
    for architecture in [bert(BertFamily::Bert), bert(BertFamily::MpNet), t5()] {
        // States are of size 1 to 10; int8 may round to the neighbour where the last bits of a sum differ.
        for (kind, int8, limit) in [(Kind::Float, false, 1e-4), (Kind::Float, true, 0.1), (Kind::BFloat16, false, 0.3)]
        {
            let form = if int8 { WeightForm::Int8 } else { WeightForm::Fixed };
            let mut random = RandomParameters { tensors: HashMap::new(), kind, form };
            let fixed = Transformer::load(&mut random, &architecture).unwrap();
            // In f32 our kernels multiply with any number of threads, unless the network learns.
            if kind == Kind::Float && !int8 {
                random.form = WeightForm::Learned;
            }
            let other = Transformer::load(&mut random, &architecture).unwrap();
            let mut states = |network: &Transformer, threads| {
                set_operator_threads(threads);
                packed.exec = Exec::on(threads);
                tch::no_grad(|| network.forward(&packed)).unwrap().to_kind(Kind::Float).narrow(0, 0, 152)
            };
            let (kernels, operators) = (states(&fixed, 1), states(&other, 2));
            assert!(operators.abs().max().double_value(&[]) > 0.5);
            let apart = (kernels - operators).abs().max().double_value(&[]);
            assert!(apart < limit, "{architecture:?} {kind:?} {int8}: {apart}");
        }
    }
}

/// The tensors that a configuration lists without a network are those that the network loads.
#[test]
fn networks_take_the_tensors_that_their_configuration_lists() {
    let recurrent = |cell, bidirectional| {
        let (vocab_size, embedding_size, hidden_size, layers) = (7, 3, 4, 2);
        Architecture::Recurrent(RecurrentConfig {
            cell,
            vocab_size,
            embedding_size,
            hidden_size,
            layers,
            bidirectional,
        })
    };
    let mut plain = t5();
    if let Architecture::T5(config) = &mut plain {
        config.gated = false;
    }
    let families = [BertFamily::Bert, BertFamily::DistilBert, BertFamily::MpNet].map(bert);
    let others = [t5(), plain, recurrent(Cell::Lstm, true), recurrent(Cell::Gru, false), recurrent(Cell::Rnn, false)];
    for architecture in families.into_iter().chain(others) {
        let mut random = RandomParameters { tensors: HashMap::new(), kind: Kind::Float, form: WeightForm::Learned };
        Transformer::load(&mut random, &architecture).unwrap();
        let shape = |tensor: &Tensor| tensor.size().iter().map(|&length| length as usize).collect::<Vec<_>>();
        let mut taken: Vec<_> = random.tensors.iter().map(|(name, tensor)| (name.clone(), shape(tensor))).collect();
        let mut listed: Vec<_> = architecture.tensors().collect();
        taken.sort();
        listed.sort();
        assert_eq!(taken, listed, "{architecture:?}");
    }
}
