//! JSON as people read and compare it: a list of plain values takes one line.

use serde_json::Value;

const INDENT: &str = "  ";

/// The text of `json`, with a newline at its end.
pub(super) fn text(json: &Value) -> String {
    let mut text = String::new();
    write(json, 0, &mut text);
    text.push('\n');
    text
}

fn write(json: &Value, depth: usize, text: &mut String) {
    match json {
        Value::Array(items) if !items.iter().all(is_plain) => {
            let items = items.iter().map(|item| (None, item));
            write_lines(['[', ']'], items, depth, text);
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            text.push_str(&format!("[{}]", items.join(", ")));
        }
        Value::Object(fields) if fields.is_empty() => text.push_str("{}"),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (Some(name), value));
            write_lines(['{', '}'], fields, depth, text);
        }
        value => text.push_str(&plain(value)),
    }
}

/// Writes each value on lines of its own, between brackets.
fn write_lines<'a>(
    brackets: [char; 2],
    values: impl Iterator<Item = (Option<&'a String>, &'a Value)>,
    depth: usize,
    text: &mut String,
) {
    text.push(brackets[0]);
    for (number, (name, value)) in values.enumerate() {
        text.push_str(if number == 0 { "\n" } else { ",\n" });
        text.push_str(&INDENT.repeat(depth + 1));
        if let Some(name) = name {
            text.push_str(&format!("{}: ", Value::from(name.as_str())));
        }
        write(value, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&INDENT.repeat(depth));
    text.push(brackets[1]);
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// A value on one line; a whole number has no decimals.
fn plain(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_plain_values_takes_one_line() {
        let json = serde_json::json!({"a": [1.0, null, 2.5], "b": [["x"], []], "c": {}});
        let expected =
            "{\n  \"a\": [1, null, 2.5],\n  \"b\": [\n    [\"x\"],\n    []\n  ],\n  \"c\": {}\n}\n";
        assert_eq!(text(&json), expected);
        let read: Value = serde_json::from_str(&text(&json)).expect("JSON");
        assert_eq!(read["a"][2], 2.5);
    }
}
