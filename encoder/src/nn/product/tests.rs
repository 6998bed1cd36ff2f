//! Every way of multiplying against torch and against plain loops.

use super::*;

fn draw(size: &[i64]) -> Tensor {
    Tensor::randn(size, (Kind::Float, Device::Cpu))
}

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

#[test]
fn few_numbers_of_rows_are_left() {
    let up = |filling: Padding, tokens: &[usize]| tokens.iter().map(|&tokens| filling.up(tokens)).collect::<Vec<_>>();
    let tokens = [1, 8, 9, 63, 64, 65, 2048, 2049];
    assert_eq!(up(Padding::No, &tokens), tokens);
    assert_eq!(up(Padding::Many, &tokens), [1, 8, 9, 63, 64, 128, 2048, 2112]);
    assert_eq!(up(Padding::All, &tokens), [8, 8, 16, 64, 64, 128, 2048, 2112]);
}

#[test]
fn onednn_gives_the_gradients_of_torch() {
    tch::manual_seed(5);
    for (rows, input, output, biased) in [(64, 16, 24, true), (150, 33, 7, false), (63, 8, 8, true)] {
        let leaf = |size: &[i64]| draw(size).set_requires_grad(true);
        let (x, weight, bias) = (leaf(&[rows, input]), leaf(&[output, input]), leaf(&[output]));
        let bias = biased.then_some(&bias);
        let weighed = draw(&[rows, output]);
        let inputs: Vec<&Tensor> = [&x, &weight].into_iter().chain(bias).collect();
        let gradients =
            |product: Tensor| Tensor::run_backward(&[(product * &weighed).sum(Kind::Float)], &inputs, false, false);
        let ours = gradients(learned(&x, &weight, bias).unwrap());
        let theirs = gradients(x.linear(&weight, bias));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!(
                apart(ours, theirs) < 1e-3,
                "{rows} x {input} -> {output}: {}",
                apart(ours, theirs)
            );
        }
    }
}

#[test]
fn every_product_is_that_of_torch() {
    tch::manual_seed(3);
    for (input, output) in [(16, 24), (384, 1152), (33, 7), (1, 1)] {
        let (weight, bias) = (draw(&[output, input]), draw(&[output]));
        for size in [
            vec![1, input],
            vec![64, input],
            vec![7 * 129, input],
            vec![5, 31, input],
        ] {
            let x = draw(&size);
            for bias in [None, Some(&bias)] {
                let copied = || bias.map(Tensor::shallow_clone);
                // Our kernel's where the processor has its instructions; oneDNN's; torch's.
                let ways = [
                    Product::of(weight.shallow_clone(), copied(), false).unwrap(),
                    Product {
                        weight: by_onednn(weight.shallow_clone()).unwrap(),
                        bias: copied().map(SharedTensor::from),
                    },
                    Product {
                        weight: Weight::Torch(weight.shallow_clone().into()),
                        bias: copied().map(SharedTensor::from),
                    },
                ];
                let sums = x.linear(&weight, bias);
                for (activation, expected) in [
                    (None, sums.copy()),
                    (Some(HiddenActivation::Gelu), sums.gelu("none")),
                    (Some(HiddenActivation::GeluTanh), sums.gelu("tanh")),
                    (Some(HiddenActivation::Relu), sums.relu()),
                ] {
                    for product in &ways {
                        let difference =
                            apart(&product.activated(Exec::ONE_THREAD, &x, activation).unwrap(), &expected);
                        assert!(difference < 1e-3, "{size:?} -> {output}, {activation:?}: {difference}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_another_length_are_refused() {
    let product = Product::of(draw(&[24, 16]), None, false).unwrap();
    for width in [15, 17] {
        assert!(product.forward(Exec::ONE_THREAD, &draw(&[3, width])).is_err());
    }
}

/// One number after another, as the formula has it.
fn slow(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Vec<f64> {
    let rows = |tensor: &Tensor| Vec::<Vec<f64>>::try_from(tensor.to_kind(Kind::Double)).unwrap();
    let round = |row: &Vec<f64>| {
        let step = row.iter().fold(0.0_f64, |most, value| most.max(value.abs())) / f64::from(LARGEST);
        // Halves go to the even neighbour, as in torch.
        let values = row.iter().map(|value| {
            if step == 0.0 {
                0.0
            } else {
                (value / step).round_ties_even()
            }
        });
        (values.collect::<Vec<f64>>(), step)
    };
    let bias = bias.map(|bias| Vec::<f64>::try_from(bias.to_kind(Kind::Double)).unwrap());
    let mut all = Vec::new();
    for x in rows(x) {
        let (x, step) = round(&x);
        for (output, weight) in rows(weight).iter().enumerate() {
            let (weight, of_weight) = round(weight);
            let sum: f64 = x.iter().zip(&weight).map(|(a, b)| a * b).sum();
            all.push(sum * step * of_weight + bias.as_ref().map_or(0.0, |bias| bias[output]));
        }
    }
    all
}

#[test]
fn a_nan_stays_one_in_int8() {
    let weight = draw(&[32, 64]);
    let operators = Product {
        weight: quantized(&weight).unwrap(),
        bias: None,
    };
    let whole = Product {
        weight: whole(&weight).unwrap(),
        bias: None,
    };
    for product in [Product::of(weight, None, true).unwrap(), operators, whole] {
        for bad in [f64::NAN, f64::INFINITY] {
            let x = draw(&[4, 64]);
            let _ = x.get(1).get(5).fill_(bad);
            let finite = product
                .forward(Exec::ONE_THREAD, &x)
                .unwrap()
                .isfinite()
                .all_dim(1, false);
            assert_eq!(
                Vec::<bool>::try_from(finite).unwrap(),
                [true, false, true, true],
                "{bad}"
            );
        }
    }
}

#[test]
fn int8_products_are_those_of_the_formula_and_near_f32() {
    tch::manual_seed(5);
    for (rows, input, output) in [
        (1, 16, 24),
        (3, 33, 7),
        (70, 384, 48),
        (9, 64, 50),
        (15, 1536, 100),
        (5, 1, 1),
    ] {
        let (weight, bias) = (draw(&[output, input]), draw(&[output]));
        let mut x = draw(&[rows, input]);
        // A row of zeros, and one a million times as large as the others.
        let _ = x.get(0).zero_();
        let factors: Vec<f32> = (0..rows).map(|row| if row == 2 { 1e6 } else { 1.0 }).collect();
        x *= Tensor::from_slice(&factors).unsqueeze(1);
        for bias in [None, Some(&bias)] {
            let copied = || bias.map(Tensor::shallow_clone);
            let product = Product::of(weight.shallow_clone(), copied(), true).unwrap();
            // By torch's operators, and by our kernel where the sizes fit it: whole numbers alike, scaled with one
            // rounding less.
            let operators = Product {
                weight: quantized(&weight).unwrap(),
                bias: copied().map(SharedTensor::from),
            };
            let operators = operators.forward(Exec::ONE_THREAD, &x).unwrap();
            // In f32: the same to the bit, for these sums are exact.
            let in_f32 = Product {
                weight: whole(&weight).unwrap(),
                bias: copied().map(SharedTensor::from),
            };
            assert_eq!(in_f32.forward(Exec::ONE_THREAD, &x).unwrap(), operators);
            let got = product.forward(Exec::ONE_THREAD, &x).unwrap();
            let relative = f64::try_from(((&got - &operators) / (operators.abs() + 1.0)).abs().max()).unwrap();
            assert!(relative < 1e-5, "{rows} x {input} -> {output}: {relative}");
            let exact = x.linear(&weight, bias);
            let expected = Tensor::from_slice(&slow(&x, &weight, bias)).view_as(&got);
            // A value next to the middle between two steps may go either way in f32.
            let step =
                f64::try_from(x.abs().amax([1], false).max()).unwrap() * f64::try_from(weight.abs().max()).unwrap();
            assert!(
                apart(&got.to_kind(Kind::Double), &expected) <= 2.0 * step / f64::from(LARGEST),
                "{rows} x {input} -> {output}"
            );
            let cosine = Tensor::cosine_similarity(&got.flatten(0, 1), &exact.flatten(0, 1), 0, 1e-8);
            assert!(
                f64::try_from(cosine).unwrap() > 0.999 || rows == 1 || input == 1,
                "{rows} x {input} -> {output}"
            );
            // No row depends on its neighbours.
            let alone = product.forward(Exec::ONE_THREAD, &x.narrow(0, rows - 1, 1)).unwrap();
            assert_eq!(alone, got.narrow(0, rows - 1, 1));
        }
    }
}
