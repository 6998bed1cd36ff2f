//! `--indexer`: where the page of the HTTP server changes indexes.

use std::collections::BTreeMap;

use axum::http::Uri;
use clap::Args;
use dyad_command::UsageError;

use super::indexes::ServedChoice;

/// The indexers that the page is told of.
#[derive(Debug, Args)]
pub(super) struct PageIndexerOptions {
    /// Address of `dyad-indexer serve --http`, as browsers reach it, such as `http://127.0.0.1:7712`: the page adds,
    /// edits and deletes documents there. The indexer needs `--cors-origin` with the address of this page. Of several
    /// indexes each has its own, with its name before a `=`. May be given several times.
    #[arg(long = "indexer", value_name = "[NAME=]URL", requires = "http")]
    indexers: Vec<String>,
}

impl PageIndexerOptions {
    /// The origin of each indexer, by the name of its index.
    pub(super) fn origins(&self, chosen: &ServedChoice) -> Result<BTreeMap<String, String>, UsageError> {
        let mut origins = BTreeMap::new();
        for argument in &self.indexers {
            let refuse = |expected: &str| UsageError(format!("--indexer: expected {expected}, got `{argument}`"));
            let (name, url) = match argument.split_once('=') {
                Some((name, url)) => (name, url),
                None => match chosen.paths.as_slice() {
                    [only] => (&*only.name, argument.as_str()),
                    several => {
                        return Err(refuse(&format!("NAME=URL, since {} indexes are served", several.len())));
                    }
                },
            };
            if !chosen.paths.iter().any(|index| *index.name == *name) {
                let served: Vec<&str> = chosen.paths.iter().map(|index| &*index.name).collect();
                return Err(refuse(&format!("an index of `{}`", served.join("`, `"))));
            }
            let origin = origin_of(url).ok_or_else(|| {
                refuse("http://HOST:PORT or https://HOST:PORT, without a path, of a name or an IPv4 address")
            })?;
            if origins.insert(name.to_owned(), origin).is_some() {
                return Err(refuse(&format!("one indexer of `{name}`")));
            }
        }
        Ok(origins)
    }
}

/// Scheme, host and port, where a URL has nothing else.
fn origin_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
    // A policy cannot name an address of IPv6.
    let is_of_host = |letter: char| letter.is_ascii_alphanumeric() || "-.:_".contains(letter);
    let has_port = !authority.contains(':') || uri.port_u16().is_some();
    let is_plain = matches!(scheme, "http" | "https")
        && authority.chars().all(is_of_host)
        && has_port
        && uri.path_and_query().is_none_or(|rest| rest.as_str() == "/");
    is_plain.then(|| format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_nothing_that_could_widen_the_pages_policy() {
        assert_eq!(
            origin_of("http://127.0.0.1:7712/").as_deref(),
            Some("http://127.0.0.1:7712")
        );
        assert_eq!(
            origin_of("https://indexer.example").as_deref(),
            Some("https://indexer.example")
        );
        for wrong in [
            "127.0.0.1:7712",
            "ftp://host",
            "http://host/path",
            "http://host/?query",
            "http://user@host",
            "http://host *",
            "http://host; script-src *",
            "http://host;script-src",
            "http://*",
            "http://[::1]:7712",
            "http://host:99999",
            "http://host:",
            "",
        ] {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
    }
}
