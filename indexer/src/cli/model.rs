//! An encoder service that a command starts for itself, and that ends with it, however it ends.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;

/// The program, next to this one or on the `PATH`.
const PROGRAM: &str = "dyad-encoder";
/// How long a model may take to be opened.
const PATIENCE: Duration = Duration::from_mins(10);
/// What the service prints before its address.
const LISTENING: &str = "listening on ";

#[derive(Debug, clap::Args)]
pub(super) struct ModelArguments {
    /// Model directory: its answer tower embeds, in a `dyad-encoder serve` that this command starts and ends
    #[arg(long, value_name = "DIR", conflicts_with = "encoder")]
    model: Option<PathBuf>,
    /// Where `--model` computes: `cpu` or `cuda:N` [default: cpu]
    #[arg(long, value_name = "DEVICE", requires = "model")]
    device: Option<String>,
    /// Number type that `--model` computes in: f32, bf16, f16 or int8 [default: f32]
    #[arg(long, value_name = "DTYPE", requires = "model")]
    dtype: Option<String>,
    /// Text before every question, in place of what the files of `--model` say; E5 needs `query: `, and has it in no
    /// file
    #[arg(long, value_name = "TEXT", requires = "model", allow_hyphen_values = true)]
    question_prompt: Option<String>,
    /// Text before every document, in the same way; E5 needs `passage: `
    #[arg(long, value_name = "TEXT", requires = "model", allow_hyphen_values = true)]
    answer_prompt: Option<String>,
    /// A prompt of `config_sentence_transformers.json` of `--model`, by its name, in place of `--question-prompt`
    #[arg(long, value_name = "NAME", requires = "model", conflicts_with = "question_prompt")]
    question_prompt_name: Option<String>,
    /// The same for documents, in place of `--answer-prompt`
    #[arg(long, value_name = "NAME", requires = "model", conflicts_with = "answer_prompt")]
    answer_prompt_name: Option<String>,
    /// How the files of `--model` are read for a tower without one of these: `dyad` or `sentence-transformers`
    /// [default: dyad]
    #[arg(long, value_name = "READING", requires = "model")]
    prompts: Option<String>,
    /// The encoder's program [default: `dyad-encoder` next to this one, or on the PATH]
    #[arg(long, value_name = "PATH", requires = "model")]
    encoder_program: Option<PathBuf>,
}

/// A service that runs.
#[derive(Debug)]
pub(super) struct OwnEncoder {
    child: Child,
    url: String,
}

impl ModelArguments {
    /// Starts the service, where a model is given.
    pub(super) fn start(&self) -> anyhow::Result<Option<OwnEncoder>> {
        let Some(model) = &self.model else { return Ok(None) };
        let program = self.encoder_program.clone().unwrap_or_else(found);
        let mut command = Command::new(&program);
        command
            .arg("serve")
            .arg("--model")
            .arg(model)
            .args(["--listen", "127.0.0.1:0", "--while-input"]);
        for (option, value) in [
            ("--device", &self.device),
            ("--dtype", &self.dtype),
            ("--question-prompt", &self.question_prompt),
            ("--answer-prompt", &self.answer_prompt),
            ("--question-prompt-name", &self.question_prompt_name),
            ("--answer-prompt-name", &self.answer_prompt_name),
            ("--prompts", &self.prompts),
        ] {
            // A text may begin as an option does.
            command.args(value.iter().map(|value| format!("{option}={value}")));
        }
        // Its input ends with this process, whatever ends that.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = program.display();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start `{name}`. Name it with `--encoder-program`"))?;
        let mut started = OwnEncoder {
            child,
            url: String::new(),
        };
        let output = started.child.stdout.take().context("the encoder's output is piped")?;
        let (tell, told) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("encoder-output".to_owned())
            .spawn(move || {
                let mut line = String::new();
                let read = BufReader::new(output).read_line(&mut line);
                // Nobody waits any more where the patience was over.
                drop(tell.send(read.map(|_| line)));
            })?;
        let line = told
            .recv_timeout(PATIENCE)
            .with_context(|| format!("`{name}` does not listen after {PATIENCE:?}"))??;
        let address = line.strip_prefix(LISTENING).map(str::trim);
        let address = address
            .with_context(|| format!("`{name}` does not serve `{}`; see what it says above", model.display()))?;
        started.url = format!("http://{address}");
        Ok(Some(started))
    }
}

impl OwnEncoder {
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for OwnEncoder {
    fn drop(&mut self) {
        // It has no work that could be lost.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn found() -> PathBuf {
    let next_to = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name(PROGRAM));
    next_to
        .filter(|program| program.is_file())
        .unwrap_or_else(|| Path::new(PROGRAM).to_owned())
}
