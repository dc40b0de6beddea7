//! The answer to a name and a password.

use serde::Deserialize;
use zeroize::Zeroizing;

use super::AnswerFault;
use super::fault::parse;

#[derive(Deserialize)]
struct TokenAnswer {
    token: String,
}

/// Parses the answer to a name and a password: a token, which is not empty.
///
/// # Errors
///
/// It is none.
pub fn decode_token(bytes: &[u8]) -> Result<Zeroizing<String>, AnswerFault> {
    let what = "a token";
    let answer: TokenAnswer = parse(what, bytes)?;
    match answer.token.is_empty() {
        true => Err(AnswerFault::Missing {
            what,
            missing: "token",
        }),
        false => Ok(Zeroizing::new(answer.token)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_empty() {
        let token = decode_token(br#"{"header":{"revision":"1"},"token":"abc.9"}"#);
        assert_eq!(token.expect("a token").as_str(), "abc.9");
        for json in ["{}", r#"{"token":""}"#, r#"{"token":1}"#] {
            assert!(decode_token(json.as_bytes()).is_err(), "{json}");
        }
    }
}
