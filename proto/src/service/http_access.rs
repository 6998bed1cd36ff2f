//! The check of an HTTP request, for routes that answer in a form of their own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, Uri, Version};
use tonic::Status;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::checked::Checked;
use super::request_id::REQUEST_ID;
use crate::access::{AccessControl, Needed};

/// The check of every request: of its caller, and, where nobody needs a key, of where it comes from. A page of a
/// stranger in a browser of this machine could otherwise let a name of its own point here and read what the browser may
/// read (DNS rebinding), or send what it likes.
#[derive(Debug, Clone, Default)]
pub struct HttpAccess {
    control: AccessControl,
    hosts: Arc<[String]>,
    origins: Arc<[CorsOrigin]>,
}

/// Milliseconds until a refused request may be tried again.
const RETRY_AFTER_MS: &str = "retry-after-ms";
/// How long a browser may keep what it was told of other servers' pages.
const PREFLIGHT_AGE: Duration = Duration::from_hours(1);

/// Whose pages may call a server from a browser (CORS): `https://app.example`, or `*` for everybody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsOrigin(HeaderValue);

impl CorsOrigin {
    fn is_any(&self) -> bool {
        self.0 == "*"
    }

    fn allows(&self, origin: &str) -> bool {
        self.is_any() || self.0.as_bytes().eq_ignore_ascii_case(origin.as_bytes())
    }
}

impl std::str::FromStr for CorsOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // As browsers send it: in small letters, without a port that goes without saying.
        let origin = text.to_ascii_lowercase();
        let text = match origin.split_once("://") {
            Some(("http", _)) => origin.strip_suffix(":80").unwrap_or(&origin),
            Some(("https", _)) => origin.strip_suffix(":443").unwrap_or(&origin),
            _ => &origin,
        };
        let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
            let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@', '*']);
            matches!(scheme, "http" | "https") && is_host && text.parse::<Uri>().is_ok()
        });
        if text != "*" && !is_origin {
            return Err(format!(
                "expected an origin as browsers send it, `https://app.example` or `http://localhost:3000`, or `*` for all, got `{text}`"
            ));
        }
        HeaderValue::from_str(text).map(Self).map_err(|error| error.to_string())
    }
}

impl HttpAccess {
    /// `hosts`: names by which the server may be called without keys, next to addresses and `localhost`. `origins`:
    /// whose pages may call it.
    pub fn new(control: AccessControl, hosts: Vec<String>, origins: Vec<CorsOrigin>) -> Self {
        Self {
            control,
            hosts: hosts.into(),
            origins: origins.into(),
        }
    }

    /// What tells browsers which other servers' pages may call this one, and read its replies; it answers their
    /// preflight requests, which bring no key. Around all other layers; none where no origin is named.
    pub fn cors(&self) -> Option<CorsLayer> {
        if self.origins.is_empty() {
            return None;
        }
        let origins = if self.origins.iter().any(CorsOrigin::is_any) {
            if !self.has_keys() {
                tracing::warn!(
                    "`--cors-origin *` without API keys: any page that somebody opens in a browser who can reach this server can call it. \
                     Name the origins, or give `--keys`"
                );
            }
            AllowOrigin::any()
        } else {
            AllowOrigin::list(self.origins.iter().map(|origin| origin.0.clone()))
        };
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST])
            // Keys, deadlines, and what clients of other makers add.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers([RETRY_AFTER, HeaderName::from_static(RETRY_AFTER_MS), REQUEST_ID])
            .max_age(PREFLIGHT_AGE);
        Some(layer)
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
        self.check_origin(request)
    }

    /// Whether a request is from no page, or from one of this server, or of one that may call it. With keys, routes ask
    /// for it that have to: other pages have no key.
    pub fn check_origin(&self, request: &Request) -> Result<(), Status> {
        // Only browsers send it.
        let Some(origin) = request.headers().get(ORIGIN) else {
            return Ok(());
        };
        let origin = String::from_utf8_lossy(origin.as_bytes());
        let host = host_of(request)?.unwrap_or_default();
        let is_own = origin
            .split_once("://")
            .is_some_and(|(_, from)| from.eq_ignore_ascii_case(&host));
        if is_own || self.origins.iter().any(|allowed| allowed.allows(&origin)) {
            return Ok(());
        }
        let server = if self.has_keys() {
            "this route"
        } else {
            "a server without API keys"
        };
        Err(Status::permission_denied(format!(
            "header `Origin`: {server} answers no page of another server that `--cors-origin` does not name, got `{}`",
            origin.escape_debug()
        )))
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
            let access = HttpAccess::new(access, Vec::new(), Vec::new());
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
    fn pages_of_named_origins_may_call_and_names_are_checked() {
        let origins = ["https://app.example", "http://localhost:3000"].map(|origin| origin.parse().unwrap());
        let access = HttpAccess::new(AccessControl::default(), Vec::new(), origins.into());
        for (origin, expected) in [
            ("https://app.example", true),
            ("https://App.Example", true),
            ("http://localhost:3000", true),
            ("http://app.example", false),
            ("https://app.example.evil.example", false),
            ("null", false),
        ] {
            assert_eq!(allows(&access, "localhost:7780", Some(origin)), expected, "{origin}");
        }
        assert!(
            !allows(&access, "evil.example", Some("https://app.example")),
            "by an address"
        );
        let all = HttpAccess::new(AccessControl::default(), Vec::new(), vec!["*".parse().unwrap()]);
        assert!(allows(&all, "localhost", Some("https://any.example")));
        let same = ["https://app.example", "https://App.Example:443"].map(str::parse::<CorsOrigin>);
        assert_eq!(same[0], same[1]);
        assert!(HttpAccess::default().cors().is_none());
        for wrong in [
            "app.example",
            "https://app.example/",
            "https://",
            "ftp://a",
            "https://*.example",
            "",
            "null",
        ] {
            assert!(wrong.parse::<CorsOrigin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_without_keys_is_called_by_addresses_and_known_names() {
        let access = HttpAccess::new(AccessControl::default(), vec!["search.example".into()], Vec::new());
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
