//! The passes of Adafactor over a matrix `[n, m]`, in groups of rows that fit a processor's cache. The update
//! `gradient * row * column` is never materialised as a whole.

use tch::{Kind, TchError, Tensor};

use super::chunks;
use super::entry::scratch;

/// One matrix, or one of several that follow one another in a tensor of more dimensions.
#[derive(Debug)]
pub(super) struct Slab {
    /// `[n, m]`, not yet multiplied with `scale`.
    pub(super) gradient: Tensor,
    pub(super) scale: f64,
    /// `[n, m]`: what learns.
    pub(super) values: Tensor,
    /// `[n]`: mean of squares along each row.
    pub(super) rows: Tensor,
    /// `[m]`: mean of squares along each column.
    pub(super) columns: Tensor,
    /// `[n, m]`: mean of updates.
    pub(super) momentum: Option<Tensor>,
    /// Values of a part.
    pub(super) part: i64,
}

/// Factors of an update, by row `[n, 1]` and by column `[m]`.
#[derive(Debug)]
pub(super) struct Factors {
    rows: Tensor,
    columns: Tensor,
}

/// Other parts of a step.
#[derive(Debug)]
pub(super) struct UpdateStep<'a> {
    /// The learning rate over the denominator of clipping, as one value.
    pub(super) rate: &'a Tensor,
    /// One value: what values are multiplied with first; `None` for 1.
    pub(super) kept: Option<&'a Tensor>,
    /// Decay of the momentum.
    pub(super) beta1: f64,
}

impl Slab {
    fn size(&self) -> (i64, i64) {
        match self.gradient.size()[..] {
            [n, m] => (n, m),
            _ => (0, 0),
        }
    }

    /// Calls `visit` with the first row, the number of rows, their gradient in f32 and room of its size.
    fn parts(
        &self,
        mut visit: impl FnMut(i64, i64, &Tensor, &mut Tensor) -> Result<(), TchError>,
    ) -> Result<(), TchError> {
        let (n, m) = self.size();
        let each = (self.part / m.max(1)).clamp(1, n.max(1));
        let room = scratch(each * m, self.gradient.device())?.f_view([each, m])?;
        for (first, count) in chunks::parts(n, each) {
            let gradient = self.gradient.f_narrow(0, first, count)?.f_to_kind(Kind::Float)?;
            visit(first, count, &gradient, &mut room.f_narrow(0, 0, count)?)?;
        }
        Ok(())
    }

    /// Moves both means towards those of this gradient, `weight` of the way, and gives the factors
    /// `1 / sqrt(row / mean(rows))` and `1 / sqrt(column)` (Shazeer and Stern 2018, algorithm 4).
    pub(super) fn observe(&mut self, weight: f64, epsilon: f64) -> Result<Factors, TchError> {
        let (n, m) = self.size();
        let (rows, mut columns) = (self.rows.f_empty_like()?, self.columns.f_zeros_like()?);
        self.parts(|first, count, gradient, room| {
            let _ = gradient.f_square_out(room)?;
            let _ = room.f_sum_intlist_out(&rows.f_narrow(0, first, count)?, &[1i64][..], false, None::<Kind>)?;
            columns
                .f_add_(&room.f_sum_dim_intlist(&[0i64][..], false, None::<Kind>)?)
                .map(|_| ())
        })?;
        let mean = |sums: &Tensor, of: i64| {
            sums.f_mul_scalar(self.scale * self.scale / of.max(1) as f64)?
                .f_add_scalar(epsilon)
        };
        let _ = self.rows.f_lerp_(&mean(&rows, m)?, weight)?;
        let _ = self.columns.f_lerp_(&mean(&columns, n)?, weight)?;
        let rows = self
            .rows
            .f_div(&self.rows.f_mean(None::<Kind>)?)?
            .f_rsqrt()?
            .f_unsqueeze(1)?;
        Ok(Factors {
            rows,
            columns: self.columns.f_rsqrt()?,
        })
    }

    /// The sum of the update's squares, one value.
    pub(super) fn squares(&self, factors: &Factors) -> Result<Tensor, TchError> {
        let (rows, columns) = (factors.rows.f_square()?.f_squeeze_dim(1)?, factors.columns.f_square()?);
        let mut sum = Tensor::f_zeros([], (Kind::Float, rows.device()))?;
        self.parts(|first, count, gradient, room| {
            let _ = gradient.f_square_out(room)?;
            let by_row = room.f_mv(&columns)?;
            sum.f_add_(&by_row.f_dot(&rows.f_narrow(0, first, count)?)?).map(|_| ())
        })?;
        sum.f_mul_scalar(self.scale * self.scale)
    }

    /// Subtracts the update from the values.
    pub(super) fn apply(&self, factors: &Factors, step: &UpdateStep<'_>) -> Result<(), TchError> {
        // Without momentum the sign goes into the factors, so that one pass multiplies and subtracts.
        let sign = if self.momentum.is_some() { 1.0 } else { -1.0 };
        let rows = factors.rows.f_mul(step.rate)?.f_mul_scalar(sign * self.scale)?;
        self.parts(|first, count, gradient, room| {
            let _ = gradient.f_mul_out(room, &rows.f_narrow(0, first, count)?)?;
            let mut values = self.values.f_narrow(0, first, count)?;
            let mut wide = values.f_to_kind(Kind::Float)?;
            if let Some(kept) = step.kept {
                let _ = wide.f_mul_(kept)?;
            }
            if let Some(momentum) = &self.momentum {
                let mut momentum = momentum.f_narrow(0, first, count)?;
                let _ = room.f_mul_(&factors.columns)?;
                let _ = momentum.f_lerp_(room, 1.0 - step.beta1)?;
                let _ = wide.f_sub_(&momentum)?;
            } else {
                let _ = wide.f_addcmul_(room, &factors.columns)?;
            }
            if values.kind() != Kind::Float {
                values.f_copy_(&wide)?;
            }
            Ok(())
        })
    }
}
