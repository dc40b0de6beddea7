//! `GET /v1/events`: events, at once or as they come.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use futures_util::stream::unfold;
use sublet_client::messages::{self, EventGap, EventsQuery, VERSION};
use sublet_types::TenantName;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http_error::HttpError;
use super::long_calls::LongCall;
use super::replies::{DaemonState, describe_query_error, parse_tenant_name};
use crate::observe::events::{Event, Events, Excerpt, FOLLOWERS_MAX, FollowerPermit};

/// The most events that are read for one answer, or for one piece of a stream.
const EVENTS_MAX: usize = 1000;

/// How often a stream sends a sign that it is still there.
const STILL_HERE: Duration = Duration::from_secs(15);

/// A position among the events of one run of the daemon: `1764202749123-42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventCursor {
    run: u64,
    seq: u64,
}

impl FromStr for EventCursor {
    type Err = HttpError;

    fn from_str(text: &str) -> Result<EventCursor, HttpError> {
        let parts = text.split_once('-');
        let place = parts.and_then(|(run, seq)| {
            Some(EventCursor {
                run: run.parse().ok()?,
                seq: seq.parse().ok()?,
            })
        });
        place.ok_or_else(|| {
            HttpError::new(
                StatusCode::BAD_REQUEST,
                format_args!("{text:?} is no place among events"),
                "give the `next` of an answer, or the id of the last event",
            )
        })
    }
}

/// Which events a caller gets.
struct EventFilter {
    since_millis: u64,
    tenant: Option<TenantName>,
}

impl EventFilter {
    fn matches(&self, event: &Event) -> bool {
        let tenant = self.tenant.as_ref();
        event.at_millis >= self.since_millis
            && tenant.is_none_or(|tenant| event.object().tenant() == Some(tenant))
    }
}

/// Where a caller begins.
#[derive(Clone, Copy)]
struct StreamStart {
    seq: u64,
    /// The caller's position is of another run.
    is_anew: bool,
}

impl StreamStart {
    fn of(events: &Events, after: Option<&str>, else_at: u64) -> Result<StreamStart, HttpError> {
        let Some(after) = after else {
            return Ok(StreamStart {
                seq: else_at,
                is_anew: false,
            });
        };
        let place: EventCursor = after.parse()?;
        let is_anew = place.run != events.run();
        Ok(StreamStart {
            seq: if is_anew { 0 } else { place.seq },
            is_anew,
        })
    }
}

/// The events in memory, or a stream if the caller asks for one.
pub(super) async fn events(
    State(daemon): DaemonState,
    Extension(call): Extension<LongCall>,
    headers: HeaderMap,
    asked: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "ask ?after=PLACE&since=UNIX_SECONDS&tenant=NAME";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let Query(asked) = asked.map_err(wrong)?;
    let wanted = EventFilter {
        since_millis: asked.since.unwrap_or(0).saturating_mul(1000),
        tenant: asked.tenant.as_deref().map(parse_tenant_name).transpose()?,
    };
    let events = daemon.events();
    if !asks_for_stream(&headers) {
        let from = StreamStart::of(events, asked.after.as_deref(), events.forgotten())?;
        return Ok(Json(page(events, from, &wanted)).into_response());
    }
    let last_id = headers.get("last-event-id");
    let last_id = last_id.and_then(|value| value.to_str().ok());
    let after = last_id.or(asked.after.as_deref());
    // Without a given time, the stream begins now.
    let begins_at = match asked.since {
        Some(_) => events.forgotten(),
        None => events.latest(),
    };
    let from = StreamStart::of(events, after, begins_at)?;
    let place = events.follow().ok_or_else(|| {
        HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format_args!("{FOLLOWERS_MAX} callers follow the events already"),
            "wait for one of them to leave, or ask again and again with ?after=PLACE",
        )
    })?;
    let stream = EventStream {
        news: events.subscribe(),
        events: events.clone(),
        seq: from.seq,
        wanted,
        call,
        _place: place,
    };
    Ok(stream.into_response(from))
}

fn asks_for_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.contains("text/event-stream")
    })
}

/// The events in memory, as many as one answer has.
fn page(events: &Events, from: StreamStart, wanted: &EventFilter) -> messages::EventList {
    let Excerpt {
        events: all,
        lost,
        more,
    } = events.after(from.seq, EVENTS_MAX);
    let next = all.last().map_or(from.seq, |last| last.seq);
    let shown = all.iter().filter(|event| wanted.matches(event));
    messages::EventList {
        version: VERSION,
        events: shown.map(|event| (&**event).into()).collect(),
        since: events.since(),
        lost: (!from.is_anew).then_some(lost),
        next: format!("{}-{next}", events.run()),
        more,
    }
}

/// What a follower is sent. Nothing waits for a slow reader. Events that are dropped meanwhile are reported as a gap.
struct EventStream {
    events: Events,
    /// The number of the event that was read last.
    seq: u64,
    wanted: EventFilter,
    news: watch::Receiver<u64>,
    call: LongCall,
    _place: FollowerPermit,
}

impl EventStream {
    fn into_response(self, from: StreamStart) -> Response {
        let mut begins = String::new();
        if from.is_anew {
            self.write_gap(&mut begins, None);
        }
        self.write_cursor(&mut begins);
        begins.push('\n');
        let pieces = unfold((self, Some(begins)), async |(mut stream, begins)| {
            let piece = match begins {
                Some(begins) => begins,
                None => stream.next().await,
            };
            stream.call.record_progress();
            Some((Ok::<_, std::convert::Infallible>(piece), (stream, None)))
        });
        let head = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (head, Body::from_stream(pieces)).into_response()
    }

    /// The next event, once it has happened, or a line that nothing did.
    async fn next(&mut self) -> String {
        let mut text = String::new();
        loop {
            self.news.mark_unchanged();
            let excerpt = self.events.after(self.seq, EVENTS_MAX);
            self.write(&excerpt, &mut text);
            if !text.is_empty() {
                return text;
            }
            if excerpt.more {
                continue;
            }
            let news = timeout(STILL_HERE, self.news.changed());
            if !matches!(news.await, Ok(Ok(()))) {
                self.write_cursor(&mut text);
                text.push_str(": still here\n\n");
                return text;
            }
        }
    }

    fn write(&mut self, excerpt: &Excerpt, text: &mut String) {
        if excerpt.lost > 0 {
            self.seq += excerpt.lost;
            self.write_gap(text, Some(excerpt.lost));
        }
        for event in &excerpt.events {
            self.seq = event.seq;
            if self.wanted.matches(event) {
                self.write_cursor(text);
                write_json(text, &messages::Event::from(&**event));
            }
        }
    }

    fn write_gap(&self, text: &mut String, lost: Option<u64>) {
        text.push_str("event: gap\n");
        self.write_cursor(text);
        write_json(text, &EventGap { lost });
    }

    fn write_cursor(&self, text: &mut String) {
        let _ = writeln!(text, "id: {}-{}", self.events.run(), self.seq);
    }
}

fn write_json(text: &mut String, what: &impl serde::Serialize) {
    let json = serde_json::to_string(what).unwrap_or_default();
    let _ = write!(text, "data: {json}\n\n");
}
