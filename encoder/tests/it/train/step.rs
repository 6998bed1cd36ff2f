//! The gradient cache and accumulation against one large batch; what a step reports.

use std::path::Path;

use dyad_corpus::examples::Passage;
use dyad_encoder::data::{Last, PairOptions, PairsBuilder, Sampler, SamplerOptions, TrainBatch, collate};
use dyad_encoder::model::Model;
use dyad_encoder::train::{Length, StepReport, TrainingStep};
use dyad_encoder::{Compute, Dtype};
use tch::Tensor;

use super::fixture::{PAIRS, example, model_dir, one_thread, small, stage};

/// Plain gradient descent cannot be had, so that gradients are compared as they are: through the first moments of
/// AdamW, which after one step are a tenth of them.
pub(super) fn step(directory: &Path, settings: &str, batches: &[TrainBatch]) -> (StepReport, Vec<Tensor>) {
    let learned = Model::open_for_training(directory, &one_thread()).unwrap();
    let settings = format!(
        "{settings}\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 1.0\nepsilon = 1e-2\n[schedule]\nkind = \"constant\"\n[clipping]\nmax-norm = 0.0\n"
    );
    let length = Length { steps: 4, batches: 2 };
    let mut step = TrainingStep::new(learned, directory, &stage(&settings), &one_thread(), length).unwrap();
    let before: Vec<Tensor> = step
        .model()
        .parameters()
        .iter()
        .map(|known| known.tensor.detach().copy())
        .collect();
    let report = step.run_all(batches).unwrap();
    let moved = step.model().parameters().iter().zip(before);
    let moved = moved.map(|(known, before)| known.tensor.detach() - before).collect();
    (report, moved)
}

/// The largest difference of two updates, over the largest update.
pub(super) fn apart(a: &[Tensor], b: &[Tensor]) -> f64 {
    let largest = |tensors: &mut dyn Iterator<Item = Tensor>| {
        tensors
            .map(|tensor| tensor.abs().max().double_value(&[]))
            .fold(0.0, f64::max)
    };
    let difference = largest(&mut a.iter().zip(b).map(|(a, b)| a - b));
    difference / largest(&mut a.iter().map(Tensor::shallow_clone))
}

fn batches(directory: &Path, size: usize, negatives: usize) -> Vec<TrainBatch> {
    let learned = Model::open_for_training(directory, &one_thread()).unwrap();
    let mut builder = PairsBuilder::new(learned.tokenizer(), PairOptions::default());
    let examples = (0..PAIRS).map(|number| {
        let mut example = example(number);
        let others = (1..=negatives).map(|other| super::fixture::pair((number + 7 * other) % PAIRS).1);
        example.negatives = others.map(|text| Passage::from_text(format!("a {text}"))).collect();
        // A teacher's, of any kind.
        for (place, passage) in example.positives.iter_mut().chain(&mut example.negatives).enumerate() {
            passage.score = Some(0.9 - ((number + 5 * place) % 7) as f32 * 0.1);
        }
        Ok::<_, std::convert::Infallible>(example)
    });
    builder.extend(examples).unwrap();
    let options = SamplerOptions {
        seed: 3,
        batch: size,
        negatives,
        last: Last::Drop,
    };
    let mut sampler = Sampler::new(std::sync::Arc::new(builder.finish().unwrap()), options).unwrap();
    (0..sampler.batches()).map(|_| collate(&mut sampler)).collect()
}

const ENDX: &str = "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n[loss.endx.cross]\nheads = 3\naggregator = { kind = \"mean\" }\n[loss.endx.weights]\n\
                    q-q = { to = 2.0, epochs = 0.0 }\na-a = { to = 2.0, epochs = 0.0 }\na-q = { to = 0.5, epochs = 0.0 }\n\
                    q-a = { to = 0.5, epochs = 0.0 }\n";

/// What is logged is the rate that was taken: with the schedule's factor, and of relative steps Adafactor's own.
#[test]
fn a_report_tells_the_rate() {
    let (_folder, directory) = small("sde", 8);
    let batch = batches(&directory, 16, 0).remove(0);
    for (optimizer, expected) in [
        ("kind = \"adamw\"\nlearning-rate = 2e-4", [0.0, 1e-4, 2e-4]),
        ("kind = \"adafactor\"\nlearning-rate = 2e-4", [0.0, 1e-4, 2e-4]),
        ("kind = \"adafactor\"\nrelative-step = true", [0.0, 5e-3, 1e-2]),
        (
            "kind = \"adafactor\"\nrelative-step = true\nwarm-up-init = true",
            [0.0, 1e-6, 3e-6],
        ),
    ] {
        let settings = format!("[optimizer]\n{optimizer}\n[schedule]\nkind = \"constant\"\nwarm-up = 2");
        let learned = Model::open_for_training(&directory, &one_thread()).unwrap();
        let length = Length { steps: 4, batches: 2 };
        let mut step = TrainingStep::new(learned, &directory, &stage(&settings), &one_thread(), length).unwrap();
        for expected in expected {
            let rate = step.run(&batch).unwrap().rate;
            assert!((rate - expected).abs() < 1e-12, "{optimizer}: {rate} {expected}");
        }
    }
}

#[test]
fn cached_gradients_are_those_of_the_whole_batch() {
    let (_folder, directory) = model_dir("classic-mean", "ade-spl", 12);
    for (name, loss, negatives) in [
        (
            "symmetric, learned temperature",
            "[loss]\nsymmetric = true\nlearned-temperature = true",
            0,
        ),
        ("hard negatives", "", 2),
        ("ENDX", ENDX, 1),
        (
            "distillation",
            "[batch]\nnegatives = 2\n[loss.distillation]\nkind = \"kl\"",
            2,
        ),
        (
            "several sizes",
            "[batch]\nnegatives = 2\n[loss.distillation]\nkind = \"kl\"\n[loss.matryoshka]\ndims = [12, 6, 3]\nweights = [1.0, 0.5, 2.0]",
            2,
        ),
        (
            "some of several sizes",
            "[loss]\nlearned-temperature = true\n[loss.matryoshka]\ndims = [12, 6, 3]\ndims-per-step = 1",
            0,
        ),
        (
            "margins",
            "[batch]\nnegatives = 2\n[loss]\nweight = 0.0\n[loss.distillation]\nkind = \"margin-mse\"",
            2,
        ),
    ] {
        let batch = &batches(&directory, 24, negatives)[..1];
        let (whole, expected) = step(&directory, loss, batch);
        for chunk in [1, 5, 24] {
            let own = loss.strip_prefix("[batch]\n").unwrap_or(loss);
            let (cached, updates) = step(&directory, &format!("[batch]\nchunk = {chunk}\n{own}"), batch);
            assert!((cached.loss - whole.loss).abs() < 1e-5 * whole.loss, "{name} {chunk}");
            assert!(
                (cached.norm.unwrap() / whole.norm.unwrap() - 1.0).abs() < 1e-4,
                "{name} {chunk}"
            );
            assert!((cached.temperature - whole.temperature).abs() < 1e-6, "{name} {chunk}");
            let apart = apart(&expected, &updates);
            assert!(apart < 1e-3, "{name} {chunk}: {apart}");
        }
        // Another batch gives other gradients, so that the comparison means something.
        let (_, other) = step(&directory, loss, &batches(&directory, 24, negatives)[1..2]);
        assert!(super::step::apart(&expected, &other) > 0.1, "{name}");
    }
}

#[test]
fn an_endx_step_tells_its_divergences_and_the_norms_of_both_sides() {
    // With a frozen table, so that places are those of trained tensors.
    let (_folder, directory) = model_dir("classic-mean", "ade-fte", 12);
    let all = batches(&directory, 24, 1);
    let (report, _) = step(&directory, ENDX, &all[..1]);
    let value = |values: &[(&str, f64)], name: &str| {
        values
            .iter()
            .find_map(|(known, value)| (*known == name).then_some(*value))
            .unwrap()
    };
    let part = |name: &str| value(&report.parts, name);
    let [a_q, q_q, q_a, a_a] = ["a-q", "q-q", "q-a", "a-a"].map(|name| part(&format!("geometry-{name}")));
    let weighted = 0.5 * (a_q + q_a) + 2.0 * (q_q + a_a);
    assert!(
        (part("geometry") / weighted - 1.0).abs() < 1e-5,
        "{} {weighted}",
        part("geometry")
    );
    let measure = |name: &str| value(&report.measures, name);
    let (dual, cross) = (measure("norm-dual"), measure("norm-cross"));
    assert!(dual > 0.0 && cross > 0.0);
    assert!(
        (dual.hypot(cross) / report.norm.unwrap() - 1.0).abs() < 1e-6,
        "{dual} {cross} {:?}",
        report.norm
    );
    // A share of 24 questions.
    let first = measure("cross-p-at-1") * 24.0;
    assert!(
        (0.0..=24.0).contains(&first) && (first - first.round()).abs() < 1e-4,
        "{first}"
    );
    let (plain, _) = step(&directory, "", &all[..1]);
    assert_eq!(plain.measures, []);
}

#[test]
fn accumulated_batches_are_averaged() {
    let (_folder, directory) = model_dir("classic-mean", "sde", 12);
    let all = batches(&directory, 16, 0);
    let twice = [all[0].clone(), all[0].clone()];
    let (once, expected) = step(&directory, "", &all[..1]);
    let (report, updates) = step(&directory, "", &twice);
    assert!((report.loss - once.loss).abs() < 1e-6 && apart(&expected, &updates) < 1e-4);
    assert_eq!((report.examples, once.examples), (32, 16));
    let (both, _) = step(&directory, "", &all[..2]);
    let (second, _) = step(&directory, "", &all[1..2]);
    assert!((both.loss - f64::midpoint(once.loss, second.loss)).abs() < 1e-6);
    assert!(both.norm.unwrap() < once.norm.unwrap() + second.norm.unwrap());
}

#[test]
fn a_frozen_table_stays_and_reports_count_tokens() {
    let (_folder, directory) = model_dir("classic-mean", "ade-fte", 12);
    let batch = &batches(&directory, 8, 0)[..1];
    let learned = Model::open_for_training(&directory, &one_thread()).unwrap();
    let (report, updates) = step(&directory, "", batch);
    let tokens = |texts: &[dyad_encoder::tokenize::Tokens]| texts.iter().map(|text| text.ids.len()).sum::<usize>();
    assert_eq!(report.tokens, tokens(&batch[0].questions) + tokens(&batch[0].answers));
    for (parameter, moved) in learned.parameters().iter().zip(updates) {
        let still = moved.abs().max().double_value(&[]) < 1e-12;
        let unused = parameter.name.ends_with("token_type_embeddings.weight");
        assert!(still == parameter.frozen || unused, "{}", parameter.name);
    }
    assert!(learned.parameters().iter().any(|parameter| parameter.frozen));
}

#[test]
fn mixed_precision_keeps_weights_in_f32_and_stays_close() {
    let (_folder, directory) = small("ade", 16);
    let batch = &batches(&directory, 16, 0)[0];
    let settings = "[optimizer]\nlearning-rate = 0.02\n[schedule]\nkind = \"constant\"\n[loss]\ntemperature = 0.2";
    let run = |dtype: Dtype| {
        let compute = Compute { dtype, ..one_thread() };
        let learned = Model::open_for_training(&directory, &compute).unwrap();
        let length = Length { steps: 40, batches: 1 };
        let mut step = TrainingStep::new(learned, &directory, &stage(settings), &compute, length).unwrap();
        let reports: Vec<StepReport> = (0..40).map(|_| step.run(batch).unwrap()).collect();
        assert!(
            step.model()
                .parameters()
                .iter()
                .all(|known| known.tensor.kind() == tch::Kind::Float)
        );
        (reports[0].clone(), reports[39].loss)
    };
    let ((mixed, mixed_last), (whole, whole_last)) = (run(Dtype::Bf16), run(Dtype::F32));
    assert!(
        (mixed.loss - whole.loss).abs() < 0.02 * whole.loss,
        "{} {}",
        mixed.loss,
        whole.loss
    );
    assert!((mixed.loss - whole.loss).abs() > 0.0, "products were not in bfloat16");
    let norms = mixed.norm.unwrap() / whole.norm.unwrap();
    assert!((norms - 1.0).abs() < 0.1, "{norms}");
    assert!(
        mixed_last < 0.5 * mixed.loss && whole_last < 0.5 * whole.loss,
        "{mixed_last} {whole_last}"
    );
}
