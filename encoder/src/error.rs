//! Why a model cannot be opened or run. Every variant names the file, what is wrong with it and what to do.

use std::io;
use std::path::PathBuf;

/// Failure to open a model directory or to run its network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model's path is no directory.
    #[error("no model directory at `{}`. Fetch one with `deploy/model.sh NAME DIR`, or correct the path", path.display())]
    NoDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// A file that the model needs is not there.
    #[error("model file `{}` is missing. {fix}", path.display())]
    MissingFile {
        /// The path that was looked for.
        path: PathBuf,
        /// The command or file that provides it.
        fix: &'static str,
    },
    /// A file cannot be read; the message carries its path.
    #[error("cannot read the model: {0}")]
    Io(#[from] io::Error),
    /// A configuration file is not JSON, or not of the expected shape.
    #[error("`{}` is not valid: {source}. Fetch the model again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        source: serde_json::Error,
    },
    /// A file of the model that Git LFS did not fetch.
    #[error("`{}` is a Git LFS pointer and not the file itself. Run `git lfs pull` in the model's directory, or fetch the model with `deploy/model.sh NAME DIR`", path.display())]
    LfsPointer {
        /// The file.
        path: PathBuf,
    },
    /// An adapter (LoRA and its kin) that is not part of the weights.
    #[error("`{}` is an adapter that is not merged into the weights, without which the vectors would be others. Merge it in Python (`peft.AutoPeftModel.from_pretrained(DIR).merge_and_unload().save_pretrained(NEW)`, and the other files next to it), or move it away, if the weights are meant without it", path.display())]
    Adapter {
        /// The adapter's file.
        path: PathBuf,
    },
    /// A configuration field holds a value that cannot be.
    #[error("`{}`: field `{field}` must be {expected}, got: {got}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// Values that are accepted.
        expected: String,
        /// The value in the file.
        got: String,
    },
    /// A name that the model has no prompt of.
    #[error("the model `{}` has no prompt `{name}`. Its prompts are {known}; any other text is given by `--question-prompt` or `--answer-prompt`", path.display())]
    UnknownPrompt {
        /// The model's directory.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A valid configuration that this crate cannot run.
    #[error("`{}`: {what} is not supported, only {supported}: {got}", path.display())]
    Unsupported {
        /// The file that asks for it.
        path: PathBuf,
        /// The kind of thing: module, activation, model type.
        what: &'static str,
        /// The values that are supported.
        supported: &'static str,
        /// The name in the file.
        got: String,
    },
    /// A setting that would give other vectors in Python, with a value that is not computed here.
    #[error("`{}`: setting `{name}` is not supported with this value, only {supported}: {got}. With it the vectors would differ from those computed here", path.display())]
    SettingNotSupported {
        /// The file.
        path: PathBuf,
        /// Name of the setting.
        name: String,
        /// The values that are supported.
        supported: String,
        /// The value that was found.
        got: String,
    },
    /// A weights file that is cut short or damaged.
    #[error("`{}` is not a complete safetensors file: {reason}. Fetch the model again and compare its checksum", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// How the files differ.
        reason: String,
    },
    /// The architecture needs a tensor that the file lacks.
    #[error("`{}` lacks tensor `{tensor}`. The weights belong to another architecture than `config.json` says", path.display())]
    MissingTensor {
        /// The weights file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
    },
    /// The file has tensors that the architecture has no place for.
    #[error("`{}` has tensors that the model does not use. The weights belong to another architecture than `config.json` says. Unexpected tensors: {}", path.display(), tensors.join(", "))]
    UnexpectedTensors {
        /// The weights file.
        path: PathBuf,
        /// The names of the first few of these tensors.
        tensors: Vec<String>,
    },
    /// A tensor's shape contradicts the configuration.
    #[error("`{}`: tensor `{tensor}` must have the shape {expected} that `config.json` asks for, got: {got}", path.display())]
    TensorShape {
        /// The weights file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Shape by the configuration.
        expected: String,
        /// Shape in the file.
        got: String,
    },
    /// A tensor's number type cannot be used as a weight.
    #[error("`{}`: tensor `{tensor}` must be F32, F16 or BF16, got: {got}", path.display())]
    TensorDtype {
        /// The weights file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// The number type of the tensor.
        got: String,
    },
    /// The tokenizer's files cannot be used.
    #[error("tokenizer `{}` cannot be used: {reason}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// A text could not be split into tokens.
    #[error("text cannot be tokenized: {reason}")]
    Tokenize {
        /// The message of the tokenizer library.
        reason: String,
    },
    /// The device asked for is not there.
    #[error("device `{device}` is not available: {reason}")]
    Device {
        /// The device that was asked for.
        device: String,
        /// The available ones, and the fix.
        reason: String,
    },
    /// libtorch refused an operation.
    #[error("libtorch failed while {action}: {source}")]
    Torch {
        /// What libtorch was doing.
        action: &'static str,
        /// libtorch's message.
        source: tch::TchError,
    },
    /// A new model would replace something.
    #[error("`{}` already exists. Name a new directory, or move the old one away", path.display())]
    Exists {
        /// The path that exists.
        path: PathBuf,
    },
    /// Tensors that `dyad.json` says are one differ.
    #[error(
        "`{}`: tensor `{tensor}` must be the same in the modules {} that share it, and is not. One of the files was changed: write the model again", path.display(), modules.join(" and ")
    )]
    TiedTensors {
        /// `dyad.json`.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// The modules that share it.
        modules: Vec<String>,
    },
    /// The ties in `dyad.json` are not those that the model was written with.
    #[error("`{}`: `sharing` and `shared_tensors` were changed since the model was written: their digest `sharing_sha256` must be {expected}, got: {got}. Put the file back, or write the model again with `dyad-encoder create`", path.display())]
    Sharing {
        /// `dyad.json`.
        path: PathBuf,
        /// Digest of the values in the file.
        expected: String,
        /// Digest in the file.
        got: String,
    },
    /// A weight is NaN or infinite.
    #[error("`{}`: tensor `{tensor}` has a value that is not finite. The weights are damaged: fetch or train the model again", path.display())]
    WeightNotFinite {
        /// The weights file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
    },
    /// A model is not what `dyad.json` says.
    #[error("`{}`: the model's fingerprint must be {expected}, got: {got}. One of its files was changed since the model was written", path.display())]
    Fingerprint {
        /// `dyad.json`.
        path: PathBuf,
        /// Fingerprint as written.
        expected: String,
        /// Fingerprint as computed.
        got: String,
    },
    /// A model does not reproduce its golden vectors.
    #[error(
        "model `{model}` does not reproduce its golden vector of the {tower} text `{text}`: {reason}. Its weights are damaged, or it does not run correctly on this device and dtype; it is not served"
    )]
    Golden {
        /// Name of the model.
        model: String,
        /// `question` or `answer`.
        tower: String,
        /// The golden text.
        text: String,
        /// How far off.
        reason: String,
    },
    /// The network produced NaN or infinity.
    #[error(
        "the model gave a vector that is not finite. Use `--dtype f32` or `bf16`; if it stays, the weights are damaged"
    )]
    NotFinite,
    /// A setting of training holds a value that cannot be.
    #[error("setting `{setting}` must be {expected}, got: {got}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Values that are accepted.
        expected: String,
        /// The value that was given.
        got: String,
    },
    /// A saved optimizer is not one of these tensors and settings.
    #[error(
        "optimizer state `{entry}` must be {expected}, got: {got}. The checkpoint belongs to another model or other optimizer settings"
    )]
    OptimizerState {
        /// Name of the entry.
        entry: String,
        /// Values that are accepted.
        expected: String,
        /// The value that was given.
        got: String,
    },
    /// The gradients of a step hold NaN or infinity.
    #[error(
        "the gradients of step {step} are not finite (their norm is {norm}). Lower the learning rate or clip gradients; `not-finite = \"skip\"` skips such steps"
    )]
    GradientNotFinite {
        /// The number of the step.
        step: u64,
        /// NaN or infinite.
        norm: f64,
    },
    /// The operating system gave no thread.
    #[error("cannot start thread `{name}`: {source}")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// The message of the operating system.
        source: io::Error,
    },
    /// The thread that owns the model ended before the model was open.
    #[error("the thread that opens the model ended early; its panic message is in the log above")]
    ThreadLost,
}

/// Attaches what was being done to a libtorch error.
pub(crate) fn torch(action: &'static str) -> impl FnOnce(tch::TchError) -> Error {
    move |source| Error::Torch { action, source }
}
