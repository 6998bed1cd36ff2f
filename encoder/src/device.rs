//! Device, data type and threads of a model.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

use crate::error::Error;

/// Threads that embed batches on a GPU: one lays out the next batch while the other one's is computed.
const GPU_WORKERS: usize = 2;

/// No machine has more cores.
const MOST_THREADS: usize = 1 << 16;

/// The device that holds the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU by its number, from 0.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => name
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("device must be `cpu`, `cuda` or `cuda:N`, got: {name}")),
        }
    }
}

/// The number type of weights and activations. Pooling and normalisation always run in f32, and vectors are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit float: the reference.
    #[default]
    F32,
    /// bfloat16: f32's range, 8 bits of precision.
    Bf16,
    /// IEEE half precision: 11 bits of precision, overflows above 65504.
    F16,
    /// On the CPU: the linear maps of transformers in int8, weights rounded by output and activations by token; the
    /// rest in f32.
    Int8,
}

impl Dtype {
    pub(crate) fn kind(self) -> tch::Kind {
        match self {
            Self::F32 | Self::Int8 => tch::Kind::Float,
            Self::Bf16 => tch::Kind::BFloat16,
            Self::F16 => tch::Kind::Half,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        })
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "f16" => Ok(Self::F16),
            "int8" => Ok(Self::Int8),
            _ => Err(format!("dtype must be `f32`, `bf16`, `f16` or `int8`, got: {name}")),
        }
    }
}

/// Device, data type and threads of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compute {
    /// Device of the weights.
    pub device: Device,
    /// Number type of the weights.
    pub dtype: Dtype,
    /// Threads that a model computes on, on the CPU; `None` for libtorch's own choice, one per core.
    pub threads: Option<usize>,
}

impl Compute {
    /// Checks that the device is there and sets the calling thread's operator threads.
    ///
    /// OpenMP keeps the thread count per calling thread, so this must run on the thread that owns the model.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        // Also where none is asked for: whatever ran on this thread before may have left another number.
        set_operator_threads(self.threads.unwrap_or_else(one_per_core));
        let Device::Cuda(number) = self.device else {
            return Ok(());
        };
        let refuse = |reason: String| {
            Err(Error::Device {
                device: self.device.to_string(),
                reason,
            })
        };
        if self.dtype == Dtype::Int8 {
            return refuse("int8 runs on the CPU. Use `--dtype bf16` here, or `--device cpu` (`device = \"cpu\"` in the TOML of a training)".into());
        }
        if !tch::utils::has_cuda() {
            return refuse("this libtorch was built without CUDA, or its CUDA libraries are not installed. Fetch them with `deploy/libtorch.sh --cuda`, or use `--device cpu` (`device = \"cpu\"` in the TOML of a training)".into());
        }
        let present = tch::Cuda::device_count();
        if i64::try_from(number).map_or(true, |number| number >= present) {
            return refuse(format!("the driver shows {present} CUDA devices, counted from 0"));
        }
        Ok(())
    }

    /// Threads that may compute at once: those of one operator, or workers with a batch each.
    pub(crate) fn workers(&self) -> usize {
        match self.device {
            Device::Cpu => self.threads.unwrap_or_else(one_per_core).clamp(1, MOST_THREADS),
            Device::Cuda(_) => GPU_WORKERS,
        }
    }

    /// Device of the tensors.
    pub fn torch_device(&self) -> tch::Device {
        match self.device {
            Device::Cpu => tch::Device::Cpu,
            Device::Cuda(number) => tch::Device::Cuda(number),
        }
    }
}

/// Gives the calling thread its number of operator threads again once it is dropped.
#[derive(Debug)]
pub(crate) struct OperatorThreads(i32);

impl OperatorThreads {
    pub(crate) fn kept() -> Self {
        one_per_core();
        Self(tch::get_num_threads())
    }
}

impl Drop for OperatorThreads {
    fn drop(&mut self) {
        tch::set_num_threads(self.0);
    }
}

/// Sets the operator threads of the calling thread.
///
/// The first thing that libtorch does on a thread is to take the number that was last set on any; asking first gets
/// that over with.
pub(crate) fn set_operator_threads(threads: usize) {
    one_per_core();
    let _ = tch::get_num_threads();
    tch::set_num_threads(i32::try_from(threads.clamp(1, MOST_THREADS)).unwrap_or(1));
}

/// libtorch's own number of threads: one per core, or `OMP_NUM_THREADS`.
///
/// Later it answers with the number that was last set on any thread, so it is asked once, before the first one is set.
fn one_per_core() -> usize {
    static CHOSEN: OnceLock<usize> = OnceLock::new();
    *CHOSEN.get_or_init(|| usize::try_from(tch::get_num_threads()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Making a model works with one thread, and training after it with none asked for took that one over.
    #[test]
    fn no_number_means_one_per_core_whatever_was_set_before() {
        let chosen = i32::try_from(one_per_core()).unwrap();
        let prepared = |threads| {
            Compute {
                threads,
                ..Compute::default()
            }
            .prepare()
            .unwrap();
            tch::get_num_threads()
        };
        for set in [1, chosen + 1, 2] {
            assert_eq!(prepared(usize::try_from(set).ok()), set);
            assert_eq!(prepared(None), chosen);
            let kept = OperatorThreads::kept();
            assert_eq!(prepared(Some(3)), 3);
            // A thread that libtorch has not met begins with the number of another one.
            assert_eq!(
                std::thread::spawn(move || (tch::get_num_threads(), prepared(None)))
                    .join()
                    .unwrap(),
                (3, chosen)
            );
            drop(kept);
            assert_eq!(tch::get_num_threads(), chosen);
        }
        assert_eq!(Compute::default().workers(), usize::try_from(chosen).unwrap());
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::Int8] {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
    }

    #[test]
    fn other_names_are_refused_with_the_choices() {
        for name in ["", "gpu", "cuda:", "cuda:-1", "cuda:x"] {
            let message = name.parse::<Device>().unwrap_err();
            assert!(message.contains("`cuda:N`") && message.ends_with(name), "{message}");
        }
        assert!("f64".parse::<Dtype>().unwrap_err().ends_with("got: f64"));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_refused_by_name() {
        let compute = Compute {
            device: Device::Cuda(63),
            ..Compute::default()
        };
        assert!(compute.prepare().unwrap_err().to_string().contains("`cuda:63`"));
    }
}
