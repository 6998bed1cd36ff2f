//! `dyad-searcher keys create|list|revoke`: the file of API keys of all servers.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use dyad_command::UsageError;
use dyad_filter::syntax;
use dyad_proto::access::{KeyFile, KeyFileError, KeyRecord, NewKey, Role};
use fs_err::os::unix::fs::OpenOptionsExt as _;

use super::date::date;

/// Create, list and revoke the API keys of searchers, encoder services and indexer services.
#[derive(Debug, Args)]
pub(super) struct KeysOptions {
    /// File of the keys, which servers read with `--keys`. It has no secrets.
    #[arg(
        long,
        value_name = "FILE",
        env = "DYAD_KEYS",
        global = true,
        default_value = "keys.json"
    )]
    keys: PathBuf,
    #[command(subcommand)]
    action: KeysAction,
}

#[derive(Debug, Subcommand)]
enum KeysAction {
    /// Create a key, and print it or write it to a file. It is told once: the file of keys has its hash alone.
    Create(Create),
    /// List the keys.
    List,
    /// Revoke a key: running servers refuse it within seconds.
    Revoke {
        /// The id of the key, or its name where no other key has it.
        key: String,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name, for people: whose key it is.
    #[arg(long)]
    name: String,
    /// What it may do: read (search, embed, list, status), write (and change documents), admin (and reload, roll back,
    /// verify).
    #[arg(long, value_enum, default_value_t = Role::Read)]
    role: Role,
    /// An index that its holder may name; may be given several times [default: all].
    #[arg(long = "index", value_name = "NAME")]
    indexes: Vec<String>,
    /// Only documents that match exist for its holder, in every call; a condition as `query --filter` takes it. May be
    /// given several times: all must match.
    #[arg(long = "filter", value_name = "CONDITION", value_parser = syntax::parse)]
    filters: Vec<dyad_proto::v1::Filter>,
    /// Calls that its holder may have under way [default: any number].
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Write the key to this new file, which its owner alone can read, and not to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl KeysOptions {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (path, mut out) = (&self.keys, std::io::stdout().lock());
        match self.action {
            KeysAction::Create(Create {
                name,
                role,
                indexes,
                filters,
                concurrency,
                out: file,
            }) => {
                // Before the key exists: one that cannot be told is of no use.
                let file = file.map(new_file).transpose()?;
                let new = NewKey {
                    name,
                    role,
                    indexes,
                    filter: syntax::all(filters),
                    concurrency,
                };
                let key = KeyFile::change(path, |file| file.create(new)).map_err(|error| match error {
                    KeyFileError::New(reason) => UsageError(reason).into(),
                    error => anyhow::Error::from(error),
                })?;
                match file {
                    Some(mut file) => writeln!(file, "{key}")?,
                    None => writeln!(out, "{key}")?,
                }
            }
            KeysAction::List => {
                let file = KeyFile::read(path)?;
                let width = file
                    .keys
                    .iter()
                    .map(|key| key.name.chars().count())
                    .max()
                    .unwrap_or(0)
                    .max(4);
                writeln!(
                    out,
                    "{:<12}  {:<width$}  {:<5}  {:<23}  restrictions",
                    "id", "name", "role", "created"
                )?;
                for key in &file.keys {
                    let (role, created) = (key.role.to_string(), date(key.created_unix_s));
                    writeln!(
                        out,
                        "{:<12}  {:<width$}  {role:<5}  {created:<23}  {}",
                        key.id,
                        key.name,
                        restrictions(key)
                    )?;
                }
            }
            KeysAction::Revoke { key } => {
                let KeyRecord { id, name, .. } = KeyFile::change(path, |file| file.revoke(path, &key).cloned())?;
                writeln!(out, "revoked {id} ({name})")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A new file that its owner alone can read.
fn new_file(path: PathBuf) -> std::io::Result<fs_err::File> {
    fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// What a key's holder may not do.
fn restrictions(key: &KeyRecord) -> String {
    let revoked = key.revoked_unix_s.map(|at| format!("REVOKED {}", date(at)));
    let indexes = (!key.indexes.is_empty()).then(|| format!("indexes {}", key.indexes.join(", ")));
    let filter = key.filter.as_ref().map(|filter| format!("filter {filter}"));
    let concurrency = key.concurrency.map(|most| format!("{most} calls at once"));
    let all: Vec<String> = [revoked, indexes, filter, concurrency].into_iter().flatten().collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join("; ")
    }
}
