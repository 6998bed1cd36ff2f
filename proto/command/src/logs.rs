//! Logs to stderr: text, or JSON with `DYAD_LOG_FORMAT=json`. What is logged is a filter, by default that of
//! `RUST_LOG`.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, reload};

#[cfg(feature = "otlp")]
use crate::traces;

/// The variable that holds the default filter.
pub(crate) const VARIABLE: &str = EnvFilter::DEFAULT_ENV;
/// Where there is none.
const DEFAULT: &str = "info,tantivy=warn,hnsw_rs=warn,object_store=warn";

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;
/// Replaces the filter of this process's logs.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

/// Starts logging. A second call changes nothing.
pub(crate) fn init_logs(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let colours = std::io::stderr().is_terminal();
    let json = std::env::var_os("DYAD_LOG_FORMAT").is_some_and(|format| format == "json");
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    let lines = if json {
        lines.json().boxed()
    } else {
        lines.with_target(false).boxed()
    };
    let (filter, handle) = reload::Layer::new(filter);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    #[cfg(feature = "otlp")]
    let (subscriber, failed) = match traces::layer() {
        Ok(layer) => (subscriber.with(layer), None),
        Err(error) => (subscriber.with(None), Some(error)),
    };
    // It fails only where logging has been started already.
    if subscriber.try_init().is_ok() {
        let _ = SET_FILTER.set(Box::new(move |filter| {
            handle.reload(filter).map_err(|error| error.to_string())
        }));
    }
    #[cfg(feature = "otlp")]
    if let Some(error) = failed {
        tracing::error!("traces are not exported: {error}. Check the `OTEL_EXPORTER_OTLP_` variables");
    }
}

/// Sends what is left of the traces, at the end of the process.
pub(crate) fn end_traces() {
    #[cfg(feature = "otlp")]
    traces::flush();
}

/// Changes what is logged.
pub(crate) fn set_filter(filter: &str) -> Result<(), String> {
    check_filter(filter)?;
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    SET_FILTER.get().map_or(Ok(()), |set| set(filter))
}

/// Whether a filter can be used. A word alone has to be a level: as the name of a program's part, which it could be, a
/// misspelt level would switch off all logs, errors too.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    let is_alone = |word: &&str| !word.is_empty() && !word.contains(['=', '[']);
    let words = filter.split(',').map(str::trim).filter(is_alone);
    match words.into_iter().find(|word| word.parse::<LevelFilter>().is_err()) {
        Some(word) => Err(format!(
            "expected a level (off, error, warn, info, debug or trace) or TARGET=LEVEL, got `{word}`. For a part of the program: `{word}=debug`"
        )),
        None => Ok(()),
    }
}

/// The filter of `RUST_LOG` where it holds a usable one, else ours.
pub(crate) fn default_filter() -> &'static str {
    of_environment().unwrap_or(DEFAULT)
}

/// Whether the default filter is that of `RUST_LOG`.
pub(crate) fn is_from_environment() -> bool {
    of_environment().is_some()
}

fn of_environment() -> Option<&'static str> {
    static FILTER: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = std::env::var_os(VARIABLE)?.into_string().ok()?;
        check_filter(&text).is_ok().then_some(text)
    };
    FILTER.get_or_init(read).as_deref()
}

#[cfg(test)]
mod tests {
    use super::check_filter;

    #[test]
    fn a_misspelt_level_is_refused() {
        for filter in [
            "info",
            "DEBUG",
            "off",
            "warn,dyad_searcher=debug",
            "dyad_index[search]=trace",
            "",
        ] {
            assert_eq!(check_filter(filter), Ok(()), "{filter}");
        }
        for filter in ["debugg", "info,dyad_searcher", "dyad_searcher=loud"] {
            assert!(check_filter(filter).is_err(), "{filter}");
        }
        let said = check_filter("debugg!!").unwrap_err();
        assert!(said.contains("got `debugg!!`. For a part"), "{said}");
    }
}
