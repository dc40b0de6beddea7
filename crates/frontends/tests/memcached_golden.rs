//! Requests and their replies in a readable form (`golden/*.txt`).
//!
//! A story begins with `== name`, followed by `[settings]` if they differ from the defaults. Its lines and their parts
//! have these forms:
//!
//! - `>` is sent.
//! - `<` must come back.
//! - `<closed` means that the connection closes.
//! - `{n}` stands for any number.
//! - `\xHH` stands for a byte.
//! - `{251*k}` stands for that many.
//!
//! Lines end with `\r\n` unless they end with `\`.

mod harness;

use std::path::PathBuf;

use harness::{Client, Harness};
use sublet_frontends::memcached::session::LoopAction;
use sublet_frontends::memcached::settings::{Protocol, Settings};

/// One exchange: what is sent, and what must come back.
#[derive(Debug, Default)]
struct Exchange {
    line: usize,
    sent: Vec<u8>,
    expected: Vec<u8>,
    closes: bool,
}

#[derive(Debug)]
struct Story {
    name: String,
    settings: Settings,
    exchanges: Vec<Exchange>,
}

#[test]
fn every_story_goes_as_written() {
    for (file, story) in stories() {
        let harness = Harness::new(story.settings.clone());
        let mut client = harness.connect();
        for exchange in &story.exchanges {
            let replies = client.send(&exchange.sent);
            check(&file, &story.name, exchange, &replies, &client);
        }
    }
}

#[test]
fn stories_go_the_same_byte_by_byte() {
    for (file, story) in stories() {
        let harness = Harness::new(story.settings.clone());
        let mut client = harness.connect();
        for exchange in &story.exchanges {
            let mut replies = Vec::new();
            for byte in &exchange.sent {
                replies.append(&mut client.send(&[*byte]));
            }
            if !story.name.contains("pipelined") {
                check(&file, &story.name, exchange, &replies, &client);
            }
        }
    }
}

fn check(file: &str, story: &str, exchange: &Exchange, replies: &[u8], client: &Client<'_>) {
    let position = format!("{file}:{}, {story}", exchange.line);
    assert!(
        agrees(&exchange.expected, replies),
        "{position}\nsent     {}\nexpected {}\ngot      {}",
        exchange.sent.escape_ascii(),
        exchange.expected.escape_ascii(),
        replies.escape_ascii()
    );
    let closed = matches!(client.last, LoopAction::Close | LoopAction::Shutdown { .. });
    assert_eq!(closed, exchange.closes, "{position}: closed");
}

/// Returns whether a reply is as expected. Any number may stand for `{n}`.
fn agrees(expected: &[u8], got: &[u8]) -> bool {
    match expected.strip_prefix(b"{n}") {
        Some(rest) => {
            let digits = got
                .iter()
                .take_while(|b| b.is_ascii_digit() || **b == b'.')
                .count();
            digits > 0 && agrees(rest, &got[digits..])
        }
        None => match (expected.split_first(), got.split_first()) {
            (None, None) => true,
            (Some((a, expected)), Some((b, got))) => a == b && agrees(expected, got),
            _ => false,
        },
    }
}

fn stories() -> Vec<(String, Story)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the golden folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        all.extend(parse(&text).into_iter().map(|story| (name.clone(), story)));
    }
    assert!(all.len() > 20, "stories are missing");
    all
}

fn parse(text: &str) -> Vec<Story> {
    let mut stories: Vec<Story> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("== ") {
            stories.push(story(title));
            continue;
        }
        let Some(story) = stories.last_mut() else {
            continue;
        };
        let exchanges = &mut story.exchanges;
        if let Some(sent) = line.strip_prefix("> ").or((line == ">").then_some("")) {
            if exchanges
                .last()
                .is_none_or(|last| !last.expected.is_empty() || last.closes || last.line == 0)
            {
                exchanges.push(Exchange {
                    line: number + 1,
                    ..Exchange::default()
                });
            }
            exchanges.last_mut().expect("one").sent.extend(bytes(sent));
        } else if line == "<closed" {
            exchanges.last_mut().expect("something sent").closes = true;
        } else if let Some(reply) = line.strip_prefix("< ").or((line == "<").then_some("")) {
            exchanges
                .last_mut()
                .expect("something sent")
                .expected
                .extend(bytes(reply));
        } else {
            assert!(
                line.is_empty() || line.starts_with('#'),
                "line {}: {line}",
                number + 1
            );
        }
    }
    stories
}

fn story(title: &str) -> Story {
    let (name, options) = match title.split_once(" [") {
        Some((name, options)) => (name, options.trim_end_matches(']')),
        None => (title, ""),
    };
    let mut settings = Settings::default();
    for option in options.split(' ').filter(|option| !option.is_empty()) {
        match option {
            "-C" => settings.cas = false,
            "-F" => settings.flush = false,
            "-A" => settings.shutdown = true,
            "-X" => settings.dump = false,
            "-W" => settings.watch = false,
            "-S" => settings.sasl = true,
            "-Y" => settings.auth_file = Some("passwords".into()),
            "-B=binary" => settings.protocol = Protocol::Binary,
            "-B=ascii" => settings.protocol = Protocol::Ascii,
            "-I=1k" => settings.item_max = 1024,
            "track_sizes" => settings.track_sizes = true,
            _ => panic!("no such option: {option}"),
        }
    }
    Story {
        name: name.into(),
        settings,
        exchanges: Vec::new(),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    let (text, end) = match text.strip_suffix('\\') {
        Some(text) => (text, ""),
        None => (text, "\r\n"),
    };
    let text = repeated(text);
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, code)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(&code[..2], 16).expect("two hex digits"));
        rest = &code[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes.extend_from_slice(end.as_bytes());
    bytes
}

/// Returns the text with `{3*k}` written out as `kkk`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else {
        return text.into();
    };
    match rest
        .split_once('}')
        .and_then(|(code, rest)| Some((code.split_once('*')?, rest)))
    {
        None => text.into(),
        Some(((count, what), rest)) => {
            let count = count.parse().expect("a number of times");
            format!("{before}{}{}", what.repeat(count), repeated(rest))
        }
    }
}
