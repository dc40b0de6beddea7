//! One control line: from bytes to a message and back.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LINE_BYTES_MAX;
use super::error::ControlError;
use super::message::{ControlLine, ControlMessage};

/// The field that says which message it is.
#[derive(Deserialize)]
struct LineKind<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// A message with the word for its kind before its fields.
#[derive(Serialize)]
struct KindAndBody<'a, T: Serialize> {
    kind: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// The fields of a message that has none.
#[derive(Serialize, Deserialize)]
struct EmptyBody {}

/// Decodes a line without its end. Unknown fields are ignored. The error says what is wrong with the line.
pub fn decode_line(line: &[u8]) -> Result<ControlLine, ControlError> {
    let LineKind { kind } =
        serde_json::from_slice(line).map_err(|source| ControlError::NoKind { source })?;
    let message = match &*kind {
        "hello" => ControlMessage::Hello(body("hello", line)?),
        "borrow" => ControlMessage::Borrow(body("borrow", line)?),
        "grant" => ControlMessage::Grant(body("grant", line)?),
        "return" => ControlMessage::Return(body("return", line)?),
        "recall" => ControlMessage::Recall(body("recall", line)?),
        "recalled" => ControlMessage::Recalled(body("recalled", line)?),
        "end" => ControlMessage::End(body("end", line)?),
        "audit" => ControlMessage::Audit(body("audit", line)?),
        "claim" => ControlMessage::Claim(body("claim", line)?),
        "leave" => body("leave", line).map(|EmptyBody {}| ControlMessage::Leave)?,
        "bye" => ControlMessage::Bye(body("bye", line)?),
        "ping" => ControlMessage::Ping(body("ping", line)?),
        "pong" => ControlMessage::Pong(body("pong", line)?),
        "report" => ControlMessage::Report(body("report", line)?),
        "cluster_report" => ControlMessage::ClusterReport(body("cluster_report", line)?),
        "members" => ControlMessage::Members(body("members", line)?),
        "advise" => ControlMessage::Advise(body("advise", line)?),
        "ask_view" => ControlMessage::AskView(body("ask_view", line)?),
        "view" => ControlMessage::View(body("view", line)?),
        _ => return Ok(ControlLine::UnknownKind),
    };
    Ok(ControlLine::Message(message))
}

fn body<T: DeserializeOwned>(kind: &'static str, line: &[u8]) -> Result<T, ControlError> {
    serde_json::from_slice(line).map_err(|source| ControlError::Body { kind, source })
}

/// Appends a message as a line with its end to `out`.
pub fn encode_line(message: &ControlMessage, out: &mut Vec<u8>) {
    let begin = out.len();
    match message {
        ControlMessage::Hello(body) => append(message, body, out),
        ControlMessage::Borrow(body) => append(message, body, out),
        ControlMessage::Grant(body) => append(message, body, out),
        ControlMessage::Return(body) => append(message, body, out),
        ControlMessage::Recall(body) => append(message, body, out),
        ControlMessage::Recalled(body) => append(message, body, out),
        ControlMessage::End(body) => append(message, body, out),
        ControlMessage::Audit(body) => append(message, body, out),
        ControlMessage::Claim(body) => append(message, body, out),
        ControlMessage::Leave => append(message, &EmptyBody {}, out),
        ControlMessage::Bye(body) => append(message, body, out),
        ControlMessage::Ping(body) => append(message, body, out),
        ControlMessage::Pong(body) => append(message, body, out),
        ControlMessage::Report(body) => append(message, body, out),
        ControlMessage::ClusterReport(body) => append(message, body, out),
        ControlMessage::Members(body) => append(message, body, out),
        ControlMessage::Advise(body) => append(message, body, out),
        ControlMessage::AskView(body) => append(message, body, out),
        ControlMessage::View(body) => append(message, body, out),
    }
    out.push(b'\n');
    debug_assert!(
        out.len() - begin <= LINE_BYTES_MAX,
        "each list of a message has a bound"
    );
}

fn append<T: Serialize>(message: &ControlMessage, body: &T, out: &mut Vec<u8>) {
    let line = KindAndBody {
        kind: message.kind(),
        body,
    };
    serde_json::to_writer(out, &line)
        .expect("a vector takes all, and all keys are numbers or words");
}
