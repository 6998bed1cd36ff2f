//! Learning-rate schedules: pure functions of the step, so that a resumed run continues exactly.
//!
//! Steps count from 0, as in `transformers.get_scheduler`: the first step of a warm-up has the factor 0.

use serde::{Deserialize, Serialize};

/// The factor by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Schedule {
    /// 1 after a linear warm-up from 0.
    Constant {
        /// Steps of the warm-up.
        #[serde(default)]
        warm_up: u64,
    },
    /// A linear warm-up from 0, then linearly to 0 at the last step (Dong et al. 2022 and Ni et al. 2022, without
    /// warm-up).
    Linear {
        /// Steps of the warm-up.
        #[serde(default)]
        warm_up: u64,
    },
    /// A linear warm-up from 0, then `sqrt(warm_up / step)` (Vaswani et al. 2017, section 5.3, with its peak at 1).
    /// Without a warm-up the factor is `sqrt(10000 / (step + 10000))`.
    InverseSquareRoot {
        /// Steps of the warm-up.
        #[serde(default)]
        warm_up: u64,
    },
}

/// Time scale of the inverse square root without warm-up, as in `transformers`.
const TIME_SCALE: f64 = 10_000.0;

impl Default for Schedule {
    fn default() -> Self {
        Self::Linear { warm_up: 0 }
    }
}

impl Schedule {
    /// The factor at `step` of `total` steps.
    pub fn factor(self, step: u64, total: u64) -> f64 {
        let (Self::Constant { warm_up } | Self::Linear { warm_up } | Self::InverseSquareRoot { warm_up }) = self;
        if step < warm_up {
            return step as f64 / warm_up as f64;
        }
        match self {
            Self::Constant { .. } => 1.0,
            Self::Linear { .. } => total.saturating_sub(step) as f64 / total.saturating_sub(warm_up).max(1) as f64,
            Self::InverseSquareRoot { .. } => {
                let scale = if warm_up == 0 { TIME_SCALE } else { warm_up as f64 };
                (scale / ((step - warm_up) as f64 + scale)).sqrt()
            }
        }
    }
}
