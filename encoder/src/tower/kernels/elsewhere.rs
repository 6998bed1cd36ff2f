//! The calls of `checked.rs` on processors without kernels: none can be used.

use tch::{TchError, Tensor};

use super::Heads;

pub(in super::super) fn can_attend(_: Heads) -> bool {
    false
}

pub(in super::super) fn attend(
    _: Heads,
    _: &Tensor,
    _: Option<&Tensor>,
    _: &mut [f32],
) -> Result<Option<()>, TchError> {
    Ok(None)
}

pub(in super::super) fn rounded(_: &Tensor) -> Result<Option<(Tensor, Tensor)>, TchError> {
    Ok(None)
}

pub(in super::super) fn scaled(
    _: &Tensor,
    _: &Tensor,
    _: &Tensor,
    _: Option<&Tensor>,
) -> Result<Option<Tensor>, TchError> {
    Ok(None)
}
