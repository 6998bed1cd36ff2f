//! Training data at its real size.

use std::collections::HashSet;
use std::sync::Arc;

use dyad_corpus::examples::{ExampleOptions, ExampleReader};
use dyad_encoder::Model;
use dyad_encoder::data::{Last, PairOptions, PairsBuilder, Prefetch, Sampler, SamplerOptions};

use crate::fixture::{path_of, real_model};

#[test]
fn squad_makes_batches_of_512_without_equal_answers() {
    let name = "squad_makes_batches_of_512_without_equal_answers";
    let (Some(data), Some(model)) = (path_of("DYAD_DATA", name), real_model(name)) else {
        return;
    };
    let tokenizer = Model::open(&model, &dyad_encoder::Compute::default())
        .unwrap()
        .tokenizer();
    let options = PairOptions {
        question_tokens: 32,
        answer_tokens: 128,
        titles: true,
    };
    let mut builder = PairsBuilder::new(tokenizer, options);
    let pairs = ExampleReader::open(&data.join("squad-train/pairs.jsonl.gz"), &ExampleOptions::default()).unwrap();
    builder.extend(pairs).unwrap();
    let pairs = Arc::new(builder.finish().unwrap());
    assert_eq!(pairs.len(), 28_939);
    let options = SamplerOptions {
        seed: 1,
        batch: 512,
        negatives: 0,
        last: Last::Drop,
    };
    let mut sampler = Sampler::new(Arc::clone(&pairs), options).unwrap();
    assert_eq!((sampler.batches(), sampler.forced()), (56, 0));
    let mut batches = Prefetch::batches(sampler, 2).unwrap();
    for _ in 0..56 {
        let batch = batches.next(std::time::Duration::from_mins(1)).unwrap().unwrap();
        let answers: HashSet<&[u32]> = batch.answers.iter().map(|tokens| tokens.ids.as_slice()).collect();
        assert_eq!((answers.len(), batch.excludes()), (512, false));
        assert!(batch.questions.iter().all(|tokens| tokens.ids.len() <= 32));
        assert!(batch.answers.iter().all(|tokens| tokens.ids.len() <= 128));
    }
}
