//! Every way of computing contexts against the equation of the paper.

use super::super::exec::Exec;
use super::super::linear::Map;
use super::super::packed::LengthRun;
use super::*;

/// Attention of one head of one text, by the equation of the paper.
fn slow([query, key, value]: &[Tensor; 3], bias: Option<Tensor>) -> Tensor {
    let mut scores = query.matmul(&key.transpose(0, 1)) / (query.size()[1] as f64).sqrt();
    if let Some(bias) = bias {
        scores += bias;
    }
    scores.softmax(-1, None::<Kind>).matmul(value)
}

#[test]
fn every_way_follows_the_paper() {
    tch::manual_seed(8);
    for size in [8, 32, 64, 96] {
        follow_the_paper(3, size);
    }
}

fn follow_the_paper(heads: i64, size: i64) {
    let run = |first, rows, tokens| LengthRun { first, rows, tokens };
    // Whole blocks of 8 queries and 32 keys, and lengths that leave 6, 1, 3, 2 and 1 over.
    let runs = vec![
        run(0, 1, 64),
        run(64, 1, 70),
        run(134, 2, 32),
        run(198, 1, 9),
        run(207, 4, 3),
        run(219, 5, 2),
        run(229, 1, 1),
    ];
    let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
    let all = draw(&[240, 3 * heads * size]);
    let packed = packed_of(&runs, 240, 10);
    let scale = 1.0 / (size as f64).sqrt();
    let attention = SelfAttention {
        query_key_value: unread(),
        output: unread(),
        heads,
        key_heads: heads,
        head_size: size,
        scale,
        reach: AttentionReach::ALL,
        head_norms: None,
    };
    let biases: Vec<Tensor> = runs
        .iter()
        .map(|run| draw(&[1, heads, run.tokens, run.tokens]))
        .collect();
    for biases in [None, Some(&biases[..])] {
        let expected = Tensor::zeros([240, heads * size], (Kind::Float, Device::Cpu));
        for (number, run) in runs.iter().enumerate() {
            for (row, head) in (0..run.rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                let text = all.narrow(0, run.first + row * run.tokens, run.tokens);
                let parts = [0, 1, 2].map(|part| text.narrow(1, (part * heads + head) * size, size));
                let context = slow(&parts, biases.map(|biases| biases[number].get(0).get(head)));
                let mut place =
                    expected
                        .narrow(0, run.first + row * run.tokens, run.tokens)
                        .narrow(1, head * size, size);
                place.copy_(&context);
            }
        }
        // One product per text; two texts of the longest; all at once; torch's kernel; ours, or products where it
        // cannot.
        let products = [1, 2 * 3 * 70 * 70, SCORES].map(Way::Products);
        for way in products.into_iter().chain([Way::Fused, Way::Kernel]) {
            let got = attention.contexts(&all, &packed, biases, way).unwrap();
            let difference = (got - &expected).abs().max().double_value(&[]);
            assert!(difference < 1e-5, "{way:?}, {size}: {difference}");
        }
    }
}

/// Queries of more heads than keys have, and a reach that ends: contexts by single sums.
fn slow_contexts(all: &Tensor, attention: &SelfAttention, runs: &[LengthRun]) -> Tensor {
    let (size, group) = (attention.head_size, attention.heads / attention.key_heads);
    let expected = Tensor::zeros([all.size()[0], attention.heads * size], (Kind::Float, Device::Cpu));
    for run in runs {
        for (row, head) in (0..run.rows).flat_map(|row| (0..attention.heads).map(move |head| (row, head))) {
            let first = run.first + row * run.tokens;
            let text = all.narrow(0, first, run.tokens);
            let key = attention.heads + head / group;
            let places = [head, key, key + attention.key_heads];
            let parts = places.map(|place| text.narrow(1, place * size, size));
            let out = Tensor::zeros([run.tokens, run.tokens], (Kind::Float, Device::Cpu));
            for (query, key) in (0..run.tokens).flat_map(|query| (0..run.tokens).map(move |key| (query, key))) {
                let (before, after) = ((query - key).max(0) as usize, (key - query).max(0) as usize);
                if before > attention.reach.before || after > attention.reach.after {
                    let _ = out.get(query).get(key).fill_(f64::NEG_INFINITY);
                }
            }
            let context = slow(&parts, Some(out));
            let mut place = expected.narrow(0, first, run.tokens).narrow(1, head * size, size);
            place.copy_(&context);
        }
    }
    expected
}

#[test]
fn every_way_keeps_the_reach_and_shares_keys() {
    tch::manual_seed(9);
    let reaches = [
        AttentionReach::ALL,
        AttentionReach::causal(usize::MAX),
        AttentionReach::causal(6),
        AttentionReach::around(33),
        AttentionReach::around(2),
        AttentionReach::around(0),
    ];
    for (heads, key_heads) in [(4, 4), (4, 2), (3, 1)] {
        for reach in reaches {
            keep_the_reach(heads, key_heads, reach);
        }
    }
}

fn keep_the_reach(heads: i64, key_heads: i64, reach: AttentionReach) {
    let size = 32;
    let run = |first, rows, tokens| LengthRun { first, rows, tokens };
    let runs = vec![run(0, 1, 97), run(97, 2, 40), run(177, 1, 3), run(180, 2, 1)];
    let all = Tensor::randn([184, (heads + 2 * key_heads) * size], (Kind::Float, Device::Cpu));
    let packed = packed_of(&runs, 184, 2);
    let attention = SelfAttention {
        query_key_value: unread(),
        output: unread(),
        heads,
        key_heads,
        head_size: size,
        scale: 1.0 / (size as f64).sqrt(),
        reach,
        head_norms: None,
    };
    let expected = slow_contexts(&all, &attention, &runs);
    // Blocks of 16 queries and more; all at once; torch's kernel; ours, or products where it cannot.
    let products = [1, heads * 40 * 40, SCORES].map(Way::Products);
    for way in products.into_iter().chain([Way::Fused, Way::Kernel]) {
        let got = attention.contexts(&all, &packed, None, way).unwrap();
        let difference = (got - &expected).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{way:?} {heads} {key_heads} {reach:?}: {difference}");
    }
}

fn unread() -> Linear {
    Linear::Learned(vec![Map {
        weight: Tensor::zeros([1, 1], (Kind::Float, Device::Cpu)),
        bias: None,
        low_rank: None,
    }])
}

fn packed_of(runs: &[LengthRun], tokens: i64, filler: i64) -> Packed {
    let ids = Tensor::zeros([tokens], (Kind::Int64, Device::Cpu));
    Packed {
        spans: Vec::new(),
        types: None,
        lengths: Vec::new(),
        masks: Vec::new(),
        ids: ids.shallow_clone(),
        positions: ids,
        runs: runs.to_vec(),
        filler,
        prompt: 0,
        exec: Exec::ONE_THREAD,
    }
}
