//! What would be.

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, TenantName};

/// What is asked (the query of `GET /v1/policy/what-if`): `tenant` with `hits` or `memory`, or `policy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskWhatIf {
    /// About which tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Which part of its gets are to be hits, above 0 and up to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<f64>,
    /// How much memory it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Which policy is to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its knobs, as `knob=value`, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knobs: Option<String>,
}

impl AskWhatIf {
    /// As the query of a request.
    pub(crate) fn query(&self) -> String {
        let said = [
            ("tenant", self.tenant.clone()),
            ("hits", self.hits.map(|hits| hits.to_string())),
            ("memory", self.memory.map(|memory| memory.0.to_string())),
            ("policy", self.policy.clone()),
            ("knobs", self.knobs.clone()),
        ];
        let said = said
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let pairs = said.map(|(key, value)| format!("{key}={}", escaped(&value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// A value in which nothing ends it.
fn escaped(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// What would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The policy in force.
    pub policy: String,
    /// The policy that would decide: another one only where that was asked.
    pub other: String,
    /// Over how many seconds of what was asked the hits are meant.
    pub secs: u64,
    /// Each tenant.
    pub tenants: Vec<WhatIfTenant>,
    /// What nobody holds.
    pub free_before: Bytes,
    /// What nobody would hold.
    pub free_after: Bytes,
    /// The part of all measured tenants' gets that are hits, by their curves.
    pub hits_before: Option<f64>,
    /// The part that would be.
    pub hits_after: Option<f64>,
}

/// One tenant's part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIfTenant {
    /// Who.
    pub name: TenantName,
    /// What it holds; where policies are compared, what it would hold now by the model under the one in force.
    pub memory_before: Bytes,
    /// What it would hold.
    pub memory_after: Bytes,
    /// What it has in any case, once it asks for it.
    #[serde(default)]
    pub floor: Bytes,
    /// The part of its gets that are hits, by its curve; nothing while it is not measured.
    pub hits_before: Option<f64>,
    /// The part that would be.
    pub hits_after: Option<f64>,
    /// The part that was counted; nothing where it was asked for nothing.
    pub hits_counted: Option<f64>,
    /// Gets in a second.
    pub gets: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_what_is_asked_and_nothing_else() {
        let asked = AskWhatIf {
            policy: Some("mrc".to_owned()),
            knobs: Some("gain=3,floor=40 &x".to_owned()),
            ..AskWhatIf::default()
        };
        assert_eq!(
            asked.query(),
            "policy=mrc&knobs=gain%3D3%2Cfloor%3D40%20%26x"
        );
        let asked = AskWhatIf {
            tenant: Some("web".to_owned()),
            memory: Some(Bytes(5)),
            ..AskWhatIf::default()
        };
        assert_eq!(asked.query(), "tenant=web&memory=5");
    }
}
