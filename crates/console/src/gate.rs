//! Who gets what. Pure: headers go in, a verdict comes out.
//!
//! Two kinds of people must get nothing: other users of this machine, who can connect to the port, and web pages
//! that the user has open, which can make the browser send requests.
//!
//! 1. `Host` must name loopback and our port. A page that has its own name resolve to 127.0.0.1 (DNS rebinding)
//!    sends its own name.
//! 2. `Origin`, where there is one, must be ours, and `Sec-Fetch-Site` must not be that of another site.
//! 3. Everything but the login needs the cookie, which a browser gets for the printed token only.
//! 4. The API needs a key besides. Browsers send cookies to every port of a host, so another user of this machine
//!    who makes the browser open a page on a port of theirs is sent the cookie; the key is kept by the browser for our
//!    port alone. It is a header, which a form cannot set: requests that change something need it too.
//! 5. A request that changes something must say that our own page has sent it: browsers put the `Origin` into each.
//!
//! A console that serves users of a cluster ([`judge_user`]) answers to any name, and its pages are no secret. What was
//! observed needs the cookie and the key of a session, as above, and to log in the page must be our own.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The bytes of a secret: as hard to guess as a key of AES-256.
const SECRET_BYTES: usize = 32;

/// The header with the key.
pub(crate) const KEY_HEADER: &str = "x-gregor-key";

/// The secrets of one run of the console. They are never logged.
pub(crate) struct Secrets {
    /// Stands in the printed address.
    pub(crate) token: String,
    /// The value of the cookie.
    pub(crate) session: String,
    /// The value of the header.
    pub(crate) key: String,
}

impl Secrets {
    /// New secrets; `None` if the machine has no randomness.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { token: secret()?, session: secret()?, key: secret()? })
    }
}

fn secret() -> Option<String> {
    let mut bytes = [0_u8; SECRET_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// A session for this token.
    Login(&'a str),
    /// A file of the pages, in which there is nothing of any cluster.
    Page,
    /// What was observed.
    Api,
    /// A change.
    Write,
    /// A session for a bearer token, in a console that serves users.
    SignIn,
}

/// The cookie of a session in a console that serves users.
pub(crate) const USER_COOKIE: &str = "gregor-console";

/// The headers that count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) fetch_site: Option<&'a str>,
    pub(crate) cookies: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is answered.
    Allowed,
    /// It was sent to another name than ours.
    OtherHost,
    /// Another site has sent it.
    OtherSite,
    /// There is no session.
    NoSession,
}

/// The name of the cookie. It has the port in it, as all ports of a host share their cookies.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("gregor-console-{port}")
}

/// Decides on a request.
pub(crate) fn judge(
    wanted: Wanted<'_>,
    asked: RequestHeaders<'_>,
    port: u16,
    secrets: &Secrets,
) -> Verdict {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let Some(host) = asked.host.filter(|host| hosts.iter().any(|known| known == host)) else {
        return Verdict::OtherHost;
    };
    if asked.origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Verdict::OtherSite;
    }
    let is_opened = matches!(asked.fetch_site, None | Some("none" | "same-origin"));
    match wanted {
        // A link in a file or a terminal may lead here, and whoever has the token may log in.
        Wanted::Login(token) if is_same(Some(token), &secrets.token) => Verdict::Allowed,
        Wanted::Login(_) => Verdict::NoSession,
        // Links lead to pages as well, and another port of this host is "same-site".
        Wanted::Page if has_session(asked, port, secrets) => Verdict::Allowed,
        Wanted::Api | Wanted::Write if !is_opened => Verdict::OtherSite,
        Wanted::Write if asked.origin.is_none() => Verdict::OtherSite,
        Wanted::Api | Wanted::Write
            if has_session(asked, port, secrets) && is_same(asked.key, &secrets.key) =>
        {
            Verdict::Allowed
        }
        Wanted::Page | Wanted::Api | Wanted::Write | Wanted::SignIn => Verdict::NoSession,
    }
}

/// Decides on a request to a console that serves users. `key` is that of the session whose cookie was sent.
pub(crate) fn judge_user(
    wanted: Wanted<'_>,
    asked: RequestHeaders<'_>,
    key: Option<&str>,
) -> Verdict {
    let Some(host) = asked.host else { return Verdict::OtherHost };
    let own = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest == Some(host)
    };
    if asked.origin.is_some_and(|origin| !own(origin)) {
        return Verdict::OtherSite;
    }
    let is_opened = matches!(asked.fetch_site, None | Some("none" | "same-origin"));
    match wanted {
        Wanted::Page => Verdict::Allowed,
        Wanted::Api | Wanted::Write | Wanted::SignIn if !is_opened => Verdict::OtherSite,
        Wanted::Write | Wanted::SignIn if asked.origin.is_none() => Verdict::OtherSite,
        Wanted::SignIn => Verdict::Allowed,
        Wanted::Api | Wanted::Write if key.is_some_and(|key| is_same(asked.key, key)) => {
            Verdict::Allowed
        }
        Wanted::Api | Wanted::Write | Wanted::Login(_) => Verdict::NoSession,
    }
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(cookies: Option<&'a str>, name: &str) -> Option<&'a str> {
    let mut pairs = cookies?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn has_session(asked: RequestHeaders<'_>, port: u16, secrets: &Secrets) -> bool {
    let name = cookie_name(port);
    let cookies = asked.cookies.unwrap_or_default().split(';');
    let mut pairs = cookies.filter_map(|pair| pair.trim().split_once('='));
    pairs.any(|(found, value)| found == name && is_same(Some(value), &secrets.session))
}

/// Takes as long for a wrong secret that begins right as for any other.
fn is_same(given: Option<&str>, secret: &str) -> bool {
    let given = given.unwrap_or_default();
    verify_slices_are_equal(given.as_bytes(), secret.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 7470;

    fn secrets() -> Secrets {
        Secrets { token: "token".into(), session: "session".into(), key: "key".into() }
    }

    fn user() -> RequestHeaders<'static> {
        RequestHeaders {
            host: Some("127.0.0.1:7470"),
            origin: None,
            fetch_site: Some("same-origin"),
            cookies: Some("other=1; gregor-console-7470=session"),
            key: Some("key"),
        }
    }

    #[track_caller]
    fn check(wanted: Wanted<'_>, asked: RequestHeaders<'_>, expected: Verdict) {
        assert_eq!(judge(wanted, asked, PORT, &secrets()), expected, "{wanted:?} {asked:?}");
    }

    #[test]
    fn the_user_gets_everything() {
        for host in ["127.0.0.1:7470", "localhost:7470"] {
            let user = RequestHeaders { host: Some(host), ..user() };
            for wanted in [Wanted::Login("token"), Wanted::Page, Wanted::Api] {
                check(wanted, user, Verdict::Allowed);
            }
        }
        let own = RequestHeaders { origin: Some("http://127.0.0.1:7470"), ..user() };
        check(Wanted::Api, own, Verdict::Allowed);
        // A program of the user, which is no browser.
        check(Wanted::Api, RequestHeaders { fetch_site: None, ..user() }, Verdict::Allowed);
    }

    #[test]
    fn a_name_that_resolves_to_loopback_is_not_ours() {
        let names =
            ["evil.example:7470", "127.0.0.1", "127.0.0.1:80", "localhost:7470.evil.example"];
        for host in names.map(Some).into_iter().chain([None]) {
            for wanted in [Wanted::Login("token"), Wanted::Page, Wanted::Api] {
                check(wanted, RequestHeaders { host, ..user() }, Verdict::OtherHost);
            }
        }
    }

    #[test]
    fn other_sites_get_nothing_even_with_the_cookie_and_the_key() {
        let origins =
            ["http://evil.example", "null", "https://127.0.0.1:7470", "http://127.0.0.1:81"];
        for origin in origins {
            for wanted in [Wanted::Login("token"), Wanted::Page, Wanted::Api] {
                let asked = RequestHeaders { origin: Some(origin), ..user() };
                check(wanted, asked, Verdict::OtherSite);
            }
        }
        // The origin of the one name of ours is not that of the other.
        let mixed = RequestHeaders { origin: Some("http://localhost:7470"), ..user() };
        check(Wanted::Api, mixed, Verdict::OtherSite);
        for site in ["cross-site", "same-site"] {
            check(
                Wanted::Api,
                RequestHeaders { fetch_site: Some(site), ..user() },
                Verdict::OtherSite,
            );
        }
    }

    #[test]
    fn without_the_token_nobody_gets_a_session() {
        for token in ["", "toke", "tokem", "token2", "session", "key"] {
            check(Wanted::Login(token), user(), Verdict::NoSession);
        }
    }

    #[test]
    fn without_a_session_there_is_nothing() {
        let others = [
            None,
            Some(""),
            Some("gregor-console-7470="),
            Some("gregor-console-7470=token"),
            Some("gregor-console-7471=session"),
            Some("session"),
        ];
        for cookies in others {
            check(Wanted::Page, RequestHeaders { cookies, ..user() }, Verdict::NoSession);
            check(Wanted::Api, RequestHeaders { cookies, ..user() }, Verdict::NoSession);
        }
    }

    #[test]
    fn the_cookie_alone_is_not_enough_for_what_was_observed() {
        for key in [None, Some(""), Some("session"), Some("kez")] {
            check(Wanted::Api, RequestHeaders { key, ..user() }, Verdict::NoSession);
            check(Wanted::Page, RequestHeaders { key, ..user() }, Verdict::Allowed);
        }
    }

    #[test]
    fn a_change_needs_the_session_the_key_and_our_own_page() {
        let page = RequestHeaders { origin: Some("http://127.0.0.1:7470"), ..user() };
        check(Wanted::Write, page, Verdict::Allowed);
        // A form of another site can send neither the header nor our origin, and a program no origin.
        check(Wanted::Write, user(), Verdict::OtherSite);
        check(Wanted::Write, RequestHeaders { origin: Some("null"), ..page }, Verdict::OtherSite);
        check(
            Wanted::Write,
            RequestHeaders { fetch_site: Some("same-site"), ..page },
            Verdict::OtherSite,
        );
        for key in [None, Some(""), Some("session")] {
            check(Wanted::Write, RequestHeaders { key, ..page }, Verdict::NoSession);
        }
        check(Wanted::Write, RequestHeaders { cookies: None, ..page }, Verdict::NoSession);
        // Only a console that serves users takes their tokens.
        check(Wanted::SignIn, page, Verdict::NoSession);
    }

    #[test]
    fn users_get_what_is_observed_with_the_key_of_their_session_only() {
        let page = RequestHeaders {
            host: Some("console.example"),
            origin: Some("https://console.example"),
            cookies: None,
            ..user()
        };
        #[track_caller]
        fn check(
            wanted: Wanted<'_>,
            asked: RequestHeaders<'_>,
            key: Option<&str>,
            expected: Verdict,
        ) {
            assert_eq!(judge_user(wanted, asked, key), expected, "{wanted:?} {asked:?}");
        }
        for wanted in [Wanted::Api, Wanted::Write] {
            check(wanted, page, Some("key"), Verdict::Allowed);
            check(wanted, page, Some("other"), Verdict::NoSession);
            check(wanted, page, None, Verdict::NoSession);
            check(wanted, RequestHeaders { key: None, ..page }, Some("key"), Verdict::NoSession);
        }
        check(
            Wanted::Page,
            RequestHeaders { origin: None, key: None, ..page },
            None,
            Verdict::Allowed,
        );
        check(Wanted::SignIn, page, None, Verdict::Allowed);
        check(Wanted::Login("token"), page, Some("key"), Verdict::NoSession);
        check(Wanted::Api, RequestHeaders { origin: None, ..page }, Some("key"), Verdict::Allowed);
        for wanted in [Wanted::Write, Wanted::SignIn] {
            check(wanted, RequestHeaders { origin: None, ..page }, Some("key"), Verdict::OtherSite);
        }
        for wanted in [Wanted::Api, Wanted::Write, Wanted::SignIn] {
            let site = RequestHeaders { fetch_site: Some("cross-site"), ..page };
            check(wanted, site, Some("key"), Verdict::OtherSite);
            let origin = RequestHeaders { origin: Some("https://evil.example"), ..page };
            check(wanted, origin, Some("key"), Verdict::OtherSite);
            check(wanted, RequestHeaders { host: None, ..page }, Some("key"), Verdict::OtherHost);
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let cookies = Some("xgregor-console=1; gregor-console=2;gregor-console-7470=3");
        assert_eq!(cookie(cookies, USER_COOKIE), Some("2"));
        assert_eq!(cookie(cookies, "gregor"), None);
        assert_eq!(cookie(None, USER_COOKIE), None);
    }

    #[test]
    fn every_secret_is_another_one() {
        let (one, two) = (Secrets::new().unwrap(), Secrets::new().unwrap());
        let all = [one.token, one.session, one.key, two.token, two.session, two.key];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().all(|secret| secret.len() == 43));
    }
}
