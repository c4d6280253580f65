//! The server as a client sees it, with a cluster that does not change.

use axum::body::Body;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::page::{Cluster, Overview, Summary};
use crate::source::Observing;

struct Still;

impl Source for Still {
    fn overview(&self) -> Observing<'_, Overview> {
        Box::pin(async { Ok(Overview::default()) })
    }

    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>> {
        let summary = Summary { name: id.name.clone(), ..Summary::default() };
        Box::pin(async { Ok(Some(Cluster { summary, ..Cluster::default() })) })
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn origin(&self) -> String {
        "canary".to_owned()
    }
}

struct Server {
    router: Router,
    shared: Arc<Shared>,
}

impl Server {
    async fn new() -> Self {
        let console = Console::bind(0, Arc::new(Still)).await.unwrap();
        Self { router: router(Arc::clone(&console.shared)), shared: console.shared }
    }

    fn request(&self, path: &str) -> axum::http::request::Builder {
        let Shared { port, secrets, .. } = &*self.shared;
        let cookie = format!("{}={}", gate::cookie_name(*port), secrets.session);
        axum::http::Request::get(path)
            .header("host", format!("127.0.0.1:{port}"))
            .header("cookie", cookie)
            .header(KEY_HEADER, &secrets.key)
    }

    async fn answer(&self, request: axum::http::request::Builder) -> Response {
        let request = request.body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}

async fn text(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn the_printed_address_gives_a_session_and_the_key() {
    let server = Server::new().await;
    let Shared { port, secrets, .. } = &*server.shared;
    let open = |token: &str| {
        let path = format!("/login?token={token}");
        axum::http::Request::get(path).header("host", format!("127.0.0.1:{port}"))
    };
    let response = server.answer(open(&secrets.token)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(text(response).await.contains(&secrets.key));
    let refused = server.answer(open("wrong")).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(!refused.headers().contains_key(header::SET_COOKIE));
    let told = text(refused).await;
    assert!(!told.contains(&secrets.key) && !told.contains(&secrets.token), "{told}");
}

#[tokio::test]
async fn every_answer_is_sealed_and_nothing_is_told_without_a_session() {
    let server = Server::new().await;
    for path in
        ["/", "/login", "/api/about", "/api/events", "/assets/app.js", "/c/n/c", "/api/none"]
    {
        let known = server.answer(server.request(path)).await;
        let stranger = axum::http::Request::get(path);
        let host = format!("127.0.0.1:{}", server.shared.port);
        let stranger = server.answer(stranger.header("host", host)).await;
        assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED, "{path}");
        for response in [&known, &stranger] {
            let of = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            assert!(of("content-security-policy").starts_with("default-src 'self';"));
            assert!(!of("content-security-policy").contains("unsafe"));
            assert_eq!(of("x-content-type-options"), "nosniff");
            assert_eq!(of("referrer-policy"), "no-referrer");
            assert_eq!(of("cache-control"), "no-store");
            assert!(!response.headers().contains_key("access-control-allow-origin"));
        }
        assert!(!text(stranger).await.contains("canary"));
    }
}

#[tokio::test]
async fn nothing_but_reading_is_possible() {
    let server = Server::new().await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let response = server.answer(server.request("/api/about").method(method)).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
}

#[tokio::test]
async fn a_header_that_is_there_twice_is_wrong() {
    let server = Server::new().await;
    let host = format!("127.0.0.1:{}", server.shared.port);
    let response = server.answer(server.request("/").header("host", host)).await;
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn events_are_the_parts_of_a_page() {
    let server = Server::new().await;
    let request = server.request("/api/events?namespace=n&name=c");
    let mut body = server.answer(request).await.into_body();
    let mut seen = String::new();
    while !seen.contains("event: why") {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        seen.push_str(std::str::from_utf8(&frame).unwrap());
    }
    assert!(seen.contains("event: summary\ndata: {\"namespace\":\"\",\"name\":\"c\""), "{seen}");
    let incomplete = server.answer(server.request("/api/events?namespace=n")).await;
    assert_eq!(incomplete.status(), StatusCode::BAD_REQUEST);
    assert_eq!(
        text(server.answer(server.request("/api/about")).await).await.matches("canary").count(),
        1
    );
}

#[tokio::test]
async fn only_loopback_is_listened_on() {
    let console = Console::bind(0, Arc::new(Still)).await.unwrap();
    assert!(console.listener.local_addr().unwrap().ip().is_loopback());
    assert!(console.url().starts_with("http://127.0.0.1:"));
}
