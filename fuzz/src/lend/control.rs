//! A peer that sends arbitrary bytes on a control connection, whole and in pieces.

use sublet_lend::control::{
    ControlError, ControlLine, LINE_BYTES_MAX, LineReader, decode_line, encode_line,
};

use crate::Pieces;

/// Runs `input` whole, and cut by `seed`. The lines must be the same. What was decoded must survive a round trip.
pub fn whole_and_in_pieces(seed: u32, input: &[u8]) {
    let whole = read_lines(std::iter::once(input));
    let pieces = read_lines(Pieces { seed, rest: input });
    assert_eq!(
        format!("{whole:?}"),
        format!("{pieces:?}"),
        "cutting the input changed the lines"
    );
    whole.0.iter().for_each(survives_a_round_trip);
}

/// The lines up to the first that is refused, and why it is.
fn read_lines<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<ControlLine>, Option<ControlError>) {
    let mut reader = LineReader::default();
    let mut lines = Vec::new();
    for mut piece in pieces {
        loop {
            match reader.read(&mut piece) {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty(), "a refusal without a reason");
                    return (lines, Some(error));
                }
            }
        }
    }
    (lines, None)
}

fn survives_a_round_trip(line: &ControlLine) {
    let ControlLine::Message(message) = line else {
        return;
    };
    let mut bytes = Vec::new();
    encode_line(message, &mut bytes);
    assert!(bytes.len() <= LINE_BYTES_MAX, "a line beyond its bound");
    let text = bytes.strip_suffix(b"\n").expect("a line has an end");
    let again = decode_line(text).expect("what was encoded is decoded");
    assert_eq!(again, *line, "encoding changed the message");
}
