//! The objects that a pattern names: `s3://BUCKET/DIR/*.parquet`, or a path of this machine.

use std::path::Path;

use glob::{MatchOptions, Pattern};
use url::Url;

use crate::error::{Error, Result};
use crate::objects::Object;
use crate::remote::{RemoteStore, without_secrets};

/// `*` does not go beyond a directory, `**` does.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The place before the first part of `text` that is a pattern, or that holds the one object that it names; and the
/// objects there that match, by name. There is at least one.
pub async fn find(text: &str) -> Result<(RemoteStore, Vec<Object>)> {
    let refuse = |reason: String| Error::Url {
        url: without_secrets(text),
        reason,
    };
    let query = text.rsplit('/').next().and_then(|last| last.split_once('?'));
    if text.contains("://") && query.is_some_and(|(_, query)| query.contains('=')) {
        return Err(refuse(
            "a URL has no query; credentials belong into the environment".to_owned(),
        ));
    }
    let (scheme, path) = text
        .split_once("://")
        .map_or((None, text), |(scheme, path)| (Some(scheme), path));
    let mut parts: Vec<&str> = path.split('/').collect();
    let last = parts.len().saturating_sub(1);
    let first = parts
        .iter()
        .position(|part| part.contains(['*', '?', '[']))
        .unwrap_or(last);
    let pattern = parts.split_off(first).join("/");
    let place = parts.join("/");
    let url = if let Some(scheme) = scheme {
        format!("{scheme}://{place}")
    } else {
        let place = match place.as_str() {
            "" if path.starts_with('/') => "/",
            "" => ".",
            place => place,
        };
        let absolute = fs_err::canonicalize(Path::new(place))?;
        Url::from_directory_path(&absolute)
            .map_err(|()| refuse("no absolute path".to_owned()))?
            .to_string()
    };
    let pattern = Pattern::new(&pattern).map_err(|error| refuse(error.to_string()))?;
    let remote = RemoteStore::open(&url)?;
    let mut found = remote.list("").await?;
    found.retain(|object| pattern.matches_with(&object.name, OPTIONS));
    if found.is_empty() {
        return Err(refuse(format!("nothing at {} matches `{pattern}`", remote.url())));
    }
    Ok((remote, found))
}
