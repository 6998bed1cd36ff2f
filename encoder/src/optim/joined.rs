//! Small tensors that learn alike, side by side in one memory: a step is a few launches for all of them. For GPUs, where a launch costs more than the
//! work on a small tensor, and a transformer has a hundred.

use tch::{Kind, TchError, Tensor};

use super::Gradients;
use super::chunks::{SMALL, flat};
use super::entry::{Entry, zeros};
use super::groups::Treatment;

/// Each begins at a multiple of this many values, as kernels like their operands.
const ALIGNMENT: i64 = 64;

/// State of a tensor as views of memory that is shared with others'.
pub(super) trait Views: Sized {
    /// Zeros for this number of values.
    fn zeros(values: i64, beside: &Tensor) -> Result<Self, TchError>;
    /// `length` values from `first` on, in this shape.
    fn view(&self, first: i64, length: i64, shape: &[i64]) -> Result<Self, TchError>;
}

/// Some tensors as one.
#[derive(Debug)]
pub(super) struct Joined<M> {
    /// The whole memory; its steps are those of the members.
    pub(super) whole: Entry<M>,
    /// Places of the members among the entries, in the memory's order.
    members: Vec<usize>,
    /// Zeros, for what is between two members.
    gap: Tensor,
}

impl<M: Views> Joined<M> {
    /// Moves the small tensors in f32 among new `entries` into memory of their own, those of one treatment together.
    pub(super) fn of(entries: &mut [Entry<M>]) -> Result<Vec<Self>, TchError> {
        let mut alike: Vec<(Treatment, Vec<usize>)> = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if entry.tensor.kind() != Kind::Float || entry.tensor.numel() > SMALL {
                continue;
            }
            match alike.iter_mut().find(|(treatment, _)| *treatment == entry.treatment) {
                Some((_, members)) => members.push(place),
                None => alike.push((entry.treatment, vec![place])),
            }
        }
        alike.retain(|(_, members)| members.len() > 1);
        tch::no_grad(|| alike.into_iter().map(|(treatment, members)| Self::join(entries, treatment, members)).collect())
    }

    fn join(entries: &mut [Entry<M>], treatment: Treatment, members: Vec<usize>) -> Result<Self, TchError> {
        let own = || members.iter().filter_map(|&place| Some((place, entries.get(place)?.tensor.shallow_clone())));
        let Some((_, beside)) = own().next() else {
            return Err(TchError::Shape("no tensors to join".to_owned()));
        };
        let total = own().map(|(_, tensor)| up(tensor.numel() as i64)).sum();
        let (values, moments) = (zeros(&[total], &beside)?, M::zeros(total, &beside)?);
        let mut first = 0;
        for (place, mut tensor) in own().collect::<Vec<_>>() {
            let (length, shape) = (tensor.numel() as i64, tensor.size());
            let mut view = values.f_narrow(0, first, length)?.f_view(shape.as_slice())?;
            view.f_copy_(&tensor.f_detach()?)?;
            tensor.f_set_data(&view)?;
            if let Some(entry) = entries.get_mut(place) {
                entry.moments = moments.view(first, length, &shape)?;
            }
            first += up(length);
        }
        let gap = zeros(&[ALIGNMENT], &beside)?;
        let name = "joined".to_owned();
        let whole = Entry { name, tensor: values, treatment, steps: 0, moments, part: i64::MAX };
        Ok(Self { whole, members, gap })
    }

    /// The gradients of all members as one, and whether the members have taken equally many steps; `None` unless both are so.
    pub(super) fn gradient(&mut self, entries: &[Entry<M>], gradients: &Gradients) -> Result<Option<Tensor>, TchError> {
        let mut parts = Vec::with_capacity(2 * self.members.len());
        for (number, &place) in self.members.iter().enumerate() {
            let (Some(entry), Some(gradient)) = (entries.get(place), gradients.at(place)) else { return Ok(None) };
            if number == 0 {
                self.whole.steps = entry.steps;
            } else if self.whole.steps != entry.steps {
                return Ok(None);
            }
            let length = entry.tensor.numel() as i64;
            parts.push(flat(gradient)?);
            if up(length) > length {
                parts.push(self.gap.f_narrow(0, 0, up(length) - length)?);
            }
        }
        Tensor::f_cat(&parts, 0).map(Some)
    }

    /// After a step of the whole: so many have its members taken.
    pub(super) fn stepped(&self, entries: &mut [Entry<M>]) {
        for &place in &self.members {
            if let Some(entry) = entries.get_mut(place) {
                entry.steps = self.whole.steps;
            }
        }
    }

    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }
}

fn up(values: i64) -> i64 {
    (values + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}
