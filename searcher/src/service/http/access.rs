//! The check of every request: of its caller, and, where nobody needs a key, of the name by which it calls the server. A page of a stranger
//! could otherwise let a name of its own point to this machine, and read what the browser may read here (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dyad_proto::access::{AccessControl, Needed, Role};
use dyad_proto::service::check_caller;
use tracing::Instrument as _;

use super::page;
use super::refusal::Refusal;

/// What is checked.
#[derive(Debug, Clone)]
pub(super) struct Access {
    control: AccessControl,
    hosts: Arc<[String]>,
}

impl Access {
    pub(super) fn new(control: AccessControl, hosts: Vec<String>) -> Self {
        Self { control, hosts: hosts.into() }
    }

    /// Whether a server without keys may be called by this name: an address, `localhost`, or one that was given.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = headers.get(HOST).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        // HTTP/1.0 has none, and no browser speaks it.
        let Some(host) = host else { return Ok(()) };
        let is_known = |name: &str| {
            name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let without_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        if self.control.has_keys() || is_known(&host) || without_port.is_some_and(|(name, _)| is_known(name)) {
            return Ok(());
        }
        let message = format!(
            "header `Host`: expected an address, `localhost`, or a name that `--http-host` gives, got `{}`",
            host.escape_debug()
        );
        Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "PERMISSION_DENIED", message))
    }
}

/// Checks a request before its route does anything.
pub(super) async fn check(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let (checked, caller) = check_caller(&access.control, needed(&path), &path, &mut request);
    let reply = match caller.map_err(Refusal::from).and_then(|()| access.check_host(request.headers())) {
        Ok(()) => next.run(request).instrument(checked.span().clone()).await,
        Err(refusal) => refusal.into_response(),
    };
    checked.answer(reply)
}

/// What a route needs, where the server has keys. The document of the API and the page, into which a key is typed, are the same everywhere.
fn needed(route: &str) -> Needed {
    match route {
        "/v1/openapi.json" | "/livez" | "/readyz" => Needed::Nothing,
        route if page::has(route) => Needed::Nothing,
        _ => Needed::Role(Role::Read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_keys_is_called_by_addresses_and_known_names() {
        let access = Access::new(AccessControl::default(), vec!["search.example".into()]);
        let allows = |host: &str| access.check_host(&HeaderMap::from_iter([(HOST, host.parse().unwrap())])).is_ok();
        for host in [
            "127.0.0.1",
            "127.0.0.1:7780",
            "[::1]:7780",
            "[::1]",
            "10.0.0.7:1",
            "localhost",
            "LocalHost:80",
            "search.example:7780",
        ] {
            assert!(allows(host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:127", "", "a:b:7"]
        {
            assert!(!allows(host), "{host}");
        }
        assert!(access.check_host(&HeaderMap::new()).is_ok());
    }
}
