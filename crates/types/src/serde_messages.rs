//! Translates serde's messages into the words of the person who wrote the text.

/// Translates a message of serde from the terms of its types. It leaves out ` at line` and what follows, because
/// whoever reports the fault knows the place.
pub fn explain_serde(serde: &str) -> String {
    let said = serde.split(" at line ").next().unwrap_or(serde);
    of_key(said)
        .or_else(|| of_value(said))
        .unwrap_or_else(|| said.to_owned())
}

fn of_key(said: &str) -> Option<String> {
    if let Some(rest) = said.strip_prefix("unknown field ") {
        let (key, known) = rest.split_once(", ").unwrap_or((rest, ""));
        let known = match known.strip_prefix("expected ") {
            Some(known) => format!("; there are {}", known.trim_start_matches("one of ")),
            None => String::new(),
        };
        return Some(format!("no key is called {key}{known}"));
    }
    if let Some(key) = said.strip_prefix("missing field ") {
        return Some(format!("the key {key} is missing"));
    }
    let key = said.strip_prefix("duplicate field ")?;
    Some(format!("the key {key} is there twice"))
}

fn of_value(said: &str) -> Option<String> {
    if let Some((variant, known)) = said
        .strip_prefix("unknown variant ")
        .and_then(|rest| rest.split_once(", expected "))
    {
        let known = known.trim_start_matches("one of ");
        return Some(format!("{variant} is none of {known}"));
    }
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = kinds.iter().find_map(|kind| said.strip_prefix(kind))?;
    let (found, wanted) = rest.split_once(", expected ")?;
    Some(format!("it is {found}, and is to be {}", in_words(wanted)))
}

/// Replaces type names by what people write for them.
fn in_words(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below zero",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "text",
        "a boolean" => "true or false",
        wanted if wanted.starts_with("struct ") => "a table",
        wanted => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_without_types() {
        for (serde, told) in [
            (
                "unknown field `nam`, expected one of `name`, `lasts` at line 1 column 6",
                "no key is called `nam`; there are `name`, `lasts`",
            ),
            (
                "unknown field `nam`, expected `name`",
                "no key is called `nam`; there are `name`",
            ),
            (
                "unknown field `x`, there are no fields",
                "no key is called `x`",
            ),
            (
                "missing field `name` at line 1 column 2",
                "the key `name` is missing",
            ),
            ("duplicate field `name`", "the key `name` is there twice"),
            (
                "invalid type: integer `5`, expected a string at line 1 column 9",
                "it is integer `5`, and is to be text",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "it is integer `-1`, and is to be a whole number, not below zero",
            ),
            (
                "unknown variant `x`, expected one of `a`, `b`",
                "`x` is none of `a`, `b`",
            ),
            (
                "invalid type: map, expected struct ChangeTenant",
                "it is map, and is to be a table",
            ),
            ("no unit; write GiB", "no unit; write GiB"),
        ] {
            assert_eq!(explain_serde(serde), told);
        }
    }
}
