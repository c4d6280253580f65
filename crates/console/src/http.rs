//! The HTTP server.
//!
//! | path | answer |
//! |---|---|
//! | `/login?token=T` | a cookie and the key, for the printed token |
//! | `/api/about` | the version of the program, and what is observed |
//! | `/api/events` | the changes of all clusters, of one with `?namespace=N&name=C`, or of the fleet with `?fleet=1`, as server-sent events |
//! | `/api/…` | requests of pages: [`requests`] |
//! | `/assets/NAME` | a file of the pages |
//! | `/healthz` | `ok`, in a console that serves users |
//! | any other | the page in which everything is shown |
//!
//! Every request passes [`gate::judge`] or [`gate::judge_user`] first. Only requests of pages are POST.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::assets;
use crate::feed::{Content, Feeds, Sent, Topic};
use crate::gate::{self, KEY_HEADER, RequestHeaders, Secrets, Verdict, Wanted};
use crate::requests;
use crate::sessions::Sessions;
use crate::source::{ClusterId, Logins, Source};

/// As many connections as that are served at a time. A browser has six for each address.
const CONNECTIONS_MAX: usize = 512;

/// A request that does not come within this time was sent by nobody who means well.
const HEADERS_MAX: Duration = Duration::from_secs(10);

/// A stream on which nothing changes says that often that it is alive: the page knows that it is connected.
const ALIVE: Duration = Duration::from_secs(15);

/// A manifest with a Kafka and its pools is much smaller.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Scripts, styles and everything else come from the binary only, and nobody may put the page into a frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      object-src 'none'; require-trusted-types-for 'script'";

/// The server.
pub struct Console {
    listener: TcpListener,
    port: u16,
    shared: Arc<Shared>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) door: Door,
}

/// Who is let in.
pub(crate) enum Door {
    /// The user who has started the console.
    Own { port: u16, secrets: Secrets, feeds: Arc<Feeds> },
    /// Users of the cluster, each with a token.
    Users { logins: Arc<dyn Logins>, sessions: Sessions },
}

/// On whose behalf a request is answered.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) feeds: Arc<Feeds>,
    /// The name of the user, in a console that serves users.
    pub(crate) user: Option<String>,
    /// When the session ends.
    pub(crate) until: Option<Instant>,
}

impl Console {
    /// Listens on loopback: on this port, or on any that is free with 0.
    ///
    /// # Errors
    /// If the port is in use, or the machine has no randomness.
    pub async fn bind(port: u16, source: Arc<dyn Source>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let secrets =
            Secrets::new().ok_or_else(|| io::Error::other("the machine has no randomness"))?;
        let door = Door::Own { port, secrets, feeds: Feeds::new(source) };
        Ok(Self { listener, port, shared: Arc::new(Shared { door }) })
    }

    /// Listens on this address, for users who log in with a bearer token.
    ///
    /// # Errors
    /// If the address is in use.
    pub async fn listen(address: SocketAddr, logins: Arc<dyn Logins>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let door = Door::Users { logins, sessions: Sessions::default() };
        Ok(Self { listener, port, shared: Arc::new(Shared { door }) })
    }

    /// The address to open. That of a console of one user contains the token: anyone who has it sees what the console sees.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.shared.door {
            Door::Own { secrets, .. } => {
                format!("http://127.0.0.1:{}/login?token={}", self.port, secrets.token)
            }
            Door::Users { .. } => match self.listener.local_addr() {
                Ok(address) => format!("http://{address}/"),
                Err(_) => format!("http://127.0.0.1:{}/", self.port),
            },
        }
    }

    /// Serves for ever.
    pub async fn serve(self) {
        let router = router(self.shared);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((socket, _)) => {
                    tokio::spawn(connection(socket, router.clone(), permit));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn connection(socket: TcpStream, router: Router, permit: OwnedSemaphorePermit) {
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_MAX)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection has ended");
    }
    drop(permit);
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/login", get(login))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/about", get(about))
        .route("/api/events", get(events))
        .route("/api/login", post(requests::sign_in))
        .route("/api/logout", post(requests::sign_out))
        .route("/api/resources", get(requests::resources))
        .route("/api/history", get(requests::history))
        .route("/api/plan", post(requests::plan))
        .route("/api/apply", post(requests::apply))
        .route("/api/rebalance", post(requests::rebalance))
        .route("/api/{*other}", get(|| async { StatusCode::NOT_FOUND }))
        .route("/assets/{name}", get(asset))
        .fallback(get(index))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// What a request asks for; `None` if the console answers nothing of the kind.
fn wanted<'a>(method: &Method, path: &str, token: &'a str) -> Option<Wanted<'a>> {
    let reads = method == Method::GET || method == Method::HEAD;
    match path {
        "/login" if reads => Some(Wanted::Login(token)),
        "/api/login" if method == Method::POST => Some(Wanted::SignIn),
        path if path.starts_with("/api/") => match (reads, method == Method::POST) {
            (true, _) => Some(Wanted::Api),
            (false, true) => Some(Wanted::Write),
            (false, false) => None,
        },
        _ if reads => Some(Wanted::Page),
        _ => None,
    }
}

/// Lets a request through, or not, and gives every answer its headers.
async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let token = login_token(&request);
    let Some(wanted) = wanted(request.method(), request.uri().path(), &token) else {
        return sealed(StatusCode::METHOD_NOT_ALLOWED.into_response());
    };
    let asked = asked(request.headers());
    let (verdict, who) = match &shared.door {
        Door::Own { port, secrets, feeds } => {
            let who = Who { feeds: Arc::clone(feeds), user: None, until: None };
            (gate::judge(wanted, asked, *port, secrets), Some(who))
        }
        Door::Users { sessions, .. } => {
            let session = sessions.of(asked.cookies);
            let key = session.as_ref().map(|one| one.key.as_str());
            let verdict = gate::judge_user(wanted, asked, key);
            let who = |one: crate::sessions::Session| Who {
                feeds: one.feeds,
                user: Some(one.user),
                until: Some(one.until),
            };
            (verdict, session.map(who))
        }
    };
    let response = match (verdict, wanted) {
        (Verdict::Allowed, _) => {
            if let Some(who) = who {
                request.extensions_mut().insert(who);
            }
            next.run(request).await
        }
        (Verdict::OtherHost, _) => (
            StatusCode::MISDIRECTED_REQUEST,
            "the console answers to 127.0.0.1 and localhost only\n",
        )
            .into_response(),
        (Verdict::OtherSite, _) => {
            (StatusCode::FORBIDDEN, "the console answers its own pages only\n").into_response()
        }
        (Verdict::NoSession, Wanted::Api | Wanted::Write | Wanted::SignIn) => {
            StatusCode::UNAUTHORIZED.into_response()
        }
        (Verdict::NoSession, Wanted::Login(_) | Wanted::Page) => {
            (StatusCode::UNAUTHORIZED, html(NO_SESSION.to_owned())).into_response()
        }
    };
    sealed(response)
}

/// What everybody gets who has no session: nothing that tells of any cluster.
const NO_SESSION: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Gregor</title>\
<h1>No session</h1><p>Open the address that <code>gregor console</code> has printed. It has a token in it that lets this \
browser in. If you followed a link from another site, reload this page.</p></html>";

fn html(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text)
}

fn login_token(request: &Request) -> String {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == "token").map(|(_, token)| token.to_owned()).unwrap_or_default()
}

pub(crate) fn asked(headers: &HeaderMap) -> RequestHeaders<'_> {
    // A header that is there twice, or is no text, is as bad as a wrong one.
    let one = |name: HeaderName| {
        let mut all = headers.get_all(name).iter();
        let first = all.next()?;
        Some(first.to_str().ok().filter(|_| all.next().is_none()).unwrap_or("unreadable"))
    };
    RequestHeaders {
        host: one(header::HOST),
        origin: one(header::ORIGIN),
        fetch_site: one(HeaderName::from_static("sec-fetch-site")),
        cookies: one(header::COOKIE),
        key: one(HeaderName::from_static(KEY_HEADER)),
    }
}

fn sealed(mut response: Response) -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Gives the cookie and the key. The page leads on by itself, so that the address with the token does not stay in the
/// address bar; a redirect would be a part of the navigation of whoever had the link, and `Strict` cookies are not
/// sent with that.
async fn login(State(shared): State<Arc<Shared>>) -> Response {
    let Door::Own { port, secrets, .. } = &shared.door else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Secrets { session, key, .. } = secrets;
    let name = gate::cookie_name(*port);
    let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict");
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Gregor</title>\
         <meta name=\"gregor-key\" content=\"{key}\"><script src=\"/assets/login.js\"></script>\
         <meta http-equiv=\"refresh\" content=\"2;url=/\"></html>"
    );
    ([(header::SET_COOKIE, cookie)], html(page)).into_response()
}

async fn index(State(shared): State<Arc<Shared>>) -> Response {
    let (kind, content) = assets::index();
    let text = match shared.door {
        Door::Own { .. } => return ([(header::CONTENT_TYPE, kind)], content).into_response(),
        Door::Users { .. } => String::from_utf8_lossy(content),
    };
    // Tells the page that users log in.
    let text = text.replacen("<title>", "<meta name=\"gregor-users\"><title>", 1);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn asset(Path(name): Path<String>) -> Response {
    match assets::file(&name) {
        Some((kind, content)) => ([(header::CONTENT_TYPE, kind)], content).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn about(Extension(who): Extension<Who>) -> Response {
    let source = who.feeds.source();
    let about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "origin": source.origin(),
        "live": source.interval().is_some(),
        "fleet": source.has_fleet(),
        "user": who.user,
    });
    ([(header::CONTENT_TYPE, "application/json")], about.to_string()).into_response()
}

/// Which cluster; all if none is named.
#[derive(Debug, Deserialize)]
struct Which {
    namespace: Option<String>,
    name: Option<String>,
    fleet: Option<u8>,
}

async fn events(Extension(who): Extension<Who>, Query(which): Query<Which>) -> Response {
    let topic = match which {
        Which { namespace: Some(namespace), name: Some(name), fleet: None } => {
            Topic::Cluster(ClusterId { namespace, name })
        }
        Which { namespace: None, name: None, fleet: None } => Topic::Overview,
        Which { namespace: None, name: None, fleet: Some(_) } => Topic::Fleet,
        Which { .. } => return StatusCode::BAD_REQUEST.into_response(),
    };
    let until = who.until;
    let over = async move {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    let events = changes(who.feeds.open(&topic)).map(Ok::<_, Infallible>).take_until(over);
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// What is known now, and then every change of it.
fn changes(page: watch::Receiver<Arc<Content>>) -> impl Stream<Item = Event> {
    let begun = (page, Sent::default(), true);
    let updates = stream::unfold(begun, async |(mut page, mut sent, first)| {
        if !first {
            page.changed().await.ok()?;
        }
        let content = Arc::clone(&page.borrow_and_update());
        let events = sent.update(&content);
        Some((stream::iter(events), (page, sent, false)))
    });
    updates.flatten().map(|(name, part)| Event::default().event(name).data(&*part))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
