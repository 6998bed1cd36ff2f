//! The in-batch softmax and its temperature.

use dyad_encoder::loss::{InBatch, Similarity, Temperature, kl_divergence, margin_mse};
use tch::{Device, Kind, Tensor};

use super::{agrees, follows_differences, mask};
use crate::reference::{flat, learned, reference, values};

#[test]
fn in_batch_softmax_is_that_of_pytorch() {
    let all = reference("loss.json");
    for kind in [Kind::Float, Kind::Double] {
        // The last two mark a question's own positive, which stays all the same.
        let marked = [(0, 1), (0, 4), (1, 6), (2, 0), (1, 1), (2, 2)];
        for (name, similarity, temperature, symmetric, left_out) in [
            ("cosine", Similarity::Cosine, Temperature::Fixed(0.05), false, None),
            (
                "inner_product_symmetric",
                Similarity::InnerProduct,
                Temperature::Fixed(1.0),
                true,
                None,
            ),
            (
                "learned_masked_symmetric",
                Similarity::Cosine,
                Temperature::Learned {
                    log: Tensor::full([], 0.2f64.ln(), (kind, Device::Cpu)).set_requires_grad(true),
                },
                true,
                Some(mask(3, 7, &marked)),
            ),
        ] {
            let (questions, documents) = (learned(&[3, 5], 1.0, kind), learned(&[7, 5], 2.0, kind));
            let in_batch = InBatch {
                similarity,
                temperature,
                symmetric,
            };
            let loss = in_batch.loss(&questions, &documents, left_out.as_ref()).unwrap();
            assert_eq!(loss.kind(), kind);
            let log = in_batch.temperature.parameter().map(|parameter| parameter.tensor);
            let mut inputs = vec![("questions", &questions), ("documents", &documents)];
            inputs.extend(log.as_ref().map(|log| ("log_temperature", log)));
            agrees(name, &all["in_batch"][name], &loss, &inputs);
        }
    }
}

#[test]
fn in_batch_gradients_are_differences() {
    let marked = mask(3, 5, &[(0, 2), (2, 4)]);
    let inputs = [learned(&[3, 4], 1.0, Kind::Double), learned(&[5, 4], 2.0, Kind::Double)];
    for similarity in [Similarity::Cosine, Similarity::InnerProduct] {
        let in_batch = InBatch {
            similarity,
            temperature: Temperature::Fixed(0.3),
            symmetric: true,
        };
        let inputs = inputs
            .each_ref()
            .map(|input| input.detach().copy().set_requires_grad(true));
        follows_differences("in-batch", &inputs, |inputs| {
            in_batch.loss(&inputs[0], &inputs[1], Some(&marked)).unwrap()
        });
    }
}

#[test]
fn documents_left_out_are_as_if_they_were_not_there() {
    let in_batch = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.1),
        symmetric: false,
    };
    let (questions, documents) = (values(&[2, 4], 1.0, Kind::Float), values(&[5, 4], 2.0, Kind::Float));
    let marked = mask(2, 5, &[(0, 3), (1, 3)]);
    let masked = in_batch.loss(&questions, &documents, Some(&marked)).unwrap();
    let others = documents.index_select(0, &Tensor::from_slice(&[0i64, 1, 2, 4]));
    let without = in_batch.loss(&questions, &others, None).unwrap();
    assert!((masked.double_value(&[]) - without.double_value(&[])).abs() < 1e-6);
    assert!(
        (masked.double_value(&[]) - in_batch.loss(&questions, &documents, None).unwrap().double_value(&[])).abs()
            > 1e-3
    );
}

#[test]
fn extreme_scores_and_narrow_numbers_stay_finite() {
    let in_batch = InBatch {
        similarity: Similarity::InnerProduct,
        temperature: Temperature::Fixed(0.01),
        symmetric: true,
    };
    let (questions, documents) = (
        learned(&[3, 8], 1.0, Kind::BFloat16),
        learned(&[6, 8], 2.0, Kind::BFloat16),
    );
    let loss = in_batch
        .loss(&(&questions * 100.0), &(&documents * 100.0), None)
        .unwrap();
    assert_eq!(loss.kind(), Kind::Float);
    loss.backward();
    assert!(loss.double_value(&[]).is_finite() && loss.double_value(&[]) > 1e4);
    for tensor in [&questions, &documents] {
        assert_eq!(tensor.grad().kind(), Kind::BFloat16);
        assert!(flat(&tensor.grad()).iter().all(|value| value.is_finite()));
    }
    let zero = Tensor::zeros([2, 4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let cosine = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.01),
        symmetric: false,
    };
    let loss = cosine.loss(&zero, &zero, None).unwrap();
    assert!((loss.double_value(&[]) - 2f64.ln()).abs() < 1e-6);
    loss.backward();
    assert!(flat(&zero.grad()).iter().all(|value| value.is_finite()));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let in_batch = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.1),
        symmetric: false,
    };
    let of = |rows: i64| values(&[rows, 4], 1.0, Kind::Float);
    for (result, part) in [
        (in_batch.loss(&of(3), &of(2), None), "3 questions and 2 documents"),
        (in_batch.loss(&of(0), &of(2), None), "0 questions"),
        (
            in_batch.loss(&of(2), &of(3), Some(&mask(2, 2, &[]))),
            "[2, 3], got: [2, 2]",
        ),
        (
            in_batch.loss(&values(&[4], 1.0, Kind::Float), &of(2), None),
            "must be a matrix",
        ),
        (kl_divergence(&of(2), &of(3), 1.0, None), "teacher"),
        (
            margin_mse(
                &values(&[2, 1], 1.0, Kind::Float),
                &values(&[2, 1], 1.0, Kind::Float),
                None,
            ),
            "negatives",
        ),
    ] {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_temperature_is_positive_and_stays_in_its_bounds() {
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            Temperature::fixed(wrong)
                .unwrap_err()
                .to_string()
                .contains("`temperature`")
        );
        assert!(Temperature::learned(wrong, Device::Cpu).is_err());
    }
    let learned = Temperature::learned(0.05, Device::Cpu).unwrap();
    assert!((learned.value().unwrap() - 0.05).abs() < 1e-8);
    let parameter = learned.parameter().unwrap();
    assert_eq!((parameter.name.as_str(), parameter.frozen), (Temperature::NAME, false));
    let mut log = parameter.tensor.detach();
    let _ = log.fill_(-20.0);
    learned.keep_in_bounds().unwrap();
    assert!((learned.value().unwrap() - 0.001).abs() < 1e-8);
}
