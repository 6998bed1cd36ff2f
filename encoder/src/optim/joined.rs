//! Small tensors that learn alike, side by side in one memory: a step is a few launches for all of them. For GPUs,
//! where a launch costs more than the work on a small tensor, and a transformer has a hundred.

use tch::{Kind, TchError, Tensor};

use super::Gradients;
use super::chunks::{SMALL, flat};
use super::entry::{OptimizerEntry, zeros};
use super::groups::Treatment;

/// Each tensor begins at a multiple of this many values: the alignment that kernels need for wide loads.
const ALIGNMENT: i64 = 64;

/// State of a tensor that may be a part of the state of several.
pub(super) trait Views: Sized {
    /// Zeros for this number of values, on the device of a tensor.
    fn zeros(values: i64, like: &Tensor) -> Result<Self, TchError>;
    /// `length` values from `first` on, in this shape.
    fn view(&self, first: i64, length: i64, shape: &[i64]) -> Result<Self, TchError>;
}

/// Some tensors in one memory.
#[derive(Debug)]
pub(super) struct Joined<M> {
    values: Tensor,
    moments: M,
    treatment: Treatment,
    members: Vec<JoinedMember>,
    /// Zeros, the gradient between two members.
    gap: Tensor,
}

#[derive(Debug, Clone, Copy)]
struct JoinedMember {
    /// Among the entries.
    place: usize,
    /// The place of the first value in the memory that the tensors share.
    first: i64,
}

/// Neighbours in the memory that take a step together.
#[derive(Debug)]
pub(super) struct Stretch<M> {
    /// The tensors of the stretch as one tensor.
    pub(super) entry: OptimizerEntry<M>,
    pub(super) gradient: Tensor,
    /// The places of the tensors among the entries.
    pub(super) places: Vec<usize>,
}

impl<M: Views> Joined<M> {
    /// Moves the small tensors in f32 among new `entries` into memory of their own, those of one treatment together.
    pub(super) fn join_all(entries: &mut [OptimizerEntry<M>]) -> Result<Vec<Self>, TchError> {
        let mut alike: Vec<(Treatment, Vec<usize>)> = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if entry.tensor.kind() != Kind::Float || entry.tensor.numel() > SMALL {
                continue;
            }
            match alike.iter_mut().find(|(treatment, _)| *treatment == entry.treatment) {
                Some((_, places)) => places.push(place),
                None => alike.push((entry.treatment, vec![place])),
            }
        }
        alike.retain(|(_, places)| places.len() > 1);
        tch::no_grad(|| {
            alike
                .into_iter()
                .map(|(treatment, places)| Self::join(entries, treatment, &places))
                .collect()
        })
    }

    fn join(entries: &mut [OptimizerEntry<M>], treatment: Treatment, places: &[usize]) -> Result<Self, TchError> {
        let (mut members, mut total, mut like) = (Vec::with_capacity(places.len()), 0, None);
        for &place in places {
            let Some(entry) = entries.get(place) else { continue };
            members.push(JoinedMember { place, first: total });
            total += up(entry.tensor.numel() as i64);
            like = Some(&entry.tensor);
        }
        let like = like.ok_or_else(|| TchError::Shape("no tensors to join".to_owned()))?;
        let (values, moments, gap) = (
            zeros(&[total], like)?,
            M::zeros(total, like)?,
            zeros(&[ALIGNMENT], like)?,
        );
        for &JoinedMember { place, first } in &members {
            let Some(entry) = entries.get_mut(place) else { continue };
            let (length, shape) = (entry.tensor.numel() as i64, entry.tensor.size());
            let mut view = values.f_narrow(0, first, length)?.f_view(shape.as_slice())?;
            view.f_copy_(&entry.tensor.f_detach()?)?;
            entry.tensor.f_set_data(&view)?;
            entry.moments = moments.view(first, length, &shape)?;
        }
        Ok(Self {
            values,
            moments,
            treatment,
            members,
            gap,
        })
    }

    /// The members that have a gradient, those together that are neighbours and have taken equally many steps.
    pub(super) fn stretches(
        &self,
        entries: &[OptimizerEntry<M>],
        gradients: &Gradients,
    ) -> Result<Vec<Stretch<M>>, TchError> {
        let steps = |member: &JoinedMember| {
            let entry = entries.get(member.place)?;
            gradients.at(member.place).map(|_| entry.steps)
        };
        let mut stretches = Vec::new();
        for neighbours in self.members.chunk_by(|one, next| steps(one) == steps(next)) {
            let Some((first, steps)) = neighbours.first().and_then(|first| Some((first.first, steps(first)?))) else {
                continue;
            };
            let (mut parts, mut length) = (Vec::with_capacity(2 * neighbours.len()), 0);
            for member in neighbours {
                let Some(gradient) = gradients.at(member.place) else {
                    continue;
                };
                let gradient = flat(gradient)?;
                let own = gradient.numel() as i64;
                parts.push(gradient);
                if up(own) > own {
                    parts.push(self.gap.f_narrow(0, 0, up(own) - own)?);
                }
                length += up(own);
            }
            let entry = OptimizerEntry {
                name: "joined".to_owned(),
                tensor: self.values.f_narrow(0, first, length)?,
                treatment: self.treatment,
                steps,
                moments: self.moments.view(first, length, &[length])?,
                part: i64::MAX,
            };
            let places = neighbours.iter().map(|member| member.place).collect();
            stretches.push(Stretch {
                entry,
                gradient: Tensor::f_cat(&parts, 0)?,
                places,
            });
        }
        Ok(stretches)
    }

    /// Places of the members among the entries.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<usize> {
        self.members.iter().map(|member| member.place).collect()
    }
}

fn up(values: i64) -> i64 {
    (values + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}
