//! LSTM, GRU and RNN over a table of token vectors, by torch's own cells. Rows of one length run together, and a batch
//! with padding as a packed sequence (all first tokens, then all second ones, and so on), so that no state is carried
//! through padding.

use tch::{TchError, Tensor};

use super::packed::{LengthRun, Packed, joined, on};
use super::parameters::Parameters;
use super::shared_tensor::SharedTensor;
use crate::config::{RecurrentCell, RecurrentConfig};
use crate::error::Error;

/// A recurrent encoder.
#[derive(Debug, Clone)]
pub(crate) struct Recurrent {
    tokens: SharedTensor,
    /// Weights and biases in the order in which torch takes them.
    weights: Vec<SharedTensor>,
    config: RecurrentConfig,
    /// cuDNN keeps what the way back needs only where it is told so.
    trainable: bool,
}

impl Recurrent {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &RecurrentConfig) -> Result<Self, Error> {
        let tokens = parameters.take(RecurrentConfig::TABLE, &[config.vocab_size, config.embedding_size])?;
        let tokens = tokens.into();
        let weights = config
            .cells()
            .map(|(name, shape)| parameters.take(&name, &shape).map(SharedTensor::from));
        let weights = weights.collect::<Result<_, _>>()?;
        Ok(Self {
            tokens,
            weights,
            config: config.clone(),
            trainable: parameters.form().is_learned(),
        })
    }

    /// `[t]` ids to `[t, h]`.
    pub(crate) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        if packed.is_padded() {
            return self.sequence(packed);
        }
        let tokens = Tensor::f_embedding(&self.tokens, &packed.ids, -1, false, false)?;
        let runs = packed.runs_of(&tokens)?;
        joined(
            packed
                .runs
                .iter()
                .zip(&runs)
                .map(|(run, tokens)| self.run(tokens, *run))
                .collect::<Result<_, _>>()?,
        )
    }

    /// All rows as one packed sequence, to `[t, h]`.
    fn sequence(&self, packed: &Packed) -> Result<Tensor, TchError> {
        let (tokens, device) = (packed.ids.size1()? as usize, packed.ids.device());
        let (mut order, mut sizes, mut places) = (Vec::with_capacity(tokens), Vec::new(), vec![0_i64; tokens]);
        for at in 0.. {
            let before = order.len();
            // Longest first, so that those with a token here are the first ones.
            for (first, _) in packed.rows().take_while(|&(_, length)| length > at) {
                if let Some(place) = places.get_mut((first + at) as usize) {
                    *place = order.len() as i64;
                }
                order.push(first + at);
            }
            if order.len() == before {
                break;
            }
            sizes.push((order.len() - before) as i64);
        }
        let ids = packed.ids.f_index_select(0, &on(device, &order)?)?;
        let input = Tensor::f_embedding(&self.tokens, &ids, -1, false, false)?;
        let RecurrentConfig {
            cell,
            hidden_size,
            layers,
            bidirectional,
            ..
        } = self.config;
        let weights: Vec<&Tensor> = self.weights.iter().map(|weight| &**weight).collect();
        let (layers, weights, train) = (layers as i64, weights.as_slice(), self.trainable);
        let rows = sizes.first().copied().unwrap_or(0);
        let states = [layers * self.config.directions() as i64, rows, hidden_size as i64];
        let zero = Tensor::f_zeros(states, (input.kind(), device))?;
        // Torch reads the sizes on the CPU.
        let sizes = Tensor::f_from_slice(&sizes)?;
        let output = match cell {
            RecurrentCell::Lstm => {
                let zeros = [&zero, &zero];
                Tensor::f_lstm_data(&input, &sizes, &zeros, weights, true, layers, 0.0, train, bidirectional)?.0
            }
            RecurrentCell::Gru => {
                Tensor::f_gru_data(&input, &sizes, &zero, weights, true, layers, 0.0, train, bidirectional)?.0
            }
            RecurrentCell::Rnn => {
                Tensor::f_rnn_tanh_data(&input, &sizes, &zero, weights, true, layers, 0.0, train, bidirectional)?.0
            }
        };
        // Padding gets its text's last state, so that on the way back not all of it is added to one.
        for (run, number) in packed
            .runs
            .iter()
            .flat_map(|run| (0..run.rows).map(move |number| (run, number)))
        {
            let own = (run.first + number * run.tokens) as usize..(run.first + (number + 1) * run.tokens) as usize;
            let Some(own) = places.get_mut(own) else { continue };
            let last = own.iter().copied().max().unwrap_or(0);
            let used = own.iter().rposition(|&place| place == last).map_or(0, |at| at + 1);
            own.iter_mut().skip(used).for_each(|place| *place = last);
        }
        output.f_index_select(0, &on(device, &places)?)
    }

    /// `[rows, s, e]` of a run to the states after each token, `[rows * s, h]`.
    fn run(&self, input: &Tensor, run: LengthRun) -> Result<Tensor, TchError> {
        let RecurrentConfig {
            cell,
            hidden_size,
            layers,
            bidirectional,
            ..
        } = self.config;
        let weights: Vec<&Tensor> = self.weights.iter().map(|weight| &**weight).collect();
        let (layers, weights, train) = (layers as i64, weights.as_slice(), self.trainable);
        let states = [layers * self.config.directions() as i64, run.rows, hidden_size as i64];
        let zero = Tensor::f_zeros(states, (input.kind(), input.device()))?;
        let output = match cell {
            RecurrentCell::Lstm => {
                let zeros = [&zero, &zero];
                input
                    .f_lstm(&zeros, weights, true, layers, 0.0, train, bidirectional, true)?
                    .0
            }
            RecurrentCell::Gru => {
                input
                    .f_gru(&zero, weights, true, layers, 0.0, train, bidirectional, true)?
                    .0
            }
            RecurrentCell::Rnn => {
                input
                    .f_rnn_tanh(&zero, weights, true, layers, 0.0, train, bidirectional, true)?
                    .0
            }
        };
        output.f_reshape([run.rows * run.tokens, -1])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tch::{Device, Kind};

    use super::super::exec::Exec;
    use super::*;

    /// Flat values by name.
    struct RandomParameters(HashMap<String, (Vec<f64>, Vec<usize>)>);

    impl Parameters for RandomParameters {
        fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
            let number = self.0.len() as f64;
            let value = |place: usize| ((place as f64 + 1.0) * 12.9898 + number * 78.233).sin() * 0.8;
            let values: Vec<f64> = (0..shape.iter().product()).map(value).collect();
            let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
            let tensor = Tensor::from_slice(&values).to_kind(Kind::Float).view(&size[..]);
            self.0.insert(name.to_owned(), (values, shape.to_vec()));
            Ok(tensor)
        }
    }

    impl RandomParameters {
        /// `W x + b` of one part (`ih` or `hh`) of one cell.
        fn affine(&self, part: &str, cell: &str, x: &[f64]) -> Vec<f64> {
            let (weight, shape) = &self.0[&format!("rnn.weight_{part}_{cell}")];
            let (bias, _) = &self.0[&format!("rnn.bias_{part}_{cell}")];
            assert_eq!(shape[1], x.len());
            let row = |row: usize| {
                weight[row * x.len()..(row + 1) * x.len()]
                    .iter()
                    .zip(x)
                    .map(|(w, x)| w * x)
                    .sum::<f64>()
            };
            (0..shape[0]).map(|at| row(at) + bias[at]).collect()
        }

        /// The states of one cell over a text, by the equations in torch's documentation of each module.
        fn states(&self, kind: RecurrentCell, cell: &str, inputs: &[Vec<f64>], h: usize) -> Vec<Vec<f64>> {
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let (mut state, mut memory, mut states) = (vec![0.0; h], vec![0.0; h], Vec::new());
            for input in inputs {
                let (a, b) = (self.affine("ih", cell, input), self.affine("hh", cell, &state));
                let sum = |block: usize, at: usize| a[block * h + at] + b[block * h + at];
                state = (0..h)
                    .map(|at| match kind {
                        RecurrentCell::Rnn => sum(0, at).tanh(),
                        RecurrentCell::Gru => {
                            let (reset, keep) = (sigmoid(sum(0, at)), sigmoid(sum(1, at)));
                            let new = (a[2 * h + at] + reset * b[2 * h + at]).tanh();
                            (1.0 - keep) * new + keep * state[at]
                        }
                        RecurrentCell::Lstm => {
                            let (let_in, keep, let_out) =
                                (sigmoid(sum(0, at)), sigmoid(sum(1, at)), sigmoid(sum(3, at)));
                            memory[at] = keep * memory[at] + let_in * sum(2, at).tanh();
                            let_out * memory[at].tanh()
                        }
                    })
                    .collect();
                states.push(state.clone());
            }
            states
        }
    }

    #[test]
    fn states_are_those_of_the_equations() {
        for cell in [RecurrentCell::Lstm, RecurrentCell::Gru, RecurrentCell::Rnn] {
            for (layers, bidirectional) in [(1, false), (2, false), (2, true)] {
                let config = RecurrentConfig {
                    cell,
                    vocab_size: 7,
                    embedding_size: 3,
                    hidden_size: 4,
                    layers,
                    bidirectional,
                };
                let mut random = RandomParameters(HashMap::new());
                let network = Recurrent::load(&mut random, &config).unwrap();
                // Two texts of three tokens, one of one.
                let ids = [1, 5, 2, 6, 0, 3, 4];
                let runs = [(0, 2, 3), (6, 1, 1)]
                    .map(|(first, rows, tokens)| LengthRun { first, rows, tokens })
                    .to_vec();
                let positions = Tensor::zeros([7], (Kind::Int64, Device::Cpu));
                let packed = Packed {
                    spans: Vec::new(),
                    types: None,
                    lengths: Vec::new(),
                    masks: Vec::new(),
                    ids: Tensor::from_slice(&ids.map(i64::from)),
                    positions,
                    runs,
                    filler: 0,
                    prompt: 0,
                    exec: Exec::ONE_THREAD,
                };
                let ours = Vec::<Vec<f64>>::try_from(network.forward(&packed).unwrap().to_kind(Kind::Double)).unwrap();

                let table = &random.0[RecurrentConfig::TABLE].0;
                let mut expected = Vec::new();
                for text in [&ids[0..3], &ids[3..6], &ids[6..]] {
                    let mut values: Vec<Vec<f64>> = text
                        .iter()
                        .map(|&id| table[id as usize * 3..(id as usize + 1) * 3].to_vec())
                        .collect();
                    for layer in 0..layers {
                        let forth = random.states(cell, &format!("l{layer}"), &values, 4);
                        if !bidirectional {
                            values = forth;
                            continue;
                        }
                        values.reverse();
                        let mut back = random.states(cell, &format!("l{layer}_reverse"), &values, 4);
                        back.reverse();
                        values = forth.into_iter().zip(back).map(|(a, b)| [a, b].concat()).collect();
                    }
                    expected.extend(values);
                }
                assert_eq!((ours.len(), ours[0].len()), (7, config.output_size()));
                let pairs = ours.iter().flatten().zip(expected.iter().flatten());
                let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-5, "{cell:?} {layers} {bidirectional}: {apart}");
            }
        }
    }
}
