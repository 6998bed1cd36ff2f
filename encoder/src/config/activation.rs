//! The activation between the two matrices of a feed-forward block.

use super::json::JsonFile;
use crate::error::Error;

/// The activation between the two matrices of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenActivation {
    /// Exact: x * Phi(x) (Hendrycks and Gimpel 2016).
    Gelu,
    /// Its tanh approximation.
    GeluTanh,
    Relu,
    /// `x * sigmoid(x)` (Hendrycks and Gimpel 2016), also called Swish.
    Silu,
}

impl HiddenActivation {
    pub(super) fn read(file: &JsonFile, field: &'static str, otherwise: &str) -> Result<Self, Error> {
        match file.text(field)?.unwrap_or(otherwise) {
            "gelu" => Ok(Self::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" => Ok(Self::GeluTanh),
            "relu" => Ok(Self::Relu),
            "silu" | "swish" => Ok(Self::Silu),
            other => Err(file.unsupported("hidden activation", "`gelu`, `gelu_new`, `relu` and `silu`", other)),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Relu => "relu",
            Self::Silu => "silu",
        }
    }
}
