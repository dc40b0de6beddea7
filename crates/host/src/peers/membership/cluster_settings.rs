//! The cluster's settings as they stand in etcd: the placement policy with its knobs, and nothing else. What a host
//! lends and borrows is its own.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use sublet_policy::placement::PlacementChoice;
use sublet_policy::placement::catalogue::PlacementChoiceError;
use sublet_types::explain_serde;

/// The most bytes of the settings.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// The settings: `{"placement": "spread", "knobs": {"part": 25}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterSettings {
    placement: String,
    #[serde(default)]
    knobs: BTreeMap<String, Value>,
}

/// Why the settings are not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClusterSettingsError {
    /// They are too long.
    #[error("{0} bytes, and {SETTINGS_BYTES_MAX} are the most")]
    Long(usize),
    /// They are no JSON of this form.
    #[error("{}; write {{\"placement\": \"spread\"}}", explain_serde(&.0.to_string()))]
    Wrong(#[from] serde_json::Error),
    /// They are no table.
    #[error("they are no table; write {{\"placement\": \"spread\"}}")]
    NoTable,
    /// A knob is no number.
    #[error("the knob {0} is to be a number, without quotes")]
    KnobNoNumber(String),
    /// There is no such policy, or no such knob.
    #[error(transparent)]
    Choice(#[from] PlacementChoiceError),
}

/// Parses the settings.
///
/// # Errors
///
/// They are too long, no JSON of this form, or name no policy or knob of the catalogue.
pub(super) fn parse_placement(bytes: &[u8]) -> Result<PlacementChoice, ClusterSettingsError> {
    if bytes.len() > SETTINGS_BYTES_MAX {
        return Err(ClusterSettingsError::Long(bytes.len()));
    }
    let settings: Value = serde_json::from_slice(bytes)?;
    if !settings.is_object() {
        return Err(ClusterSettingsError::NoTable);
    }
    let settings = ClusterSettings::deserialize(settings)?;
    let mut knobs = Vec::new();
    for (name, value) in &settings.knobs {
        let Value::Number(value) = value else {
            return Err(ClusterSettingsError::KnobNoNumber(name.clone()));
        };
        knobs.push((name.as_str(), value.to_string()));
    }
    let pairs = knobs.iter().map(|(name, value)| (*name, value.as_str()));
    Ok(PlacementChoice::new(&settings.placement, pairs)?)
}

#[cfg(test)]
mod tests {
    use sublet_policy::placement::PlacementPolicy;

    use super::*;

    #[test]
    fn settings_name_a_policy_and_its_knobs() {
        let plain = parse_placement(br#"{"placement":"two-level"}"#).expect("settings");
        assert_eq!(plain.policy(), PlacementPolicy::TwoLevel);
        let knob = plain.entry().knobs.first().expect("a knob");
        let text = format!(
            r#"{{"placement":"two-level","knobs":{{"{}":{}}}}}"#,
            knob.name, knob.default
        );
        let set = parse_placement(text.as_bytes()).expect("settings");
        assert!(
            set.values()
                .any(|(it, value)| it.name == knob.name && value == knob.default)
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("", "EOF"),
            ("[]", "no table"),
            (r#"{"placement":"spred"}"#, "did you mean spread?"),
            (r#"{"placement":"spread","lend":1}"#, "lend"),
            (r#"{"placement":"spread","knobs":{"no":1}}"#, "no"),
            (
                r#"{"placement":"spread","knobs":{"part":"x"}}"#,
                "the knob part is to be a number",
            ),
        ] {
            let error = parse_placement(text.as_bytes())
                .expect_err(text)
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let long = vec![b' '; SETTINGS_BYTES_MAX + 1];
        assert!(matches!(
            parse_placement(&long),
            Err(ClusterSettingsError::Long(_))
        ));
    }
}
