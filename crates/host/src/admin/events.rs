//! `GET /v1/events`: what happened, at once or as it comes.

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
use sublet_client::messages::{self, AskEvents, EventGap, VERSION};
use sublet_types::TenantName;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http_error::HttpError;
use super::long_calls::LongCall;
use super::replies::{Shared, fault_of_query, named};
use crate::observe::events::{Event, Events, Excerpt, FOLLOWERS_MAX, Following};

/// Events that are looked at for one answer, or for one piece of a stream.
const EVENTS_MAX: usize = 1000;

/// How often a stream says that it is there.
const STILL_HERE: Duration = Duration::from_secs(15);

/// A place among the events of one run of the daemon: `1764202749123-42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventPlace {
    run: u64,
    seq: u64,
}

impl FromStr for EventPlace {
    type Err = HttpError;

    fn from_str(text: &str) -> Result<EventPlace, HttpError> {
        let parts = text.split_once('-');
        let place = parts.and_then(|(run, seq)| {
            Some(EventPlace {
                run: run.parse().ok()?,
                seq: seq.parse().ok()?,
            })
        });
        place.ok_or_else(|| {
            HttpError::new(
                StatusCode::BAD_REQUEST,
                format_args!("{text:?} is no place among events"),
                "say what `next` of an answer said, or the id of the last event",
            )
        })
    }
}

/// Which events somebody is shown.
struct Wanted {
    since_millis: u64,
    tenant: Option<TenantName>,
}

impl Wanted {
    fn has(&self, event: &Event) -> bool {
        let tenant = self.tenant.as_ref();
        event.at_millis >= self.since_millis
            && tenant.is_none_or(|tenant| event.object().tenant() == Some(tenant))
    }
}

/// Where somebody begins.
#[derive(Clone, Copy)]
struct Beginning {
    seq: u64,
    /// What was before is of another run.
    is_anew: bool,
}

impl Beginning {
    fn of(events: &Events, after: Option<&str>, else_at: u64) -> Result<Beginning, HttpError> {
        let Some(after) = after else {
            return Ok(Beginning {
                seq: else_at,
                is_anew: false,
            });
        };
        let place: EventPlace = after.parse()?;
        let is_anew = place.run != events.run();
        Ok(Beginning {
            seq: if is_anew { 0 } else { place.seq },
            is_anew,
        })
    }
}

/// What happened: all that is in memory, or a stream for who asks for one.
pub(super) async fn events(
    State(daemon): Shared,
    Extension(call): Extension<LongCall>,
    headers: HeaderMap,
    asked: Result<Query<AskEvents>, QueryRejection>,
) -> Result<Response, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "ask ?after=PLACE&since=UNIX_SECONDS&tenant=NAME";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let Query(asked) = asked.map_err(wrong)?;
    let wanted = Wanted {
        since_millis: asked.since.unwrap_or(0).saturating_mul(1000),
        tenant: asked.tenant.as_deref().map(named).transpose()?,
    };
    let events = daemon.events();
    if !asks_for_stream(&headers) {
        let from = Beginning::of(events, asked.after.as_deref(), events.forgotten())?;
        return Ok(Json(page(events, from, &wanted)).into_response());
    }
    let last_id = headers.get("last-event-id");
    let last_id = last_id.and_then(|value| value.to_str().ok());
    let after = last_id.or(asked.after.as_deref());
    // Without a word of what was before, from now on.
    let begins_at = match asked.since {
        Some(_) => events.forgotten(),
        None => events.latest(),
    };
    let from = Beginning::of(events, after, begins_at)?;
    let place = events.follow().ok_or_else(|| {
        HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format_args!("{FOLLOWERS_MAX} follow the events already"),
            "wait for one of them to leave, or ask again and again with ?after=PLACE",
        )
    })?;
    let stream = Stream {
        news: events.news(),
        events: events.clone(),
        seq: from.seq,
        wanted,
        call,
        _place: place,
    };
    Ok(stream.answer(from))
}

fn asks_for_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.contains("text/event-stream")
    })
}

/// What is in memory, as much as one answer has.
fn page(events: &Events, from: Beginning, wanted: &Wanted) -> messages::Events {
    let Excerpt {
        events: all,
        lost,
        more,
    } = events.after(from.seq, EVENTS_MAX);
    let next = all.last().map_or(from.seq, |last| last.seq);
    let shown = all.iter().filter(|event| wanted.has(event));
    messages::Events {
        version: VERSION,
        events: shown.map(|event| (&**event).into()).collect(),
        since: events.since(),
        lost: (!from.is_anew).then_some(lost),
        next: format!("{}-{next}", events.run()),
        more,
    }
}

/// What one who follows is sent. Nothing waits for who reads slowly: what is forgotten meanwhile is told as a gap.
struct Stream {
    events: Events,
    /// The number of the event that was looked at last.
    seq: u64,
    wanted: Wanted,
    news: watch::Receiver<u64>,
    call: LongCall,
    _place: Following,
}

impl Stream {
    fn answer(self, from: Beginning) -> Response {
        let mut begins = String::new();
        if from.is_anew {
            self.write_gap(&mut begins, None);
        }
        self.write_place(&mut begins);
        begins.push('\n');
        let pieces = unfold((self, Some(begins)), async |(mut stream, begins)| {
            let piece = match begins {
                Some(begins) => begins,
                None => stream.next().await,
            };
            stream.call.goes_on();
            Some((Ok::<_, std::convert::Infallible>(piece), (stream, None)))
        });
        let head = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (head, Body::from_stream(pieces)).into_response()
    }

    /// What happened next, once it has; or a word that nothing did.
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
                self.write_place(&mut text);
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
            if self.wanted.has(event) {
                self.write_place(text);
                write_json(text, &messages::Event::from(&**event));
            }
        }
    }

    fn write_gap(&self, text: &mut String, lost: Option<u64>) {
        text.push_str("event: gap\n");
        self.write_place(text);
        write_json(text, &EventGap { lost });
    }

    fn write_place(&self, text: &mut String) {
        let _ = writeln!(text, "id: {}-{}", self.events.run(), self.seq);
    }
}

fn write_json(text: &mut String, what: &impl serde::Serialize) {
    let json = serde_json::to_string(what).unwrap_or_default();
    let _ = write!(text, "data: {json}\n\n");
}
