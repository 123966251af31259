//! What is at which path, and what every answer says to the browser.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::audience::Joined;
use super::exporter::Shelf;
use super::gate::{self, Gate, Refusal};
use super::live::{Ask, PageView, Play};
use super::pulse::Pulse;
use super::trials::{self, History};
use super::{metrics, page, past};

/// Pages that are shown at the same time.
pub(super) const STREAMS_MAX: usize = 128;
/// What a page says in one request.
const BODY_BYTES: usize = 1024;
/// Nothing but our own files, and no script in the page itself.
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
    pub gate: Gate,
    /// None: a recording has no metrics.
    pub shelf: Option<Shelf>,
    /// None: metrics only.
    pub asks: Option<SyncSender<Ask>>,
    /// None: the page shows no trials.
    pub trials: Option<trials::TrialShelf>,
    /// Room for pages.
    pub streams: Arc<Semaphore>,
    pub pulse: Pulse,
}

type Shared = State<Arc<Served>>;

pub(super) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(show_health))
        .route("/api/session", post(open_session))
        .route("/api/stream/overview", get(|state: Shared| stream(state, PageView::Overview)))
        .route("/api/stream/sockets", get(|state: Shared| stream(state, PageView::Sockets)))
        .route("/api/stream/algorithms", get(|state: Shared| stream(state, PageView::Algorithms)))
        .route("/api/stream/flow/{socket}", get(stream_flow))
        .route("/api/past", get(show_past))
        .route("/api/playback", post(play))
        .route("/api/trials", get(show_trials))
        .route("/api/trials/incidents/{name}", get(show_incident))
        .fallback(get(show_file))
        .layer(middleware::from_fn_with_state(Arc::clone(&served), guard))
        .with_state(served)
}

/// Files of the page are no secret: they say nothing of this host.
fn is_open(path: &str) -> bool {
    !(path == "/metrics" || path.starts_with("/api/"))
}

async fn guard(State(served): Shared, request: Request, next: Next) -> Response {
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
        let mut response = said(self.0, self.1);
        if self.0 == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn said(status: StatusCode, what: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{what}\n")).into_response()
}

async fn show_file(State(served): Shared, uri: http::Uri) -> Response {
    let is_page = uri.path() == "/";
    if served.asks.is_none() && is_page {
        return said(StatusCode::NOT_FOUND, "this server shows /metrics only: it was started with `--metrics-only`");
    }
    match page::find(uri.path()) {
        Some(file) => ([(header::CONTENT_TYPE, file.content_type)], file.content).into_response(),
        None => said(StatusCode::NOT_FOUND, "nothing is here: the page is at /, metrics are at /metrics"),
    }
}

/// For load balancers and supervisors: nothing but whether sampling goes on, so that no token is asked for.
async fn show_health(State(served): Shared) -> Response {
    match served.pulse.stalled() {
        None => said(StatusCode::OK, "sampling goes on"),
        Some(why) => said(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

async fn show_metrics(State(served): Shared, headers: HeaderMap) -> Response {
    let Some(shelf) = &served.shelf else {
        return said(StatusCode::NOT_FOUND, "a recording has no metrics: they are of a host as it is");
    };
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_openmetrics = accepted.contains("application/openmetrics-text");
    match shelf.answer(is_openmetrics) {
        Some(text) => {
            let content_type = if is_openmetrics { metrics::OPENMETRICS } else { metrics::PLAIN_TEXT };
            ([(header::CONTENT_TYPE, content_type)], text).into_response()
        }
        None => said(StatusCode::SERVICE_UNAVAILABLE, "the first sweep goes on: try again in a moment"),
    }
}

/// Gives the token that was sent in the header back as a cookie, which a stream of events can send.
async fn open_session(headers: HeaderMap) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((_, token)) = bearer.and_then(|value| value.split_once(' ')) else {
        return StatusCode::NO_CONTENT.into_response(); // none is needed, or the cookie is there
    };
    // A browser that came through a TLS proxy sends it nowhere else.
    let secure = if gate::is_over_tls(&headers) { "; Secure" } else { "" };
    let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/{secure}", gate::COOKIE, token.trim());
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// What is known of the past of the sockets that the query names.
async fn show_past(State(served): Shared, RawQuery(query): RawQuery) -> Response {
    let Some((quantity, sockets)) = past::parse(query.as_deref().unwrap_or_default()) else {
        let most = past::SOCKETS_MAX;
        let expected = format!("expected `quantity=cwnd|srtt|goodput` and `sockets=` with 1 to {most} numbers");
        return said(StatusCode::BAD_REQUEST, &expected);
    };
    let (to, answer) = oneshot::channel();
    let sent = served.asks.as_ref().map(|asks| asks.try_send(Ask::Past(quantity, sockets, to)));
    match (sent, answer.await) {
        (Some(Ok(())), Ok(document)) => json(document),
        _ => busy(),
    }
}

async fn play(State(served): Shared, body: Body) -> Response {
    let bytes = to_bytes(body, BODY_BYTES).await.unwrap_or_default();
    let Ok(wanted) = serde_json::from_slice::<Play>(&bytes) else {
        return said(StatusCode::BAD_REQUEST, "expected an object with `speed` or `seek_ms`");
    };
    match served.asks.as_ref().map(|asks| asks.try_send(Ask::Play(wanted))) {
        Some(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        _ => busy(),
    }
}

/// What is known of trials; nothing where the server tells nothing of them. With `seen=NAME` the earlier looks of the guard
/// are part of it, unless the look of that name is its latest.
async fn show_trials(State(served): Shared, RawQuery(query): RawQuery) -> Response {
    let Some(trials) = served.trials.clone() else { return StatusCode::NO_CONTENT.into_response() };
    let read = move || {
        let mut words = query.as_deref().unwrap_or_default().split('&');
        trials.now(words.find_map(|word| word.strip_prefix("seen=")).map_or(History::Without, History::Since))
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(document) => json(document),
        Err(_) => said(StatusCode::INTERNAL_SERVER_ERROR, "the trials could not be read"),
    }
}

async fn show_incident(State(served): Shared, Path(name): Path<String>) -> Response {
    let incident = served.trials.clone().map(|trials| tokio::task::spawn_blocking(move || trials.incident(&name)));
    match futures_util::future::OptionFuture::from(incident).await {
        Some(Ok(Some(document))) => json(document),
        _ => said(StatusCode::NOT_FOUND, "there is no incident of that name"),
    }
}

fn json(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

fn busy() -> Response {
    let mut response = said(StatusCode::SERVICE_UNAVAILABLE, "too many pages ask at once: try again in a moment");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

async fn stream_flow(state: Shared, Path(socket): Path<String>) -> Response {
    match socket.parse() {
        Ok(socket) => stream(state, PageView::Flow(socket)).await,
        Err(_) => said(StatusCode::BAD_REQUEST, "expected the number of a socket"),
    }
}

/// Server-sent events: what the view is, then what changes; with what a slow reader missed.
async fn stream(State(served): Shared, view: PageView) -> Response {
    let Some(asks) = served.asks.clone() else {
        return said(StatusCode::NOT_FOUND, "this server shows /metrics only: it was started with `--metrics-only`");
    };
    let Ok(place) = Arc::clone(&served.streams).try_acquire_owned() else { return busy() };
    let Some(joined) = join(&asks, view).await else { return busy() };
    let reader = Reader { asks, view, joined: Some(joined), frames: None, _place: place };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let frame = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), reader))
    }));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn join(asks: &SyncSender<Ask>, view: PageView) -> Option<Joined> {
    let (to, answer) = oneshot::channel();
    match asks.try_send(Ask::Join(view, to)) {
        Ok(()) => answer.await.ok(),
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
    }
}

struct Reader {
    asks: SyncSender<Ask>,
    view: PageView,
    joined: Option<Joined>,
    frames: Option<tokio::sync::broadcast::Receiver<Bytes>>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// The next frame; none when the source has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(joined) = self.joined.take() {
            self.frames = Some(joined.frames);
            return Some(joined.first);
        }
        match self.frames.as_mut()?.recv().await {
            Ok(frame) => Some(frame),
            Err(RecvError::Closed) => None,
            // What was missed cannot be made up: it is counted, and the page gets everything once more.
            Err(RecvError::Lagged(missed)) => {
                self.joined = join(&self.asks, self.view).await;
                self.joined.is_some().then(|| super::frame::encode("missed", &missed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    /// A page that reads slower than frames come loses frames. It learns how many, and gets everything once more.
    #[test]
    fn a_slow_reader_is_told_what_it_missed_and_begins_anew() {
        let (asks, asked) = super::super::live::channel();
        let queue = broadcast::channel(4).0;
        let sender = queue.clone();
        let answering = std::thread::spawn(move || {
            while let Ok(Ask::Join(_, to)) = asked.recv() {
                to.send(Joined { first: Bytes::from_static(b"all"), frames: sender.subscribe() }).unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let _place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let joined = join(&asks, PageView::Sockets).await;
            let mut reader = Reader { asks, view: PageView::Sockets, joined, frames: None, _place };
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
