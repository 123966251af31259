//! Checks every request: the name in `Host`, the origin of a browser's request, and the token.
//!
//! A foreign page in a browser on this host must not read our answers. Requests of other origins are refused, and so are
//! names that an attacker could point at this server (DNS rebinding).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use axum::http::{HeaderMap, Method, StatusCode, header};

/// Random bytes of a generated token.
const TOKEN_BYTES: usize = 32;
/// Shortest and longest token in a file, characters.
const TOKEN_MIN: usize = 16;
pub const TOKEN_MAX: usize = 1024;
pub(super) const COOKIE: &str = "tccc_token";

const TLS_ORIGIN: &str = "https://";

/// Whether a browser's request came through a TLS proxy.
pub(super) fn is_over_tls(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(TLS_ORIGIN.as_bytes()))
}

#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

/// Hides the token, which must not appear in a log.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

impl AccessToken {
    /// Generates a token from the kernel's random numbers.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn make() -> Result<AccessToken> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).context("make a token")?;
        Ok(AccessToken(hex::encode(bytes)))
    }

    /// Reads a token of letters, digits and `-._~+/=`; blanks around it are ignored.
    ///
    /// # Errors
    /// Another character, or a wrong length. The text says what is expected.
    pub fn parse(text: &str) -> Result<AccessToken, String> {
        let token = text.trim();
        let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c));
        if !(is_plain && (TOKEN_MIN..=TOKEN_MAX).contains(&token.len())) {
            return Err(format!("expected {TOKEN_MIN} to {TOKEN_MAX} letters, digits and characters of \"-._~+/=\""));
        }
        Ok(AccessToken(token.to_owned()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == given.len() && differing == 0
    }
}

/// Status and reason of a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub StatusCode, pub &'static str);

const WRONG_HOST: Refusal = Refusal(
    StatusCode::MISDIRECTED_REQUEST,
    "this server does not answer to that name: use its address, or start it with `--host NAME`",
);
const WRONG_ORIGIN: Refusal = Refusal(StatusCode::FORBIDDEN, "pages of other origins may not query this server");
const WRONG_METHOD: Refusal = Refusal(StatusCode::METHOD_NOT_ALLOWED, "this server answers GET, HEAD and POST");
const NO_TOKEN: Refusal = Refusal(
    StatusCode::UNAUTHORIZED,
    "a token is needed: `Authorization: Bearer TOKEN`, with the token that `tccc serve` printed when it started",
);
const WRONG_TOKEN: Refusal =
    Refusal(StatusCode::UNAUTHORIZED, "the token is wrong: `tccc serve` printed the right one when it started");

#[derive(Debug)]
pub(super) struct RequestGate {
    is_loopback: bool,
    names: Vec<String>,
    token: Option<AccessToken>,
}

impl RequestGate {
    pub(super) fn new(address: SocketAddr, names: Vec<String>, token: Option<AccessToken>) -> RequestGate {
        RequestGate { is_loopback: address.ip().is_loopback(), names, token }
    }

    /// Checks whether a request may be answered. `is_open`: the requested resource needs no token.
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
        // A link on another site may open the page itself, which contains no data.
        let may_be_foreign = is_open && *method != Method::POST;
        if headers.get("sec-fetch-site").is_some_and(|site| site.to_str().is_ok_and(is_foreign)) && !may_be_foreign {
            return Err(WRONG_ORIGIN);
        }
        // Behind a TLS proxy the browser's origin is https.
        let is_own = |origin: &str| ["http://", TLS_ORIGIN].iter().any(|scheme| origin.strip_prefix(scheme) == host);
        if headers.get(header::ORIGIN).is_some_and(|origin| !origin.to_str().is_ok_and(is_own)) {
            return Err(WRONG_ORIGIN);
        }
        match (&self.token, given_token(headers)) {
            (Some(_), None) if !is_open => Err(NO_TOKEN),
            (Some(token), Some(given)) if !is_open && !token.is(given) => Err(WRONG_TOKEN),
            _ => Ok(()),
        }
    }

    /// Whether `Host` names this server. Addresses are accepted because only names can be rebound. A loopback server
    /// accepts only loopback and listed ones.
    fn goes_by(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
            _ => host,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_listed = |name: &str| self.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        match address {
            Ok(address) => !self.is_loopback || address.is_loopback() || is_listed(name),
            Err(_) => name.eq_ignore_ascii_case("localhost") || is_listed(name),
        }
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (kind, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The token in the header, else in the cookie.
fn given_token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    bearer(headers).or_else(|| cookies.find(|(name, _)| *name == COOKIE).map(|(_, token)| token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0123456789abcdef";

    fn check(gate: &RequestGate, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        gate.check(&Method::GET, &map, false)
    }

    fn local() -> RequestGate {
        RequestGate::new("127.0.0.1:9444".parse().unwrap(), vec!["tower".into()], None)
    }

    fn public() -> RequestGate {
        RequestGate::new(
            "0.0.0.0:9444".parse().unwrap(),
            vec!["tower".into()],
            Some(AccessToken::parse(RIGHT).unwrap()),
        )
    }

    #[test]
    fn names_and_origins_of_others_are_refused() {
        let expect = |gate: &RequestGate, headers: &[(&str, &str)], expected| {
            assert_eq!(check(gate, headers), expected, "{headers:?}");
        };
        for host in ["localhost:9444", "127.0.0.1:9444", "[::1]:9444", "::1", "LocalHost", "tower:1", "127.1.2.3"] {
            expect(&local(), &[("host", host)], Ok(()));
        }
        for host in ["evil.example", "evil.example:9444", "10.0.0.1:9444", "localhost.evil.example", "", "127.0.0.1.x"]
        {
            expect(&local(), &[("host", host)], Err(WRONG_HOST));
        }
        expect(&local(), &[], Err(WRONG_HOST));
        expect(&local(), &[("host", "localhost"), ("host", "evil.example")], Err(WRONG_HOST));
        expect(&public(), &[("host", "evil.example"), ("authorization", "Bearer x")], Err(WRONG_HOST));
        let host = ("host", "localhost:9444");
        for site in ["cross-site", "same-site"] {
            expect(&local(), &[host, ("sec-fetch-site", site)], Err(WRONG_ORIGIN));
        }
        for origin in ["http://evil.example", "null", "http://localhost:1"] {
            expect(&local(), &[host, ("origin", origin)], Err(WRONG_ORIGIN));
        }
        for own in [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none"), ("origin", "http://localhost:9444")]
        {
            expect(&local(), &[host, own], Ok(()));
        }
    }

    /// Regression: nobody could log in through the recommended TLS proxy, whose origin the browser sends.
    #[test]
    fn the_page_may_come_through_a_tls_proxy() {
        let host = ("host", "tower");
        let own = ("origin", "https://tower");
        assert_eq!(check(&local(), &[host, own]), Ok(()));
        assert_eq!(check(&local(), &[host, own, ("sec-fetch-site", "cross-site")]), Err(WRONG_ORIGIN));
        for origin in ["https://evil.example", "https://tower:1", "https://tower.evil.example", "ftp://tower", "tower"]
        {
            assert_eq!(check(&local(), &[host, ("origin", origin)]), Err(WRONG_ORIGIN), "{origin}");
        }
        assert_eq!(check(&local(), &[("host", "evil.example"), own]), Err(WRONG_HOST));
    }

    #[test]
    fn token_is_read_from_header_or_cookie_and_must_be_right() {
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
    fn tokens_are_long_plain_and_not_shown() {
        let made = AccessToken::make().unwrap();
        assert_eq!((made.text().len(), AccessToken::parse(made.text()).as_ref()), (2 * TOKEN_BYTES, Ok(&made)));
        assert_ne!(made, AccessToken::make().unwrap());
        assert_eq!(format!("{made:?}"), "AccessToken");
        for text in ["", "short", "0123456789abcde\n0", "0123456789abcdef;"] {
            assert!(AccessToken::parse(text).is_err(), "{text:?}");
        }
    }
}
