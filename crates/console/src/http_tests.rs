//! The server as a client sees it, with a cluster that does not change.

use axum::body::Body;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::page::{Cluster, Overview, Summary};
use crate::source::{Acting, Admitted, Edit, Observing, Reason, Refusal, Resources};
use serde_json::Value;

struct Still;

/// Knows one token.
struct One;

impl Logins for One {
    fn admit<'a>(&'a self, token: &'a str) -> Acting<'a, Admitted> {
        Box::pin(async move {
            match token {
                "good" => Ok(Admitted { user: "alice".to_owned(), source: Arc::new(Still) }),
                _ => Err(forbidden("the API server does not accept the token")),
            }
        })
    }
}

fn forbidden(message: &str) -> Refusal {
    Refusal { reason: Reason::Forbidden, message: message.to_owned() }
}

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

    fn resources<'a>(&'a self, _: &'a ClusterId) -> Acting<'a, Resources> {
        Box::pin(async { Ok(Resources { yaml: "kind: Kafka".to_owned(), ..Resources::default() }) })
    }

    fn plan<'a>(&'a self, _: &'a ClusterId, edit: &'a Edit) -> Acting<'a, Value> {
        Box::pin(async { Ok(json!({ "planned": edit.yaml })) })
    }

    fn apply<'a>(&'a self, _: &'a ClusterId, _: &'a Edit) -> Acting<'a, Vec<String>> {
        Box::pin(async {
            Err(Refusal { reason: Reason::Conflict, ..forbidden("changed meanwhile") })
        })
    }

    fn command<'a>(&'a self, _: &'a ClusterId, name: &'a str, _: &'a str) -> Acting<'a, ()> {
        Box::pin(async move { Err(forbidden(&format!("you may not patch {name}"))) })
    }
}

struct Server {
    router: Router,
    port: u16,
    shared: Arc<Shared>,
}

impl Server {
    async fn new() -> Self {
        let console = Console::bind(0, Arc::new(Still)).await.unwrap();
        let router = router(Arc::clone(&console.shared));
        Self { router, port: console.port, shared: console.shared }
    }

    async fn for_users() -> Self {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let console = Console::listen(address, Arc::new(One)).await.unwrap();
        let router = router(Arc::clone(&console.shared));
        Self { router, port: console.port, shared: console.shared }
    }

    fn secrets(&self) -> &Secrets {
        match &self.shared.door {
            Door::Own { secrets, .. } => secrets,
            Door::Users { .. } => panic!("it serves users"),
        }
    }

    fn request(&self, path: &str) -> axum::http::request::Builder {
        let cookie = format!("{}={}", gate::cookie_name(self.port), self.secrets().session);
        axum::http::Request::get(path)
            .header("host", format!("127.0.0.1:{}", self.port))
            .header("cookie", cookie)
            .header(KEY_HEADER, &self.secrets().key)
    }

    /// A request of our page that changes something.
    async fn post(&self, path: &str, body: Value) -> (StatusCode, String) {
        let request = self.request(path).method("POST");
        let request = request.header("origin", format!("http://127.0.0.1:{}", self.port));
        self.send(request, body).await
    }

    async fn send(
        &self,
        request: axum::http::request::Builder,
        body: Value,
    ) -> (StatusCode, String) {
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        (response.status(), text(response).await)
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
    let (port, secrets) = (server.port, server.secrets());
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
        let host = format!("127.0.0.1:{}", server.port);
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
async fn pages_read_and_post_and_nothing_else() {
    let server = Server::new().await;
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS"] {
        let response = server.answer(server.request("/api/about").method(method)).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    let response = server.answer(server.request("/").method("POST")).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_change_is_made_for_our_own_page_only() {
    let server = Server::new().await;
    let path = "/api/plan?namespace=n&name=c";
    let planned = server.post(path, json!({ "yaml": "a" })).await;
    assert_eq!(planned, (StatusCode::OK, r#"{"planned":"a"}"#.to_owned()));
    let origin = format!("http://127.0.0.1:{}", server.port);
    let with = |origin: Option<&str>, drop: &str| {
        let mut request = server.request(path).method("POST");
        request.headers_mut().unwrap().remove(drop);
        match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        }
    };
    let refused = [
        (with(None, ""), StatusCode::FORBIDDEN),
        (with(Some("http://evil.example"), ""), StatusCode::FORBIDDEN),
        (with(Some(&origin), KEY_HEADER), StatusCode::UNAUTHORIZED),
        (with(Some(&origin), "cookie"), StatusCode::UNAUTHORIZED),
    ];
    for (request, status) in refused {
        assert_eq!(server.send(request, json!({ "yaml": "a" })).await.0, status);
    }
}

#[tokio::test]
async fn a_refusal_has_its_status_and_its_sentence() {
    let server = Server::new().await;
    let of = "?namespace=n&name=c";
    let command = json!({ "rebalance": "r", "command": "stop" });
    let refused = server.post(&format!("/api/rebalance{of}"), command).await;
    assert_eq!(refused, (StatusCode::FORBIDDEN, r#"{"message":"you may not patch r"}"#.to_owned()));
    let refused = server.post(&format!("/api/apply{of}"), json!({ "yaml": "a" })).await;
    assert_eq!(refused, (StatusCode::CONFLICT, r#"{"message":"changed meanwhile"}"#.to_owned()));
    let large = json!({ "yaml": "x".repeat(BODY_BYTES_MAX) });
    let refused = server.post(&format!("/api/plan{of}"), large).await;
    assert_eq!(refused.0, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_user_logs_in_with_a_token_and_out_again() {
    let server = Server::for_users().await;
    let host = format!("127.0.0.1:{}", server.port);
    let ask = |method: &str, path: &str| {
        axum::http::Request::builder().method(method).uri(path).header("host", &host)
    };
    // The page is no secret; everything else needs a session.
    let page = server.answer(ask("GET", "/")).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(text(page).await.contains("<meta name=\"gregor-users\">"));
    assert_eq!(server.answer(ask("GET", "/healthz")).await.status(), StatusCode::OK);
    for path in ["/api/about", "/api/events", "/api/resources?namespace=n&name=c", "/login?token="]
    {
        let response = server.answer(ask("GET", path)).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert!(!text(response).await.contains("canary"));
    }
    let origin = format!("http://{host}");
    let login = || ask("POST", "/api/login").header("origin", &origin);
    let (status, told) = server.send(login(), json!({ "token": "bad" })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(told.contains("does not accept the token"), "{told}");
    let other = ask("POST", "/api/login").header("origin", "http://evil.example");
    assert_eq!(server.send(other, json!({ "token": "good" })).await.0, StatusCode::FORBIDDEN);
    let request = login().header("x-forwarded-proto", "https");
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(json!({ "token": " good\n" }).to_string())).unwrap();
    let response = server.router.clone().oneshot(request).await.unwrap();
    let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    let told: Value = serde_json::from_str(&text(response).await).unwrap();
    let (cookie, key) = (cookie.split(';').next().unwrap(), told["key"].as_str().unwrap());
    let mine = |method: &str, path: &str| {
        ask(method, path).header("cookie", cookie).header(KEY_HEADER, key)
    };
    let about = text(server.answer(mine("GET", "/api/about")).await).await;
    assert!(about.contains("\"user\":\"alice\"") && about.contains("canary"), "{about}");
    // The cookie without the key, and the key without the cookie, are worth nothing.
    for request in [
        ask("GET", "/api/about").header("cookie", cookie),
        ask("GET", "/api/about").header(KEY_HEADER, key),
    ] {
        assert_eq!(server.answer(request).await.status(), StatusCode::UNAUTHORIZED);
    }
    let out = mine("POST", "/api/logout").header("origin", &origin);
    assert_eq!(server.send(out, json!({})).await.0, StatusCode::NO_CONTENT);
    let response = server.answer(mine("GET", "/api/about")).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_header_that_is_there_twice_is_wrong() {
    let server = Server::new().await;
    let host = format!("127.0.0.1:{}", server.port);
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
