//! The calls of `dispatch.rs` on processors without kernels: none can be used.

use tch::{TchError, Tensor};

use super::Heads;
use crate::config::HiddenActivation;
use crate::nn::exec::Exec;

/// A weight as no kernel takes it.
#[derive(Debug)]
pub(in super::super) enum FallbackPanels {}

pub(in super::super) fn can_multiply(_: bool) -> bool {
    false
}

pub(in super::super) fn pack_weights(
    _: &Tensor,
    _: Option<&Tensor>,
    _: bool,
) -> Result<Option<FallbackPanels>, TchError> {
    Ok(None)
}

pub(in super::super) fn multiply(
    _: Exec,
    panels: &FallbackPanels,
    _: &Tensor,
    _: Option<HiddenActivation>,
) -> Result<Tensor, TchError> {
    match *panels {}
}

pub(in super::super) fn can_attend(_: Heads) -> bool {
    false
}

pub(in super::super) fn attend(
    _: Exec,
    _: Heads,
    _: &Tensor,
    _: Option<&Tensor>,
    _: &mut [f32],
) -> Result<Option<()>, TchError> {
    Ok(None)
}

pub(in super::super) fn fused_mlp(
    _: Exec,
    widen: &FallbackPanels,
    _: &FallbackPanels,
    _: &Tensor,
    _: HiddenActivation,
) -> Result<Tensor, TchError> {
    match *widen {}
}

pub(in super::super) fn root_mean_square(_: Exec, _: &Tensor, _: &Tensor, _: f64) -> Result<Option<Tensor>, TchError> {
    Ok(None)
}

pub(in super::super) fn rotate(
    _: Exec,
    _: Heads,
    _: &Tensor,
    _: [&Tensor; 2],
    _: Option<(&[Tensor; 2], f64)>,
) -> Result<Option<Tensor>, TchError> {
    Ok(None)
}

pub(in super::super) fn gate(_: Exec, _: &Tensor, _: HiddenActivation, _: bool) -> Result<Option<Tensor>, TchError> {
    Ok(None)
}

pub(in super::super) fn add_norm(
    _: Exec,
    _: &Tensor,
    _: &Tensor,
    _: [&Tensor; 2],
    _: f64,
) -> Result<Option<Tensor>, TchError> {
    Ok(None)
}
