//! Which node a request goes to, what is tried again, and when to give up.
//!
//! Invariants:
//! 1. Every call ends by its deadline, whatever the peers do.
//! 2. A request that changes something is sent a second time only if the first was certainly not
//!    carried out: it never left, or the node said that another is responsible.
//! 3. An address is not believed for ever: a node that cannot be reached is looked up again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::BytesMut;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use model::NodeId;
use tokio::time::{Instant, sleep, timeout_at};

use super::endpoint::Endpoint;
use super::error::{CallError, ConnectError, LinkError};
use super::link::{Link, LinkFailure};
use super::resolve::{Resolve, SystemNames};
use super::tls::Tls;
use super::transport;
use crate::code::Code;
use crate::proto::{Api, ApiId, Credentials, Handshake, Outgoing};

/// The first pause before a request is tried again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the list of nodes is believed.
const TOPOLOGY_AGE_MAX: Duration = Duration::from_secs(300);

/// How the type of endpoint is written on the wire.
const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bootstrap {
    /// Some brokers of the cluster. They pass on what only controllers can do.
    Brokers(Vec<Endpoint>),
    /// Some controllers of the cluster. They know nothing of topics, but answer when no broker does.
    Controllers(Vec<Endpoint>),
}

impl Bootstrap {
    fn endpoints(&self) -> &[Endpoint] {
        match self {
            Bootstrap::Brokers(endpoints) | Bootstrap::Controllers(endpoints) => endpoints,
        }
    }

    /// Brokers or controllers, in a word for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Bootstrap::Brokers(_) => "brokers",
            Bootstrap::Controllers(_) => "controllers",
        }
    }

    pub(crate) fn endpoint_type(&self) -> i8 {
        match self {
            Bootstrap::Brokers(_) => ENDPOINT_BROKERS,
            Bootstrap::Controllers(_) => ENDPOINT_CONTROLLERS,
        }
    }
}

/// How to reach the cluster, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Our name in the nodes' logs and quotas.
    pub client_id: String,
    /// TLS, if the listeners have it.
    pub tls: Option<Tls>,
    /// SASL, if the listeners have it.
    pub credentials: Option<Credentials>,
    /// How names become addresses.
    pub names: Arc<dyn Resolve>,
    /// The longest that a call takes, with all its attempts.
    pub call_timeout: Duration,
    /// The longest that one attempt of a call that only reads takes, so that a node that hangs does
    /// not use up the time of all.
    pub attempt_timeout: Duration,
    /// The longest that making a connection takes.
    pub connect_timeout: Duration,
    /// Whether to wait, up to `call_timeout`, for nodes that cannot be reached now. A person who has
    /// mistyped a port would rather know at once.
    pub wait_for_nodes: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client_id: "gregor".to_owned(),
            tls: None,
            credentials: None,
            names: Arc::new(SystemNames),
            call_timeout: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            wait_for_nodes: true,
        }
    }
}

/// Whom a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Any node of the kind we bootstrapped from.
    Any,
    /// This node and no other.
    Node(NodeId),
    /// The active controller. Brokers pass such requests on, so with brokers it is any of them.
    Controller,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
}

/// A cluster, as a destination of requests. Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    call_timeout: Duration,
    /// The node that "any node" means, if it is to be one.
    only: Option<NodeId>,
}

#[derive(Debug)]
struct Shared {
    bootstrap: Bootstrap,
    options: ClientOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<NodeId, Endpoint>,
    controller: Option<NodeId>,
    refreshed: Option<Instant>,
    links: BTreeMap<Endpoint, Slot>,
    /// Which of the candidates "any node" means now.
    cursor: usize,
}

/// Held while a connection is being made, so that callers at once make one and not many.
type Slot = Arc<tokio::sync::Mutex<Option<Link>>>;

impl Client {
    pub(crate) fn new(bootstrap: Bootstrap, options: ClientOptions) -> Self {
        let call_timeout = options.call_timeout;
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { bootstrap, options, state }), call_timeout, only: None }
    }

    pub(crate) fn with_call_timeout(mut self, call_timeout: Duration) -> Self {
        self.call_timeout = call_timeout;
        self
    }

    /// The same client, for which "any node" means this one.
    pub(crate) fn with_only(mut self, node: NodeId) -> Self {
        self.only = Some(node);
        self
    }

    pub(crate) fn bootstrap(&self) -> &Bootstrap {
        &self.shared.bootstrap
    }

    /// How long a node should try what it was asked, so that it answers before we stop waiting.
    pub(crate) fn server_timeout_ms(&self) -> i32 {
        i32::try_from((self.call_timeout * 9 / 10).as_millis()).unwrap_or(i32::MAX)
    }

    /// Makes the next request for the active controller look for it.
    pub(crate) fn forget_controller(&self) {
        self.look_elsewhere(Route::Controller);
    }

    /// Asks one endpoint something that every node answers, once. What it answers does not matter.
    pub(crate) async fn reach(&self, endpoint: &Endpoint) -> Result<(), CallError> {
        let longest = self.call_timeout.min(self.shared.options.attempt_timeout);
        let endpoint_type = self.shared.bootstrap.endpoint_type();
        let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
        self.exchange(endpoint, &request, Instant::now() + longest).await.map(|_| ())
    }

    /// Sends a request where it belongs and waits for the answer. `code` picks the error code of the
    /// answer as a whole; an answer that says no for good is returned like any other.
    pub(crate) async fn call<R: Api>(
        &self,
        route: Route,
        effect: Effect,
        request: &R,
        code: impl Fn(&R::Answer) -> Code,
    ) -> Result<R::Answer, CallError> {
        let deadline = Instant::now() + self.call_timeout;
        let route = match (route, self.only) {
            (Route::Any, Some(node)) => Route::Node(node),
            (route, _) => route,
        };
        let mut pause = Pause::new(self.candidates().len());
        loop {
            let outcome = self.attempt(route, effect, request, deadline).await;
            let again = match &outcome {
                Ok(answer) => again_after_code(code(answer), effect),
                Err(error) => again_after_error(error, effect),
            };
            if !again {
                return outcome;
            }
            self.look_elsewhere(route);
            let length = pause.next();
            // Without a pause there is another node to try.
            let all_tried = length > Duration::ZERO && !self.shared.options.wait_for_nodes;
            if (all_tried && unreachable(&outcome)) || Instant::now() + length >= deadline {
                return outcome;
            }
            sleep(length).await;
        }
    }

    async fn attempt<R: Api>(
        &self,
        route: Route,
        effect: Effect,
        request: &R,
        deadline: Instant,
    ) -> Result<R::Answer, CallError> {
        let deadline = match effect {
            Effect::Reads => deadline.min(Instant::now() + self.shared.options.attempt_timeout),
            Effect::Changes => deadline,
        };
        let endpoint = self.locate(R::ID, route, deadline).await?;
        self.exchange(&endpoint, request, deadline).await
    }

    /// One request to one endpoint.
    async fn exchange<R: Api>(
        &self,
        endpoint: &Endpoint,
        request: &R,
        deadline: Instant,
    ) -> Result<R::Answer, CallError> {
        let api = R::ID;
        let started = Instant::now();
        let at = || endpoint.clone();
        let malformed =
            |answered| move |source| CallError::Malformed { api, endpoint: at(), answered, source };
        // A link may refuse just when it is asked; a fresh one does not.
        for _ in 0..2 {
            let link = self.link(endpoint, deadline).await;
            let link = link.map_err(|source| CallError::Connect { api, endpoint: at(), source })?;
            let version = link
                .versions()
                .choose::<R>()
                .map_err(|source| CallError::Unsupported { api, endpoint: at(), source })?;
            let mut body = BytesMut::new();
            request.encode(version, &mut body).map_err(malformed(false))?;
            let outgoing = Outgoing {
                api,
                version,
                body: body.freeze(),
                answer_max: R::ANSWER_MAX,
                deadline: Duration::ZERO,
            };
            match link.call(outgoing, deadline).await {
                Ok(body) => return R::decode(version, body).map_err(malformed(true)),
                Err(LinkFailure::NotAccepted) => {}
                Err(LinkFailure::Expired) => {
                    return Err(CallError::Expired {
                        api,
                        endpoint: at(),
                        waited: started.elapsed(),
                    });
                }
                Err(LinkFailure::Lost(source)) => {
                    return Err(CallError::Lost { api, endpoint: at(), source });
                }
            }
        }
        let source = ConnectError::Handshake(LinkError::Closed);
        Err(CallError::Connect { api, endpoint: at(), source })
    }

    /// The open connection to an endpoint, or a new one.
    async fn link(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Link, ConnectError> {
        let started = Instant::now();
        let deadline = deadline.min(started + self.shared.options.connect_timeout);
        let slot = Arc::clone(self.state().links.entry(endpoint.clone()).or_default());
        let connected = timeout_at(deadline, async {
            let mut slot = slot.lock().await;
            if let Some(link) = slot.as_ref().filter(|link| link.accepting()) {
                return Ok(link.clone());
            }
            let link = self.connect(endpoint, deadline).await?;
            *slot = Some(link.clone());
            Ok(link)
        });
        connected.await.unwrap_or(Err(ConnectError::Expired { waited: started.elapsed() }))
    }

    async fn connect(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Link, ConnectError> {
        let options = &self.shared.options;
        let (names, tls) = (options.names.as_ref(), options.tls.as_ref());
        let stream = transport::connect(endpoint, names, tls, deadline).await?;
        let handshake = Handshake { credentials: options.credentials.clone(), nonce: nonce()? };
        let timeout = deadline.saturating_duration_since(Instant::now());
        Link::open(stream, &options.client_id, handshake, timeout).await
    }

    /// The endpoint that the route means now.
    async fn locate(
        &self,
        api: ApiId,
        route: Route,
        deadline: Instant,
    ) -> Result<Endpoint, CallError> {
        let node = match (route, &self.shared.bootstrap) {
            (Route::Any, _) | (Route::Controller, Bootstrap::Brokers(_)) => {
                return Ok(self.candidate());
            }
            (Route::Node(node), _) => node,
            (Route::Controller, Bootstrap::Controllers(_)) => {
                self.refresh_if_old(api, deadline).await?;
                let controller = self.state().controller;
                controller.ok_or(CallError::NoLeader { api, what: "active controller" })?
            }
        };
        self.refresh_if_old(api, deadline).await?;
        if let Some(endpoint) = self.state().nodes.get(&node) {
            return Ok(endpoint.clone());
        }
        // It may have joined since the list was read.
        self.refresh(api, deadline).await?;
        if let Some(endpoint) = self.state().nodes.get(&node) {
            return Ok(endpoint.clone());
        }
        if let Some(endpoint) = self.search_other_lists(api, node, deadline).await {
            return Ok(endpoint);
        }
        match route {
            // A controller may lead before it has registered, and is in no list until then. Each
            // attempt asks the next candidate; one that does not lead answers that it does not.
            Route::Controller => Ok(self.candidate()),
            Route::Any | Route::Node(_) => {
                Err(CallError::NoSuchNode { api, node, kind: self.shared.bootstrap.kind() })
            }
        }
    }

    /// The endpoint of a node that the list at hand lacks: a broker that is cut off from the controllers gives an
    /// old one, so every other node is asked for its own.
    async fn search_other_lists(
        &self,
        api: ApiId,
        node: NodeId,
        deadline: Instant,
    ) -> Option<Endpoint> {
        for _ in 1..self.candidates().len() {
            self.look_elsewhere(Route::Any);
            if Instant::now() >= deadline || self.refresh(api, deadline).await.is_err() {
                return None;
            }
            let endpoint = self.state().nodes.get(&node).cloned();
            if endpoint.is_some() {
                return endpoint;
            }
        }
        None
    }

    async fn refresh_if_old(&self, api: ApiId, deadline: Instant) -> Result<(), CallError> {
        let fresh = |at: Instant| at.elapsed() < TOPOLOGY_AGE_MAX;
        if self.state().refreshed.is_some_and(fresh) {
            return Ok(());
        }
        self.refresh(api, deadline).await
    }

    /// Reads the list of nodes again, from the first node that answers.
    async fn refresh(&self, api: ApiId, deadline: Instant) -> Result<(), CallError> {
        let endpoint_type = self.shared.bootstrap.endpoint_type();
        let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
        let tries = self.candidates().len().max(1);
        for attempt in 1.. {
            let endpoint = self.candidate();
            // A share of the time for each, or the first that hangs would use up all of it.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(tries.saturating_sub(attempt) + 1).unwrap_or(1);
            let share = Instant::now() + share.min(self.shared.options.attempt_timeout);
            match self.exchange(&endpoint, &request, share).await {
                Ok(answer) if Code(answer.error_code).is_ok() => {
                    self.learn(&answer);
                    break;
                }
                // A node that cannot say leaves the list as it was.
                Ok(_) => break,
                Err(error) if attempt >= tries => {
                    return Err(CallError::Locate { api, source: Box::new(error) });
                }
                Err(_) => self.look_elsewhere(Route::Any),
            }
        }
        Ok(())
    }

    fn learn(&self, answer: &DescribeClusterResponse) {
        let endpoint = |host: &str, port: i32| Some(Endpoint::new(host, u16::try_from(port).ok()?));
        let nodes = answer.brokers.iter().filter_map(|broker| {
            Some((NodeId::new(broker.broker_id.0)?, endpoint(&broker.host, broker.port)?))
        });
        let mut state = self.state();
        state.nodes = nodes.collect();
        state.controller = NodeId::new(answer.controller_id.0);
        state.refreshed = Some(Instant::now());
        // Connections to endpoints that are no longer anyone's end when their last call does.
        let nodes: Vec<Endpoint> = state.nodes.values().cloned().collect();
        let bootstrap = self.shared.bootstrap.endpoints();
        state.links.retain(|endpoint, _| nodes.contains(endpoint) || bootstrap.contains(endpoint));
    }

    /// After a failure: another node for "any", a fresh look for the rest.
    fn look_elsewhere(&self, route: Route) {
        let mut state = self.state();
        match route {
            Route::Any => state.cursor = state.cursor.wrapping_add(1),
            Route::Node(_) => state.refreshed = None,
            Route::Controller => {
                state.cursor = state.cursor.wrapping_add(1);
                state.refreshed = None;
            }
        }
    }

    /// Known nodes first, the bootstrap list behind them in case all of those have gone.
    fn candidates(&self) -> Vec<Endpoint> {
        let state = self.state();
        let mut candidates: Vec<Endpoint> = state.nodes.values().cloned().collect();
        for endpoint in self.shared.bootstrap.endpoints() {
            if !candidates.contains(endpoint) {
                candidates.push(endpoint.clone());
            }
        }
        candidates
    }

    fn candidate(&self) -> Endpoint {
        let candidates = self.candidates();
        let cursor = self.state().cursor;
        // An empty bootstrap list is refused where it is given.
        let none = || Endpoint::new("no-bootstrap-given", 0);
        candidates.get(cursor % candidates.len().max(1)).cloned().unwrap_or_else(none)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half-way through a change.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn again_after_code(code: Code, effect: Effect) -> bool {
    match effect {
        Effect::Reads => code.passing(),
        Effect::Changes => code.elsewhere(),
    }
}

fn again_after_error(error: &CallError, effect: Effect) -> bool {
    match error {
        CallError::Connect { source, .. } => source.passing(),
        CallError::NoLeader { .. } => true,
        // The look-up only reads, whatever the call itself does.
        CallError::Locate { source, .. } => again_after_error(source, Effect::Reads),
        CallError::Expired { .. } | CallError::Lost { .. } => effect == Effect::Reads,
        CallError::Unsupported { .. }
        | CallError::Malformed { .. }
        | CallError::Answer { .. }
        | CallError::NoSuchNode { .. } => false,
    }
}

/// Whether no connection came about at all.
fn unreachable<A>(outcome: &Result<A, CallError>) -> bool {
    match outcome {
        Err(CallError::Connect { .. }) => true,
        Err(CallError::Locate { source, .. }) => {
            matches!(source.as_ref(), CallError::Connect { .. })
        }
        _ => false,
    }
}

/// Pauses that grow, with none at all before every candidate had its turn.
struct Pause {
    free: usize,
    length: Duration,
}

impl Pause {
    fn new(candidates: usize) -> Self {
        Self { free: candidates.saturating_sub(1), length: PAUSE_MIN }
    }

    fn next(&mut self) -> Duration {
        if self.free > 0 {
            self.free -= 1;
            return Duration::ZERO;
        }
        let length = self.length;
        self.length = (length * 2).min(PAUSE_MAX);
        length
    }
}

/// Printable, without commas, and never the same twice.
fn nonce() -> Result<String, ConnectError> {
    let mut bytes = [0; 24];
    rand::fill(&mut bytes).map_err(|_| ConnectError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
