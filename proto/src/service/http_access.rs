//! The check of an HTTP request, for routes that answer in a form of their own.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderValue, Version};
use tonic::Status;

use super::checked::Checked;
use crate::access::{AccessControl, Needed};

/// The check of every request: of its caller, and, where nobody needs a key, of where it comes from. A page of a
/// stranger in a browser of this machine could otherwise let a name of its own point here and read what the browser may
/// read (DNS rebinding), or send what it likes.
#[derive(Debug, Clone, Default)]
pub struct HttpAccess {
    control: AccessControl,
    hosts: Arc<[String]>,
}

impl HttpAccess {
    /// `hosts`: names by which the server may be called without keys, next to addresses and `localhost`.
    pub fn new(control: AccessControl, hosts: Vec<String>) -> Self {
        Self {
            control,
            hosts: hosts.into(),
        }
    }

    /// Whether calls need API keys.
    pub fn has_keys(&self) -> bool {
        self.control.has_keys()
    }

    /// Checks a request for `call`, as the log names it, and puts its caller into it. The id is for the reply, refusal
    /// or not: [`Checked::answer`].
    pub fn check(&self, needed: Needed, call: &str, request: &mut Request) -> (Checked, Result<(), Status>) {
        let (checked, allowed) = Checked::open(&self.control, needed, call, request);
        (checked, allowed.and_then(|()| self.check_host(request)))
    }

    /// Whether the request says once which server it is for, and a server without keys may be called by this name, from
    /// this page.
    fn check_host(&self, request: &Request) -> Result<(), Status> {
        let headers = request.headers();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let host = host_of(request)?;
        let (false, Some(host)) = (self.has_keys(), host) else {
            return Ok(());
        };
        let is_known = |name: &str| {
            name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let without_port = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_known(&host) && !without_port.is_some_and(|(name, _)| is_known(name)) {
            let expected = "an address, `localhost`, or a name that `--http-host` gives";
            let message = format!("header `Host`: expected {expected}, got `{}`", host.escape_debug());
            return Err(Status::permission_denied(message));
        }
        // Only browsers send it.
        match headers.get(ORIGIN).map(text) {
            Some(origin)
                if origin
                    .split_once("://")
                    .is_none_or(|(_, from)| !from.eq_ignore_ascii_case(&host)) =>
            {
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

/// The host that a request is for, as RFC 9112 has it: one header `Host`, and where the request's target is a whole
/// URI, its authority. None for HTTP/1.0, which has no host, and which no browser speaks.
fn host_of(request: &Request) -> Result<Option<String>, Status> {
    let refused = |message: String| Err(Status::invalid_argument(format!("header `Host`: {message}")));
    let mut hosts = request.headers().get_all(HOST).iter();
    let (first, second) = (
        hosts
            .next()
            .map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned()),
        hosts.next(),
    );
    if second.is_some() {
        return refused("expected one, got several".to_owned());
    }
    match (first, request.uri().authority()) {
        (Some(host), Some(target)) if !host.eq_ignore_ascii_case(target.as_str()) => refused(format!(
            "expected `{}` as in the request's target, got `{}`",
            target,
            host.escape_debug()
        )),
        (Some(host), _) => Ok(Some(host)),
        // HTTP/2 has no such header.
        (None, Some(target)) if request.version() != Version::HTTP_11 => Ok(Some(target.to_string())),
        (None, None) if request.version() < Version::HTTP_11 => Ok(None),
        (None, _) => refused("expected one, got none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::access::{ApiKeys, KeyFile};

    fn allows(access: &HttpAccess, host: &str, origin: Option<&str>) -> bool {
        let mut request = request("/", &[host]);
        origin.map(|origin| request.headers_mut().insert(ORIGIN, origin.parse().unwrap()));
        access.check_host(&request).is_ok()
    }

    fn request(target: &str, hosts: &[&str]) -> Request {
        let mut request = Request::new(axum::body::Body::empty());
        *request.uri_mut() = target.parse().unwrap();
        for host in hosts {
            request.headers_mut().append(HOST, host.parse().unwrap());
        }
        request
    }

    #[test]
    fn a_request_says_once_which_server_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys.json");
        KeyFile::change(&keys, |_| Ok(())).unwrap();
        let with_keys = AccessControl::new(Some(Arc::new(ApiKeys::open(&keys).unwrap())), None);
        for access in [AccessControl::default(), with_keys] {
            let access = HttpAccess::new(access, Vec::new());
            let code = |request: &Request| {
                access
                    .check_host(request)
                    .map_or_else(|status| status.code(), |()| Code::Ok)
            };
            for (target, hosts) in [
                ("/v1/search", &[][..]),
                ("/v1/search", &["localhost", "localhost"]),
                ("/v1/search", &["localhost", "evil.example"]),
                ("http://evil.example/v1/search", &["localhost"]),
                ("http://localhost/v1/search", &["evil.example"]),
                ("http://localhost:81/v1/search", &["localhost:80"]),
                ("http://localhost/v1/search", &[]),
            ] {
                assert_eq!(
                    code(&request(target, hosts)),
                    Code::InvalidArgument,
                    "{target} {hosts:?}"
                );
            }
            for (target, hosts) in [("/", &["localhost"][..]), ("http://localhost:80/", &["LocalHost:80"])] {
                assert_eq!(code(&request(target, hosts)), Code::Ok, "{target} {hosts:?}");
            }
            let foreign = code(&request("http://evil.example/", &["evil.example"]));
            assert_eq!(
                foreign,
                if access.has_keys() {
                    Code::Ok
                } else {
                    Code::PermissionDenied
                }
            );
            let mut old = request("/", &[]);
            *old.version_mut() = Version::HTTP_10;
            assert_eq!(code(&old), Code::Ok);
            let mut second = request("http://localhost/", &[]);
            *second.version_mut() = Version::HTTP_2;
            assert_eq!(code(&second), Code::Ok);
        }
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
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:127",
            "",
            "a:b:7",
        ] {
            assert!(!allows(&access, host, None), "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:7780",
            "http://localhost",
            "",
        ] {
            assert!(!allows(&access, "localhost:7780", Some(origin)), "{origin}");
        }
    }
}
