//! The modules of a model, each loaded once however many towers run it, and the fingerprint over all of them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::architecture::Architecture;
use super::fingerprint::{Fingerprint, TensorRecord};
use super::layout::{Layout, Module, Placed};
use super::manifest::Manifest;
use super::modules::{Activation, DenseConfig};
use super::source::{Source, Ties};
use super::weights::WeightsFile;
use crate::device::{Compute, Device, Dtype};
use crate::dual::{Parameter, Part, Tie};
use crate::error::Error;
use crate::tokenize::{Splitter, SplitterSettings, Tokenizer};
use crate::tower::{Cores, Dense, Filling, Loaded, MultiHop, Network, Pooling, Route, Tower, Transformer, by_kernels};

/// The longest input of a model that names none and whose positions have no end.
const UNLIMITED_TOKENS: usize = 512;

/// The longest input that a model may ask for.
const LONGEST_INPUT: usize = 32_768;

/// A transformer's surroundings.
pub(super) struct Opened {
    /// Its place among the modules.
    at: usize,
    architecture: Architecture,
    splitter: Arc<Splitter>,
    pub(super) max_tokens: usize,
    lower_case: bool,
    /// DPR's projection, which lies in the transformer's own file: its place, and its length.
    projection: Option<(usize, usize)>,
}

/// Everything that was loaded.
pub(crate) struct Parts {
    modules: Vec<Loaded>,
    opened: Vec<Opened>,
    /// The tensors of each module that has some, by its place.
    pub(super) tensors: Vec<(usize, Vec<TensorRecord>)>,
    /// What is to be learned, each tensor once; empty unless that was asked for.
    pub(crate) parameters: Vec<Parameter>,
    filling: Filling,
    by_kernels: bool,
}

impl Parts {
    /// Loads all modules of a layout; `learned`: to be trained.
    pub(crate) fn load(
        layout: &Layout,
        compute: &Compute,
        manifest: Option<&Manifest>,
        learned: bool,
    ) -> Result<Self, Error> {
        // What learns in bfloat16 is kept in f32: a step is often smaller than what bfloat16 tells apart.
        let mixed = learned && compute.dtype == Dtype::Bf16;
        let stored = Compute { dtype: if mixed { Dtype::F32 } else { compute.dtype }, ..*compute };
        // Settings and tokenizers first: they are small, and refuse early.
        let mut opened = Vec::new();
        for (at, placed) in layout.modules.iter().enumerate() {
            if let Module::Transformer(_) = placed.module {
                let before = opened.iter().filter(|opened: &&Opened| opened.projection.is_some()).count();
                opened.push(Opened::open(at, placed, layout.modules.len() + before, compute)?);
            }
        }
        let sharing = manifest.and_then(|manifest| manifest.sharing);
        let frozen = |part: Part| sharing.is_some_and(|sharing| sharing.tie(part) == Tie::Frozen);
        let mut ties = Ties::new(layout, manifest);
        let recurrent = opened.iter().any(|opened| matches!(opened.architecture, Architecture::Recurrent(_)));
        let plain = compute.device == Device::Cpu && compute.dtype == Dtype::F32 && !learned && !recurrent;
        let by_kernels = plain && by_kernels();
        let filling = match (compute.device, compute.dtype) {
            (Device::Cuda(_), _) => Filling::No,
            _ if learned || recurrent => Filling::No,
            (Device::Cpu, Dtype::F32) if by_kernels => Filling::No,
            (Device::Cpu, Dtype::F32) => Filling::Many,
            (Device::Cpu, _) => Filling::All,
        };
        let mut parts =
            Self { modules: Vec::new(), opened, tensors: Vec::new(), parameters: Vec::new(), filling, by_kernels };
        for route in &layout.routes {
            parts.route(layout, route)?;
        }
        let mut projections = Vec::new();
        for (at, placed) in layout.modules.iter().enumerate() {
            let loaded = match &placed.module {
                Module::Transformer(_) => {
                    let Some(opened) = parts.opened.iter().find(|opened| opened.at == at) else { continue };
                    let architecture = opened.architecture.clone();
                    let file = WeightsFile::open(&placed.folder, stored, |name| architecture.tensor_name(name))?;
                    file.read_ahead();
                    let mut source =
                        Source::new(file, &placed.id, &mut ties, learned.then_some(&mut parts.parameters)).mix(mixed);
                    let table = frozen(Part::TokenEmbedder).then(|| architecture.token_table());
                    source.freeze(table, frozen(Part::Transformer), architecture.token_table());
                    let transformer = Transformer::load(&mut source, &architecture)?;
                    if let Some((_, out_features)) = opened.projection {
                        let in_features = architecture.hidden_size();
                        let settings =
                            DenseConfig { in_features, out_features, bias: true, activation: Activation::Identity };
                        let dense = Dense::load(&mut source, "encode_proj", &settings, compute.dtype.kind())?;
                        projections.push(Loaded::Dense(dense));
                    }
                    let records = source.finish(Architecture::is_unused)?;
                    parts.tensors.push((at, records));
                    Loaded::Transformer(transformer)
                }
                Module::Pooling(settings) => Loaded::Pooling(Pooling::new(settings.clone())),
                Module::MultiHop(settings) => {
                    let file = WeightsFile::open(&placed.folder, stored, str::to_owned)?;
                    let mut source =
                        Source::new(file, &placed.id, &mut ties, learned.then_some(&mut parts.parameters)).mix(mixed);
                    source.freeze(None, frozen(Part::Transformer), "");
                    let multihop = MultiHop::load(&mut source, settings)?;
                    parts.tensors.push((at, source.finish(|_| false)?));
                    Loaded::MultiHop(multihop)
                }
                Module::Dense(settings) => {
                    let file = WeightsFile::open(&placed.folder, stored, str::to_owned)?;
                    let mut source =
                        Source::new(file, &placed.id, &mut ties, learned.then_some(&mut parts.parameters)).mix(mixed);
                    source.freeze(None, frozen(Part::Projection), "");
                    let dense = Dense::load(&mut source, "linear", settings, compute.dtype.kind())?;
                    parts.tensors.push((at, source.finish(|_| false)?));
                    Loaded::Dense(dense)
                }
                Module::Normalize => Loaded::Normalize,
            };
            parts.modules.push(loaded);
        }
        parts.modules.append(&mut projections);
        ties.check()?;
        Ok(parts)
    }

    /// Both towers, and their tokenizer.
    pub(crate) fn network(self, layout: &Layout, compute: &Compute) -> Result<(Network, Tokenizer), Error> {
        let routes = [self.route(layout, &layout.routes[0])?, self.route(layout, &layout.routes[1])?];
        let [question, answer] = &routes;
        if question.dim != answer.dim {
            return Err(Error::Field {
                path: layout.root.join("modules.json"),
                field: "structure",
                expected: format!("towers of one dimension; the question tower gives {} values", question.dim),
                got: answer.dim.to_string(),
            });
        }
        let splitters = layout.routes.each_ref().map(|route| self.opened(route).map(|opened| &opened.splitter));
        let [Some(question), Some(answer)] = splitters else {
            let fix = "A tower begins with a transformer";
            return Err(Error::MissingFile { path: layout.root.join("config.json"), fix });
        };
        let threads = compute.lanes();
        let cores = if self.by_kernels && threads > 1 { Some(Cores::new(threads)?) } else { None };
        let tokenizer = Tokenizer::new([Arc::clone(question), Arc::clone(answer)], &layout.prompts)?;
        Ok((
            Network { modules: self.modules, routes, device: compute.torch_device(), filling: self.filling, cores },
            tokenizer,
        ))
    }

    /// Values of a token vector, of the question tower and the answer tower.
    pub(crate) fn token_sizes(&self, layout: &Layout) -> [usize; 2] {
        let size = |route: &Vec<usize>| self.opened(route).map_or(0, |opened| opened.architecture.hidden_size());
        layout.routes.each_ref().map(size)
    }

    /// The transformer of a route.
    pub(super) fn opened(&self, route: &[usize]) -> Option<&Opened> {
        self.opened.iter().find(|opened| Some(&opened.at) == route.first())
    }

    /// What a tower runs, and how long its vectors are.
    fn route(&self, layout: &Layout, route: &[usize]) -> Result<Route, Error> {
        let opened = self.opened(route);
        let (mut steps, mut dim) = (Vec::new(), 0);
        for &at in route {
            steps.push(at);
            let Some(placed) = layout.modules.get(at) else { continue };
            match &placed.module {
                Module::Transformer(_) => dim = opened.map_or(0, |opened| opened.architecture.hidden_size()),
                Module::Pooling(pooling) => {
                    dim *= pooling.modes.len();
                    if let Some((projection, length)) = opened.and_then(|opened| opened.projection) {
                        steps.push(projection);
                        dim = length;
                    }
                }
                Module::MultiHop(settings) => {
                    if settings.in_features != dim {
                        return Err(in_features(placed, dim, settings.in_features));
                    }
                    if opened.is_some_and(|opened| opened.projection.is_some()) {
                        return Err(Error::Unsupported {
                            path: layout.root.join("modules.json"),
                            what: "module behind DPR's own projection",
                            supported: "a `Pooling`",
                            got: placed.module.class().to_owned(),
                        });
                    }
                    dim *= settings.hops;
                }
                Module::Dense(settings) => {
                    if settings.in_features != dim {
                        return Err(in_features(placed, dim, settings.in_features));
                    }
                    dim = settings.out_features;
                }
                Module::Normalize => {}
            }
        }
        let dim = layout.truncate_dim.map_or(dim, |kept| kept.min(dim));
        Ok(Route { steps, dim })
    }

    /// The name of the model by content. A siamese model and its parts are named as they have always been; of two towers
    /// every fact says whose it is, and tensors are named by the folder of their module.
    pub(crate) fn fingerprint(&self, layout: &Layout) -> String {
        let mut facts = Fingerprint::new();
        let siamese = layout.is_siamese();
        let towers: &[Tower] = if siamese { &[Tower::Answer] } else { &[Tower::Question, Tower::Answer] };
        let named = |tower: Tower, name: &str| if siamese { name.to_owned() } else { format!("{tower} {name}") };
        let prompt = |facts: &mut Fingerprint, tower: Tower| {
            facts.fact(&format!("prompt {tower}"), &json!(layout.prompts.of(tower)));
        };
        for &tower in towers {
            let route = &layout.routes[usize::from(tower == Tower::Answer)];
            if let Some(opened) = self.opened(route) {
                facts.fact(&named(tower, "architecture"), &opened.architecture.fact());
                facts.fact(&named(tower, "max_tokens"), &json!(opened.max_tokens));
                facts.fact(&named(tower, "lower_case"), &json!(opened.lower_case));
                facts.fact(&named(tower, "tokenizer"), &json!(opened.splitter.digest()));
            }
            if siamese {
                prompt(&mut facts, Tower::Question);
            }
            prompt(&mut facts, tower);
            for placed in route.iter().filter_map(|&at| layout.modules.get(at)) {
                let fact = match &placed.module {
                    Module::Transformer(_) if siamese => continue,
                    Module::Transformer(_) => json!("transformer"),
                    Module::Pooling(pooling) => pooling.fact(),
                    Module::MultiHop(multihop) => multihop.fact(),
                    Module::Dense(dense) => dense.fact(),
                    Module::Normalize => json!("normalize"),
                };
                let fact = if siamese { fact } else { json!([placed.id, fact]) };
                facts.fact(&named(tower, "module"), &fact);
            }
        }
        facts.fact("truncate_dim", &layout.truncate_dim.map_or(Value::Null, |kept| json!(kept)));
        let mut dense = 0;
        for (at, records) in &self.tensors {
            let placed = layout.modules.get(*at);
            let file = match placed.map(|placed| &placed.module) {
                _ if !siamese => format!("{:?}", placed.map_or("", |placed| &placed.id)),
                Some(Module::Dense(_)) => {
                    dense += 1;
                    format!("dense-{dense}")
                }
                Some(Module::MultiHop(_)) => "multihop".to_owned(),
                _ => "transformer".to_owned(),
            };
            facts.tensors(&file, records.clone());
        }
        facts.finish()
    }
}

fn in_features(placed: &Placed, given: usize, got: usize) -> Error {
    Error::Field {
        path: placed.folder.join("config.json"),
        field: "in_features",
        expected: format!("the {given} values that the module before gives"),
        got: got.to_string(),
    }
}

impl Opened {
    /// `place`: of a projection in the transformer's own file.
    pub(super) fn open(at: usize, placed: &Placed, place: usize, compute: &Compute) -> Result<Self, Error> {
        let Module::Transformer(settings) = &placed.module else {
            let fix = "A tower begins with a transformer";
            return Err(Error::MissingFile { path: placed.folder.join("config.json"), fix });
        };
        let path = placed.folder.join("config.json");
        let architecture = Architecture::read(&path)?;
        if architecture.refuses_f16() && compute.dtype == Dtype::F16 {
            return Err(Error::Unsupported {
                path,
                what: "dtype",
                supported: "`f32` and `bf16` for T5, whose activations exceed the range of f16",
                got: compute.dtype.to_string(),
            });
        }
        if matches!(architecture, Architecture::Recurrent(_)) && compute.dtype == Dtype::Int8 {
            return Err(Error::Unsupported {
                path,
                what: "dtype",
                supported: "`f32`, `bf16` and `f16` for recurrent encoders; `int8` rounds the maps of transformers",
                got: compute.dtype.to_string(),
            });
        }
        let max_tokens = settings.max_tokens.unwrap_or(usize::MAX).min(architecture.max_positions());
        let max_tokens = if max_tokens == usize::MAX { UNLIMITED_TOKENS } else { max_tokens };
        if max_tokens > LONGEST_INPUT {
            return Err(Error::Field {
                path: placed.folder.join("sentence_bert_config.json"),
                field: "max_seq_length",
                expected: format!("at most {LONGEST_INPUT} tokens: attention takes the square of them"),
                got: max_tokens.to_string(),
            });
        }
        let vocab_size = architecture.vocab_size();
        let lower_case = settings.lower_case;
        let splitter = Splitter::open(&placed.folder, SplitterSettings { max_tokens, lower_case, vocab_size })?;
        let projection = architecture.projection().map(|length| (place, length));
        Ok(Self { at, architecture, splitter: Arc::new(splitter), max_tokens, lower_case, projection })
    }
}
