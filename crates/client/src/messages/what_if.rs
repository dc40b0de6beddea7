//! The messages about hypothetical settings (what-if).

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, TenantName};

/// The query of `GET /v1/policy/what-if`: `tenant` with `hits` or `memory`, or `policy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIfQuery {
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Which part of the tenant's gets should be hits, above 0 and up to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<f64>,
    /// How much memory the tenant should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Which policy should decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The policy's knobs, as `knob=value`, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knobs: Option<String>,
}

impl WhatIfQuery {
    /// The query of the request.
    pub(crate) fn query(&self) -> String {
        let parameters = [
            ("tenant", self.tenant.clone()),
            ("hits", self.hits.map(|hits| hits.to_string())),
            ("memory", self.memory.map(|memory| memory.0.to_string())),
            ("policy", self.policy.clone()),
            ("knobs", self.knobs.clone()),
        ];
        let parameters = parameters
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let pairs = parameters.map(|(key, value)| format!("{key}={}", escaped(&value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// The value with everything escaped that would end it.
fn escaped(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// What would happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The policy in force.
    pub policy: String,
    /// The policy that would decide. It differs from `policy` only if the query asked for another.
    pub other: String,
    /// How many seconds of requests the hits refer to.
    pub secs: u64,
    /// The tenants.
    pub tenants: Vec<WhatIfTenant>,
    /// Memory that nobody holds.
    pub free_before: Bytes,
    /// Memory that nobody would hold.
    pub free_after: Bytes,
    /// The part of all measured tenants' gets that are hits, by their curves.
    pub hits_before: Option<f64>,
    /// The part that would be hits.
    pub hits_after: Option<f64>,
}

/// One tenant's part of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIfTenant {
    /// The tenant's name.
    pub name: TenantName,
    /// What the tenant holds. If policies are compared, it is what the model says the tenant would hold now under the
    /// policy in force.
    pub memory_before: Bytes,
    /// What the tenant would hold.
    pub memory_after: Bytes,
    /// What the tenant gets in any case, once it asks for it.
    #[serde(default)]
    pub floor: Bytes,
    /// The part of the tenant's gets that are hits, by its curve. Nothing while it is not measured.
    pub hits_before: Option<f64>,
    /// The part that would be hits.
    pub hits_after: Option<f64>,
    /// The part that was counted. Nothing if clients asked for nothing.
    pub hits_counted: Option<f64>,
    /// Gets per second.
    pub gets: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_what_is_asked_and_nothing_else() {
        let query = WhatIfQuery {
            policy: Some("mrc".to_owned()),
            knobs: Some("gain=3,floor=40 &x".to_owned()),
            ..WhatIfQuery::default()
        };
        assert_eq!(
            query.query(),
            "policy=mrc&knobs=gain%3D3%2Cfloor%3D40%20%26x"
        );
        let query = WhatIfQuery {
            tenant: Some("web".to_owned()),
            memory: Some(Bytes(5)),
            ..WhatIfQuery::default()
        };
        assert_eq!(query.query(), "tenant=web&memory=5");
    }
}
