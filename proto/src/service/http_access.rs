//! The check of an HTTP request, for routes that answer in a form of their own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use axum::response::Response;
use futures_util::StreamExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tracing::Span;

use super::request_id::{REQUEST_ID, header_value, request_id};
use crate::access::{AccessControl, Caller, Needed};
use crate::trace_context;

/// A request that may be answered: its caller is in its extensions.
#[derive(Debug)]
pub struct Checked {
    id: Arc<str>,
    span: Span,
    place: Option<OwnedSemaphorePermit>,
}

/// The check of every request: of its caller, and, where nobody needs a key, of where it comes from. A page of a stranger in a browser of
/// this machine could otherwise let a name of its own point here and read what the browser may read (DNS rebinding), or send what it likes.
#[derive(Debug, Clone, Default)]
pub struct HttpAccess {
    control: AccessControl,
    hosts: Arc<[String]>,
}

impl HttpAccess {
    /// `hosts`: names by which the server may be called without keys, next to addresses and `localhost`.
    pub fn new(control: AccessControl, hosts: Vec<String>) -> Self {
        Self { control, hosts: hosts.into() }
    }

    /// Whether calls need API keys.
    pub fn has_keys(&self) -> bool {
        self.control.has_keys()
    }

    /// Checks a request for `call`, as the log names it, and puts its caller into it. The id is for the reply, refusal or not:
    /// [`Checked::answer`].
    pub fn check(&self, needed: Needed, call: &str, request: &mut Request) -> (Checked, Result<(), Status>) {
        let id = request_id(request.headers());
        let span = tracing::info_span!("request", %id, call);
        trace_context::continue_from(&span, request.headers());
        let peer = request.extensions().get::<SocketAddr>().copied();
        let caller = Caller::new(peer, Arc::clone(&id));
        let checked = self.control.check(request.headers(), needed, call, caller);
        match checked.and_then(|checked| self.check_host(request.headers()).map(|()| checked)) {
            Ok((caller, place)) => {
                request.extensions_mut().insert(caller);
                (Checked { id, span, place }, Ok(()))
            }
            Err(status) => (Checked { id, span, place: None }, Err(status)),
        }
    }

    /// Whether a server without keys may be called by this name, from this page.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Status> {
        let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        // HTTP/1.0 has no host, and no browser speaks it.
        let (false, Some(host)) = (self.has_keys(), text(HOST)) else { return Ok(()) };
        let is_known = |name: &str| {
            name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let without_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_known(&host) && !without_port.is_some_and(|(name, _)| is_known(name)) {
            let expected = "an address, `localhost`, or a name that `--http-host` gives";
            let message = format!("header `Host`: expected {expected}, got `{}`", host.escape_debug());
            return Err(Status::permission_denied(message));
        }
        // Only browsers send it.
        match text(ORIGIN) {
            Some(origin) if origin.split_once("://").is_none_or(|(_, from)| !from.eq_ignore_ascii_case(&host)) => {
                let message = format!(
                    "header `Origin`: a server without API keys answers no page of another server, got `{}`",
                    origin.escape_debug()
                );
                Err(Status::permission_denied(message))
            }
            _ => Ok(()),
        }
    }
}

impl Checked {
    /// The span of the request, for logs and traces.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The reply with the request's id; it keeps the place that the caller's key has given until it is sent.
    pub fn answer(self, reply: Response) -> Response {
        let Self { id, place, .. } = self;
        let (mut head, body) = reply.into_parts();
        head.headers.insert(REQUEST_ID, header_value(&id));
        let Some(place) = place else { return Response::from_parts(head, body) };
        let body = body.into_data_stream().map(move |piece| {
            let _held = &place;
            piece
        });
        Response::from_parts(head, axum::body::Body::from_stream(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(access: &HttpAccess, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
        access.check_host(&headers).is_ok()
    }

    #[test]
    fn a_server_without_keys_is_called_by_addresses_and_known_names() {
        let access = HttpAccess::new(AccessControl::default(), vec!["search.example".into()]);
        let known = [
            "127.0.0.1",
            "127.0.0.1:7780",
            "[::1]:7780",
            "[::1]",
            "10.0.0.7:1",
            "localhost",
            "LocalHost:80",
            "search.example:7780",
        ];
        for host in known {
            assert!(allows(&access, host, None), "{host}");
            assert!(allows(&access, host, Some(&format!("http://{host}"))), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:127", "", "a:b:7"]
        {
            assert!(!allows(&access, host, None), "{host}");
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:7780", "http://localhost", ""] {
            assert!(!allows(&access, "localhost:7780", Some(origin)), "{origin}");
        }
        assert!(access.check_host(&HeaderMap::new()).is_ok());
    }
}
