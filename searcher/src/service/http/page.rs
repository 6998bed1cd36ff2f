//! The page at `/`: plain HTML, CSS and JavaScript from `searcher/page`, which is part of the program.
//!
//! It is only files, and the addresses of other programs: what it shows, it asks of the routes of `/v1` as any other
//! client, and what it changes, of the indexers that it was told of. The headers forbid it scripts and styles of its
//! own text, and requests to elsewhere, so that markup that slipped through could do nothing.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::InvalidHeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use crc32c::crc32c;
use dyad_proto::access::Caller;
use serde_json::{Value, json};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal, $name:literal, $kind:ident;)*) => {
        /// Path, content type and bytes of every file.
        const FILES: &[(&str, &str, &[u8])] =
            &[$(($path, $kind, include_bytes!(concat!("../../../page/", $name)))),*];
    };
}

files! {
    "/", "index.html", HTML;
    "/page/hits.css", "hits.css", CSS;
    "/page/page.css", "page.css", CSS;
    "/page/tables.css", "tables.css", CSS;
    "/page/icon.svg", "icon.svg", IMAGE;
    "/page/main.js", "main.js", SCRIPT;
    "/page/api.js", "api.js", SCRIPT;
    "/page/changes.js", "changes.js", SCRIPT;
    "/page/columns.js", "columns.js", SCRIPT;
    "/page/commands.js", "commands.js", SCRIPT;
    "/page/documents.js", "documents.js", SCRIPT;
    "/page/dom.js", "dom.js", SCRIPT;
    "/page/editor.js", "editor.js", SCRIPT;
    "/page/facts.js", "facts.js", SCRIPT;
    "/page/fields.js", "fields.js", SCRIPT;
    "/page/filters.js", "filters.js", SCRIPT;
    "/page/judged.js", "judged.js", SCRIPT;
    "/page/leaves.js", "leaves.js", SCRIPT;
    "/page/measures.js", "measures.js", SCRIPT;
    "/page/member_text.js", "member_text.js", SCRIPT;
    "/page/metadata.js", "metadata.js", SCRIPT;
    "/page/operators.js", "operators.js", SCRIPT;
    "/page/options.js", "options.js", SCRIPT;
    "/page/pages.js", "pages.js", SCRIPT;
    "/page/parallel.js", "parallel.js", SCRIPT;
    "/page/places.js", "places.js", SCRIPT;
    "/page/plot.js", "plot.js", SCRIPT;
    "/page/python.js", "python.js", SCRIPT;
    "/page/quality.js", "quality.js", SCRIPT;
    "/page/recall.js", "recall.js", SCRIPT;
    "/page/request.js", "request.js", SCRIPT;
    "/page/scores.js", "scores.js", SCRIPT;
    "/page/search.js", "search.js", SCRIPT;
    "/page/settings.js", "settings.js", SCRIPT;
    "/page/snippets.js", "snippets.js", SCRIPT;
    "/page/state.js", "state.js", SCRIPT;
    "/page/status.js", "status.js", SCRIPT;
    "/page/traffic.js", "traffic.js", SCRIPT;
}

/// What the page is told of other programs.
#[derive(Debug, Clone, Default)]
pub struct PagePlaces {
    /// The port of gRPC on this machine.
    pub grpc_port: Option<u16>,
    /// Origins of `dyad-indexer serve --http`, as browsers reach them, by the names of the indexes that they change.
    pub indexers: BTreeMap<String, String>,
}

impl PagePlaces {
    /// As the page reads it: of the indexes that its caller may name.
    pub(super) fn told_to(&self, caller: &Caller) -> Value {
        let allowed = |(name, _): &(&String, &String)| caller.allows_index(name);
        let indexers: BTreeMap<&String, &String> = self.indexers.iter().filter(allowed).collect();
        json!({"grpc_port": self.grpc_port, "indexers": indexers})
    }

    /// The page's policy: requests go to its own server, and to these indexers.
    fn policy(&self) -> String {
        let mut connected = "'self'".to_owned();
        for origin in self.indexers.values() {
            connected.push(' ');
            connected.push_str(origin);
        }
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src {connected}; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )
    }
}

/// Headers of every file, next to the policy.
const HEADERS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // It is asked for again, so that the page of a new release is never mixed with files of the old one.
    (CACHE_CONTROL, "no-cache"),
];

/// Whether a path is one of the page's.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}

/// A file of the page, with its headers.
#[derive(Debug, Clone)]
struct PageFile {
    kind: HeaderValue,
    bytes: Bytes,
    /// A hash of its content.
    tag: HeaderValue,
    policy: HeaderValue,
}

impl PageFile {
    fn new(kind: HeaderValue, bytes: Bytes, policy: &HeaderValue) -> Result<Self, InvalidHeaderValue> {
        Ok(Self {
            kind,
            tag: HeaderValue::from_str(&format!("\"{:08x}-{}\"", crc32c(&bytes), bytes.len()))?,
            bytes,
            policy: policy.clone(),
        })
    }

    fn reply(self, asked: &HeaderMap) -> Response {
        let is_known = asked.get(IF_NONE_MATCH) == Some(&self.tag);
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.bytes.into_response()
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(CONTENT_SECURITY_POLICY, self.policy);
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(ETAG, self.tag);
        response
    }
}

/// The routes of the page. Fails where an origin is no text of a header.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(places: &PagePlaces) -> Result<Router<S>, InvalidHeaderValue> {
    let policy = HeaderValue::from_str(&places.policy())?;
    let mut router = Router::new();
    for (path, kind, bytes) in FILES {
        let file = PageFile::new(HeaderValue::from_static(kind), Bytes::from_static(bytes), &policy)?;
        router = router.route(path, get(|asked: HeaderMap| async move { file.reply(&asked) }));
    }
    Ok(router)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        // Pictures for the README are in a folder.
        let files = fs_err::read_dir(folder).unwrap().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        let mut served: Vec<&str> = FILES
            .iter()
            .map(|(path, ..)| path.trim_start_matches("/page/"))
            .collect();
        served
            .iter_mut()
            .filter(|name| **name == "/")
            .for_each(|name| *name = "index.html");
        served.sort_unstable();
        assert_eq!(served, names);
    }

    #[test]
    fn no_file_has_a_script_or_style_in_its_text_or_names_another_server() {
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ] {
                assert!(!text.contains(word), "{path}: {word}");
            }
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !elsewhere.contains("http://") && !elsewhere.contains("https://"),
                "{path}"
            );
            assert!(
                !text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick="),
                "{path}"
            );
            assert!(text.lines().count() < 400, "{path}");
        }
    }
}
