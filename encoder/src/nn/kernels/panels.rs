//! A weight that stays as it is, packed in *panels* of 48 outputs, and how threads share its products.

use std::ops::Range;

use super::product::F32Panels;
use super::product_int8::Int8Panels;
use super::tiles::{BLOCK, ROWS, WIDTH};
use crate::config::HiddenActivation;
use crate::nn::exec::Exec;

/// A weight and its bias.
#[derive(Debug)]
pub(in super::super) enum WeightPanels {
    F32(F32Panels),
    /// Rounded to int8, as rows will be.
    Int8(Int8Panels),
}

impl WeightPanels {
    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::F32(panels) => panels.inputs(),
            Self::Int8(panels) => panels.inputs(),
        }
    }

    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::F32(panels) => panels.outputs(),
            Self::Int8(panels) => panels.outputs(),
        }
    }

    /// Number of panels.
    fn count(&self) -> usize {
        self.outputs().div_ceil(WIDTH)
    }

    /// Multiply-adds from which work is shared: about 20 microseconds of one core.
    fn worth_sharing(&self) -> usize {
        match self {
            Self::F32(_) => 1 << 20,
            Self::Int8(_) => 1 << 22,
        }
    }

    /// Rows `[n, in]` to `[n, out]`, shared among the threads that kernels have here: many rows by rows, few by
    /// outputs.
    pub(super) fn multiply(&self, exec: Exec, rows: &[f32], activation: Option<HiddenActivation>, outputs: &mut [f32]) {
        let count = rows.len() / self.inputs();
        let all = 0..self.count();
        let parts = exec.pieces(count * self.inputs() * self.outputs(), self.worth_sharing());
        if parts == 1 {
            self.part(rows, all, activation, outputs);
        } else if count >= parts * BLOCK {
            let some = count.div_ceil(parts).next_multiple_of(ROWS);
            let pieces = rows
                .chunks(some * self.inputs())
                .zip(outputs.chunks_mut(some * self.outputs()));
            exec.share(pieces, |(rows, outputs)| {
                self.part(rows, all.clone(), activation, outputs);
            });
        } else {
            let some = all.len().div_ceil(parts);
            let columns = |panels: &Range<usize>| panels.start * WIDTH..(panels.end * WIDTH).min(self.outputs());
            let pieces = all
                .clone()
                .step_by(some)
                .map(|first| first..(first + some).min(all.end));
            let mut pieces: Vec<_> = pieces
                .map(|panels| (panels.clone(), vec![0.0; count * columns(&panels).len()]))
                .collect();
            exec.share(pieces.iter_mut(), |(panels, made)| {
                self.part(rows, panels.clone(), activation, made);
            });
            for (panels, made) in pieces {
                let columns = columns(&panels);
                for (outputs, made) in outputs
                    .chunks_exact_mut(self.outputs())
                    .zip(made.chunks_exact(columns.len()))
                {
                    outputs[columns.clone()].copy_from_slice(made);
                }
            }
        }
    }

    /// Rows `[n, in]` through this weight, activated, and through the `next` one, a block at a time: the intermediate
    /// is as large as that of one block, and stays in the cache.
    pub(super) fn fused_mlp(
        &self,
        exec: Exec,
        next: &Self,
        rows: &[f32],
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) {
        let count = rows.len() / self.inputs();
        if count == 0 {
            return;
        }
        let parts = exec.pieces(2 * count * self.inputs() * self.outputs(), self.worth_sharing());
        if parts > 1 && count < parts * BLOCK {
            let mut between = vec![0.0; count * self.outputs()];
            self.multiply(exec, rows, activation, &mut between);
            next.multiply(exec, &between, None, outputs);
            return;
        }
        let some = count.div_ceil(parts).next_multiple_of(ROWS);
        let pieces = rows
            .chunks(some * self.inputs())
            .zip(outputs.chunks_mut(some * next.outputs()));
        exec.share(pieces, |(rows, outputs)| {
            let mut between = vec![0.0; BLOCK.min(rows.len() / self.inputs()) * self.outputs()];
            for (rows, outputs) in rows
                .chunks(BLOCK * self.inputs())
                .zip(outputs.chunks_mut(BLOCK * next.outputs()))
            {
                let between = &mut between[..rows.len() / self.inputs() * self.outputs()];
                self.part(rows, 0..self.count(), activation, between);
                next.part(between, 0..next.count(), None, outputs);
            }
        });
    }

    /// Rows `[n, in]` to the outputs of some panels, on this thread.
    fn part(&self, rows: &[f32], panels: Range<usize>, activation: Option<HiddenActivation>, outputs: &mut [f32]) {
        match self {
            Self::F32(of) => of.part(rows, panels, activation, outputs),
            Self::Int8(of) => of.part(rows, panels, activation, outputs),
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::super::simd::{Avx512, Vnni};
    use super::*;
    use crate::nn::KernelPool;

    fn draw(size: [usize; 2]) -> Vec<f32> {
        let tensor = Tensor::randn(size.map(|size| size as i64), (Kind::Float, Device::Cpu));
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    /// A weight and a bias in each form that this processor has.
    fn forms(inputs: usize, outputs: usize) -> Vec<WeightPanels> {
        let (weight, bias) = (draw([outputs, inputs]), draw([1, outputs]));
        let f32 = Avx512::found().map(|here| WeightPanels::F32(F32Panels::of(here, &weight, inputs, Some(&bias))));
        let int8 =
            Vnni::found().map(|here| WeightPanels::Int8(Int8Panels::of(here, &weight, inputs, Some(&bias)).unwrap()));
        if f32.is_none() || int8.is_none() {
            println!("skipped: this processor has no AVX-512, or no VNNI");
        }
        f32.into_iter().chain(int8).collect()
    }

    fn same(got: &[f32], expected: &[f32]) -> bool {
        got.iter()
            .map(|value| value.to_bits())
            .eq(expected.iter().map(|value| value.to_bits()))
    }

    #[test]
    fn threads_share_rows_and_panels() {
        tch::manual_seed(7);
        // Few rows by panels, evenly, unevenly, and fewer panels than threads; many by rows.
        for (rows, inputs, outputs) in [
            (30, 384, 768),
            (20, 640, 1000),
            (110, 1536, 40),
            (200, 160, 192),
            (1500, 64, 50),
        ] {
            let x = draw([rows, inputs]);
            for panels in forms(inputs, outputs) {
                assert!(rows * inputs * outputs >= panels.worth_sharing(), "shared");
                let multiplied = |exec| {
                    let mut made = vec![f32::NAN; rows * outputs];
                    panels.multiply(exec, &x, Some(HiddenActivation::Gelu), &mut made);
                    made
                };
                let expected = multiplied(Exec::ONE_THREAD);
                assert!(expected.iter().all(|value| value.is_finite()));
                for threads in [2, 3] {
                    let got = KernelPool::awake(threads).run(|| multiplied(Exec::SHARED));
                    assert!(same(&got, &expected), "{rows} x {inputs} -> {outputs} by {threads}");
                }
            }
        }
    }

    /// Few rows by outputs of one after the other, many by rows of both.
    #[test]
    fn threads_share_both() {
        tch::manual_seed(9);
        for (widen, narrow) in forms(384, 1536).iter().zip(&forms(1536, 384)) {
            for rows in [20, 100, 200] {
                let x = draw([rows, 384]);
                let both = |exec| {
                    let mut made = vec![f32::NAN; rows * 384];
                    widen.fused_mlp(exec, narrow, &x, Some(HiddenActivation::Gelu), &mut made);
                    made
                };
                let expected = both(Exec::ONE_THREAD);
                for threads in [2, 3] {
                    let got = KernelPool::awake(threads).run(|| {
                        assert!(Exec::SHARED.pieces(rows * 384 * 1536, widen.worth_sharing()) > 1);
                        both(Exec::SHARED)
                    });
                    assert!(same(&got, &expected), "{rows} rows by {threads}");
                }
            }
        }
    }

    #[test]
    fn one_after_another_gives_what_both_give() {
        tch::manual_seed(8);
        for (widen, narrow) in forms(32, 112).iter().zip(&forms(112, 32)) {
            for rows in [0, 1, 7, 64, 65, 127, 128, 300] {
                let x = draw([rows, 32]);
                let activation = Some(HiddenActivation::Gelu);
                let (mut between, mut expected) = (vec![f32::NAN; rows * 112], vec![f32::NAN; rows * 32]);
                widen.multiply(Exec::ONE_THREAD, &x, activation, &mut between);
                narrow.multiply(Exec::ONE_THREAD, &between, None, &mut expected);
                for threads in 1..=3 {
                    let mut got = vec![f32::NAN; rows * 32];
                    KernelPool::awake(threads).run(|| widen.fused_mlp(Exec::SHARED, narrow, &x, activation, &mut got));
                    assert!(same(&got, &expected), "{rows} rows by {threads}");
                }
            }
        }
    }
}
