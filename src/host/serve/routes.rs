//! The paths of the server, and the headers of every answer.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, http};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};

use super::exporter::SharedSnapshot;
use super::gate::{self, Refusal, RequestGate};
use super::heartbeat::Heartbeat;
use super::live::{Play, View, ViewRequest};
use super::subscribers::Joined;
use super::trials::{self, TrialHistory};
use super::{metrics, page, past};

/// Limit of simultaneous pages.
pub(super) const STREAMS_MAX: usize = 128;
/// Size limit for the body of a request.
const BODY_BYTES: usize = 1024;
/// Allows only this server's files, and no inline scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const ALWAYS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(super) struct Served {
    pub gate: RequestGate,
    /// `None` for a recording.
    pub snapshot: Option<SharedSnapshot>,
    /// `None` with `--metrics-only`.
    pub requests: Option<SyncSender<ViewRequest>>,
    /// `None`: the page shows no trials.
    pub trials: Option<trials::TrialShelf>,
    pub streams: Arc<Semaphore>,
    pub heartbeat: Heartbeat,
}

type SharedServer = State<Arc<Served>>;

pub(super) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(show_health))
        .route("/api/session", post(open_session))
        .route("/api/stream/overview", get(|state: SharedServer| stream(state, View::Overview)))
        .route("/api/stream/sockets", get(|state: SharedServer| stream(state, View::Sockets)))
        .route("/api/stream/algorithms", get(|state: SharedServer| stream(state, View::Algorithms)))
        .route("/api/stream/flow/{socket}", get(stream_flow))
        .route("/api/past", get(show_past))
        .route("/api/playback", post(play))
        .route("/api/trials", get(show_trials))
        .route("/api/trials/incidents/{name}", get(show_incident))
        .fallback(get(show_file))
        .layer(middleware::from_fn_with_state(Arc::clone(&served), guard))
        .with_state(served)
}

/// Whether a path needs no token. The page's files contain nothing about this host.
fn is_open(path: &str) -> bool {
    !(path == "/metrics" || path.starts_with("/api/"))
}

async fn guard(State(served): SharedServer, request: Request, next: Next) -> Response {
    let checked = served.gate.check(request.method(), request.headers(), is_open(request.uri().path()));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in ALWAYS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = text_response(self.0, self.1);
        if self.0 == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn text_response(status: StatusCode, what: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{what}\n")).into_response()
}

fn metrics_only() -> Response {
    text_response(StatusCode::NOT_FOUND, "this server shows /metrics only: it was started with `--metrics-only`")
}

async fn show_file(State(served): SharedServer, uri: http::Uri) -> Response {
    if served.requests.is_none() && uri.path() == "/" {
        return metrics_only();
    }
    match page::find(uri.path()) {
        Some(file) => ([(header::CONTENT_TYPE, file.content_type)], file.content).into_response(),
        None => {
            text_response(StatusCode::NOT_FOUND, "there is nothing here: the page is at /, metrics are at /metrics")
        }
    }
}

/// For load balancers and supervisors. It needs no token because it shows only whether sampling is running.
async fn show_health(State(served): SharedServer) -> Response {
    match served.heartbeat.stalled() {
        None => text_response(StatusCode::OK, "ok: sampling is running"),
        Some(why) => text_response(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

async fn show_metrics(State(served): SharedServer, headers: HeaderMap) -> Response {
    let Some(snapshot) = &served.snapshot else {
        return text_response(StatusCode::NOT_FOUND, "a recording has no metrics: only a live host has them");
    };
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_openmetrics = accepted.contains("application/openmetrics-text");
    match snapshot.answer(is_openmetrics) {
        Some(text) => {
            let content_type = if is_openmetrics { metrics::OPENMETRICS } else { metrics::PLAIN_TEXT };
            ([(header::CONTENT_TYPE, content_type)], text).into_response()
        }
        None => {
            text_response(StatusCode::SERVICE_UNAVAILABLE, "the first sweep is still running: try again in a moment")
        }
    }
}

/// Returns the token of the header as a cookie, so that no script can read it.
async fn open_session(headers: HeaderMap) -> Response {
    let Some(token) = gate::bearer(&headers) else {
        return StatusCode::NO_CONTENT.into_response(); // no token is needed, or the cookie is already set
    };
    let secure = if gate::is_over_tls(&headers) { "; Secure" } else { "" };
    let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/{secure}", gate::COOKIE);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

async fn show_past(State(served): SharedServer, RawQuery(query): RawQuery) -> Response {
    let Some((quantity, sockets)) = past::parse(query.as_deref().unwrap_or_default()) else {
        let most = past::SOCKETS_MAX;
        let expected = format!("expected `quantity=cwnd|srtt|goodput` and `sockets=` with 1 to {most} numbers");
        return text_response(StatusCode::BAD_REQUEST, &expected);
    };
    let (to, answer) = oneshot::channel();
    let sent = served.requests.as_ref().map(|requests| requests.try_send(ViewRequest::Past(quantity, sockets, to)));
    match (sent, answer.await) {
        (Some(Ok(())), Ok(document)) => json(document),
        _ => busy(),
    }
}

async fn play(State(served): SharedServer, body: Body) -> Response {
    let bytes = to_bytes(body, BODY_BYTES).await.unwrap_or_default();
    let Ok(wanted) = serde_json::from_slice::<Play>(&bytes) else {
        return text_response(StatusCode::BAD_REQUEST, "expected an object with `speed` or `seek_ms`");
    };
    match served.requests.as_ref().map(|requests| requests.try_send(ViewRequest::Play(wanted))) {
        Some(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        _ => busy(),
    }
}

/// `seen=NAME` asks for the guard's earlier looks too, unless the look of that name is still the latest.
async fn show_trials(State(served): SharedServer, RawQuery(query): RawQuery) -> Response {
    let Some(trials) = served.trials.clone() else { return StatusCode::NO_CONTENT.into_response() };
    let read = move || {
        let mut words = query.as_deref().unwrap_or_default().split('&');
        trials.now(words.find_map(|word| word.strip_prefix("seen=")).map_or(TrialHistory::Without, TrialHistory::Since))
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(document) => json(document),
        Err(_) => text_response(StatusCode::INTERNAL_SERVER_ERROR, "the trials could not be read"),
    }
}

async fn show_incident(State(served): SharedServer, Path(name): Path<String>) -> Response {
    let incident = served.trials.clone().map(|trials| tokio::task::spawn_blocking(move || trials.incident(&name)));
    match futures_util::future::OptionFuture::from(incident).await {
        Some(Ok(Some(document))) => json(document),
        _ => text_response(StatusCode::NOT_FOUND, "there is no incident with that name"),
    }
}

fn json(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

fn busy() -> Response {
    let mut response =
        text_response(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once: try again in a moment");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

async fn stream_flow(state: SharedServer, Path(socket): Path<String>) -> Response {
    match socket.parse() {
        Ok(socket) => stream(state, View::Flow(socket)).await,
        Err(_) => text_response(StatusCode::BAD_REQUEST, "expected the number of a socket"),
    }
}

/// Streams server-sent events: the whole view, then its changes.
async fn stream(State(served): SharedServer, view: View) -> Response {
    let Some(requests) = served.requests.clone() else { return metrics_only() };
    let Ok(place) = Arc::clone(&served.streams).try_acquire_owned() else { return busy() };
    let Some(joined) = join(&requests, view).await else { return busy() };
    let reader = StreamReader { requests, view, joined: Some(joined), frames: None, _place: place };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let frame = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), reader))
    }));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn join(requests: &SyncSender<ViewRequest>, view: View) -> Option<Joined> {
    let (to, answer) = oneshot::channel();
    requests.try_send(ViewRequest::Join(view, to)).ok()?;
    answer.await.ok()
}

struct StreamReader {
    requests: SyncSender<ViewRequest>,
    view: View,
    joined: Option<Joined>,
    frames: Option<broadcast::Receiver<Bytes>>,
    _place: OwnedSemaphorePermit,
}

impl StreamReader {
    /// Returns the next frame. `None` once the source has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(joined) = self.joined.take() {
            self.frames = Some(joined.frames);
            return Some(joined.first);
        }
        match self.frames.as_mut()?.recv().await {
            Ok(frame) => Some(frame),
            Err(RecvError::Closed) => None,
            // The page gets the number of missed frames, and then the whole view again.
            Err(RecvError::Lagged(missed)) => {
                self.joined = join(&self.requests, self.view).await;
                self.joined.is_some().then(|| super::frame::encode("missed", &missed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_reader_gets_the_number_of_missed_frames_and_the_whole_view_again() {
        let (requests, asked) = super::super::live::channel();
        let queue = broadcast::channel(4).0;
        let sender = queue.clone();
        let answering = std::thread::spawn(move || {
            while let Ok(ViewRequest::Join(_, to)) = asked.recv() {
                to.send(Joined { first: Bytes::from_static(b"all"), frames: sender.subscribe() }).unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let _place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let joined = join(&requests, View::Sockets).await;
            let mut reader = StreamReader { requests, view: View::Sockets, joined, frames: None, _place };
            assert_eq!(reader.next().await.unwrap(), "all");
            (0..10).for_each(|n| drop(queue.send(Bytes::from(n.to_string()))));
            assert_eq!(reader.next().await.unwrap(), "event: missed\ndata: 6\n\n");
            assert_eq!(reader.next().await.unwrap(), "all");
            queue.send(Bytes::from_static(b"next")).unwrap();
            assert_eq!(reader.next().await.unwrap(), "next");
        });
        answering.join().unwrap();
    }
}
