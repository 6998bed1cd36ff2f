//! Dispatch: chooses the best instruction set of this processor, or the one that `DYAD_KERNELS` names.

use std::ffi::OsString;
use std::sync::OnceLock;

use super::{Kernels, SCALAR};

/// The environment variable that forces an instruction set.
pub const ENVIRONMENT: &str = "DYAD_KERNELS";

/// Names from the narrowest to the widest instruction set, of all processors.
const ORDER: [&str; 4] = ["scalar", "neon", "avx2", "avx512"];

/// `DYAD_KERNELS` names an instruction set that this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kernels named `{asked}` on this machine. Unset `{ENVIRONMENT}`, or set it to one of: {}", here.join(", "))]
pub struct UnknownKernels {
    /// The requested name.
    pub asked: String,
    /// The names that this machine has, best first.
    pub here: Vec<&'static str>,
}

/// The kernels that this processor has, best first; the last is [`SCALAR`].
pub fn available() -> Vec<Kernels> {
    let mut found: Vec<Kernels> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    found.extend(
        [super::x86::avx512_kernels(), super::x86::avx2_kernels()]
            .into_iter()
            .flatten(),
    );
    #[cfg(target_arch = "aarch64")]
    found.extend(super::aarch64::neon_kernels());
    found.push(SCALAR);
    found
}

/// The kernels named `asked`, or the best where no name is given. A program calls it with [`requested_set`] when it
/// starts, to refuse an unknown name.
pub fn choose(asked: Option<&str>) -> Result<Kernels, UnknownKernels> {
    let found = available();
    let named = |name: &str| found.iter().find(|kernels| kernels.name == name).copied();
    match asked {
        None => Ok(found.first().copied().unwrap_or(SCALAR)),
        Some(name) => named(name).ok_or_else(|| UnknownKernels {
            asked: name.to_owned(),
            here: found.iter().map(|kernels| kernels.name).collect(),
        }),
    }
}

/// The value of the environment variable; none where it is unset or empty.
pub fn requested_set() -> Option<String> {
    std::env::var_os(ENVIRONMENT)
        .map(OsString::into_string)
        .map(|name| name.unwrap_or_else(|raw| raw.to_string_lossy().into_owned()))
        .filter(|name| !name.is_empty())
}

/// The kernels of this process, chosen at the first call: as `DYAD_KERNELS` says, or the best.
///
/// It never fails: a name from another machine gives the best that is not wider than it, an unknown name the best.
pub fn kernels() -> &'static Kernels {
    static CHOSEN: OnceLock<Kernels> = OnceLock::new();
    CHOSEN.get_or_init(|| at_most(requested_set().as_deref(), &available()))
}

/// The best of `found` (best first) that is not wider than `asked`.
fn at_most(asked: Option<&str>, found: &[Kernels]) -> Kernels {
    let width = |name: &str| ORDER.iter().position(|known| *known == name);
    let limit = asked.and_then(width).unwrap_or(ORDER.len());
    found
        .iter()
        .find(|kernels| width(kernels.name).is_some_and(|width| width <= limit))
        .copied()
        .unwrap_or(SCALAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&'static str]) -> Vec<Kernels> {
        list.iter().map(|name| Kernels { name, ..SCALAR }).collect()
    }

    #[test]
    fn the_best_is_chosen_unless_one_is_named() {
        let found = available();
        assert_eq!(choose(None).unwrap().name, found[0].name);
        for kernels in &found {
            assert_eq!(choose(Some(kernels.name)).unwrap().name, kernels.name);
        }
        assert_eq!(found.last().unwrap().name, "scalar");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let error = choose(Some("mmx")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`mmx`") && text.contains("scalar"), "{text}");
        assert_eq!(
            error.here,
            available().iter().map(|kernels| kernels.name).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_name_of_another_machine_gives_nothing_wider() {
        let old = names(&["avx2", "scalar"]);
        assert_eq!(at_most(Some("avx512"), &old).name, "avx2");
        assert_eq!(at_most(Some("neon"), &old).name, "scalar");
        assert_eq!(at_most(Some("scalar"), &old).name, "scalar");
        assert_eq!(at_most(Some("mmx"), &old).name, "avx2");
        assert_eq!(at_most(None, &old).name, "avx2");
        assert_eq!(at_most(Some("avx2"), &names(&["neon", "scalar"])).name, "neon");
        assert_eq!(
            at_most(Some("avx2"), &names(&["avx512", "avx2", "scalar"])).name,
            "avx2"
        );
    }
}
