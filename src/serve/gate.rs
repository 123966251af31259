//! Who may ask: the name in `Host`, where a browser's request comes from, and the token.
//!
//! A page that somebody else shows to a browser on this host must not read what we serve: neither by asking us directly
//! (we answer no other origin) nor by a name of its own that points at us (DNS rebinding: the name is refused).

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use axum::http::{HeaderMap, Method, StatusCode, header};

/// Bytes of a made token: nobody guesses 256 bits.
const TOKEN_BYTES: usize = 32;
/// Shortest token that is taken from a file, characters.
const TOKEN_MIN: usize = 16;
/// Longest, characters.
pub const TOKEN_MAX: usize = 1024;
pub(super) const COOKIE: &str = "tccc_token";

/// How the origin of a page begins that came through a TLS proxy.
const TLS_ORIGIN: &str = "https://";

/// Whether the browser that asks came through a TLS proxy.
pub(super) fn is_over_tls(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(TLS_ORIGIN.as_bytes()))
}

/// What whoever asks must know.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Does not show it: a token belongs into no log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A new one from the kernel's source of randomness.
    ///
    /// Errors: there is none.
    pub fn make() -> Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).context("make a token")?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The one that a text holds: letters, digits and `-._~+/=`, with blanks around them.
    ///
    /// Errors: another character, or too short or long; in words.
    pub fn parse(text: &str) -> Result<Token, String> {
        let token = text.trim();
        let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c));
        if !(is_plain && (TOKEN_MIN..=TOKEN_MAX).contains(&token.len())) {
            return Err(format!("expected {TOKEN_MIN} to {TOKEN_MAX} letters, digits and signs of \"-._~+/=\""));
        }
        Ok(Token(token.to_owned()))
    }

    /// Its characters, to be shown once.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell how much is right.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == given.len() && differing == 0
    }
}

/// Why a request is refused, in a sentence for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub StatusCode, pub &'static str);

const WRONG_HOST: Refusal = Refusal(
    StatusCode::MISDIRECTED_REQUEST,
    "this server does not answer to that name: use its address, or start it with `--host NAME`",
);
const WRONG_ORIGIN: Refusal = Refusal(StatusCode::FORBIDDEN, "pages of other origins may not ask this server");
const WRONG_METHOD: Refusal = Refusal(StatusCode::METHOD_NOT_ALLOWED, "this server answers GET, HEAD and POST");
const NO_TOKEN: Refusal = Refusal(
    StatusCode::UNAUTHORIZED,
    "a token is needed: `Authorization: Bearer TOKEN`, with the token that `tccc serve` printed when it started",
);
const WRONG_TOKEN: Refusal =
    Refusal(StatusCode::UNAUTHORIZED, "the token is wrong: `tccc serve` printed the right one when it started");

#[derive(Debug)]
pub(super) struct Gate {
    is_loopback: bool,
    names: Vec<String>,
    token: Option<Token>,
}

impl Gate {
    /// For a server at this address, which also goes by these names.
    pub(super) fn new(address: SocketAddr, names: Vec<String>, token: Option<Token>) -> Gate {
        Gate { is_loopback: address.ip().is_loopback(), names, token }
    }

    /// Whether a request may be answered; `is_open` when what it asks for is no secret.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap, is_open: bool) -> Result<(), Refusal> {
        if ![Method::GET, Method::HEAD, Method::POST].contains(method) {
            return Err(WRONG_METHOD);
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).filter(|_| headers.get_all(header::HOST).iter().count() == 1);
        if !host.is_some_and(|host| self.goes_by(host)) {
            return Err(WRONG_HOST);
        }
        let is_foreign = |site: &str| site != "same-origin" && site != "none";
        // A link from elsewhere may open the page itself, which says nothing before it asks on its own.
        let may_be_foreign = is_open && *method != Method::POST;
        if headers.get("sec-fetch-site").is_some_and(|site| site.to_str().is_ok_and(is_foreign)) && !may_be_foreign {
            return Err(WRONG_ORIGIN);
        }
        // Of a page that came through a TLS proxy it is https.
        let is_own = |origin: &str| ["http://", TLS_ORIGIN].iter().any(|scheme| origin.strip_prefix(scheme) == host);
        if headers.get(header::ORIGIN).is_some_and(|origin| !origin.to_str().is_ok_and(is_own)) {
            return Err(WRONG_ORIGIN);
        }
        if is_open { Ok(()) } else { self.check_token(headers) }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        match given_token(headers) {
            None => Err(NO_TOKEN),
            Some(given) if token.is(given) => Ok(()),
            Some(_) => Err(WRONG_TOKEN),
        }
    }

    /// Whether we are meant by a `Host`: an address cannot be rebound, a name can.
    fn goes_by(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_listed = |name: &str| self.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        match address {
            Ok(address) => !self.is_loopback || address.is_loopback() || is_listed(name),
            Err(_) => name.eq_ignore_ascii_case("localhost") || is_listed(name),
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// From the header, else from the cookie.
fn given_token(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    bearer.map(|(_, token)| token.trim()).or_else(|| cookies.find(|(name, _)| *name == COOKIE).map(|(_, token)| token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0123456789abcdef";

    fn check(gate: &Gate, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        gate.check(&Method::GET, &map, false)
    }

    fn local() -> Gate {
        Gate::new("127.0.0.1:9444".parse().unwrap(), vec!["tower".into()], None)
    }

    fn public() -> Gate {
        Gate::new("0.0.0.0:9444".parse().unwrap(), vec!["tower".into()], Some(Token::parse(RIGHT).unwrap()))
    }

    #[test]
    fn names_that_somebody_could_point_at_us_are_refused() {
        for host in ["localhost:9444", "127.0.0.1:9444", "[::1]:9444", "::1", "LocalHost", "tower:1", "127.1.2.3"] {
            assert_eq!(check(&local(), &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:9444", "10.0.0.1:9444", "localhost.evil.example", "", "127.0.0.1.x"]
        {
            assert_eq!(check(&local(), &[("host", host)]), Err(WRONG_HOST), "{host}");
        }
        assert_eq!(check(&local(), &[]), Err(WRONG_HOST));
        assert_eq!(check(&local(), &[("host", "localhost"), ("host", "evil.example")]), Err(WRONG_HOST));
        assert_eq!(check(&public(), &[("host", "evil.example"), ("authorization", "Bearer x")]), Err(WRONG_HOST));
    }

    #[test]
    fn pages_of_others_are_refused() {
        let host = ("host", "localhost:9444");
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:1"),
        ] {
            assert_eq!(check(&local(), &[host, (name, value)]), Err(WRONG_ORIGIN), "{name}: {value}");
        }
        for (name, value) in [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none")] {
            assert_eq!(check(&local(), &[host, (name, value)]), Ok(()));
        }
        assert_eq!(check(&local(), &[host, ("origin", "http://localhost:9444")]), Ok(()));
    }

    /// Nobody behind the proxy that we advise could log in: the browser's origin is the proxy's.
    #[test]
    fn the_page_may_come_through_a_tls_proxy() {
        let host = ("host", "tower");
        assert_eq!(check(&local(), &[host, ("origin", "https://tower")]), Ok(()));
        let site = ("sec-fetch-site", "cross-site");
        assert_eq!(check(&local(), &[host, ("origin", "https://tower"), site]), Err(WRONG_ORIGIN));
        for origin in ["https://evil.example", "https://tower:1", "https://tower.evil.example", "ftp://tower", "tower"]
        {
            assert_eq!(check(&local(), &[host, ("origin", origin)]), Err(WRONG_ORIGIN), "{origin}");
        }
        let evil = [("host", "evil.example"), ("origin", "https://evil.example")];
        assert_eq!(check(&local(), &evil), Err(WRONG_HOST));
    }

    #[test]
    fn token_is_taken_from_header_or_cookie_and_must_be_right() {
        let host = ("host", "10.0.0.1:9444");
        assert_eq!(check(&public(), &[host]), Err(NO_TOKEN));
        let cookie = format!("a=b; {COOKIE}={RIGHT}");
        for given in [("authorization", "Bearer 0123456789abcdef"), ("cookie", &cookie)] {
            assert_eq!(check(&public(), &[host, given]), Ok(()), "{given:?}");
        }
        for given in ["Bearer 0123456789abcdee", "Bearer 0123456789abcdef0", "bearer x", "Bearer "] {
            assert_eq!(check(&public(), &[host, ("authorization", given)]), Err(WRONG_TOKEN), "{given}");
        }
        assert_eq!(check(&public(), &[host, ("authorization", "Basic abc")]), Err(NO_TOKEN));
    }

    #[test]
    fn methods_that_change_things_are_refused() {
        let headers = HeaderMap::new();
        assert_eq!(local().check(&Method::PUT, &headers, true), Err(WRONG_METHOD));
    }

    #[test]
    fn tokens_are_long_plain_and_not_shown() {
        let made = Token::make().unwrap();
        assert_eq!((made.text().len(), Token::parse(made.text()).as_ref()), (2 * TOKEN_BYTES, Ok(&made)));
        assert_ne!(made, Token::make().unwrap());
        assert_eq!(format!("{made:?}"), "Token");
        for text in ["", "short", "0123456789abcde\n0", "0123456789abcdef;"] {
            assert!(Token::parse(text).is_err(), "{text:?}");
        }
    }
}
