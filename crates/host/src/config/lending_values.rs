//! Reads the values of the knobs of lending: nodes, clusters, members and fingerprints.

use std::str::FromStr;

use sublet_etcd::gateway::{ENDPOINTS_MAX, Endpoint};
use sublet_lend::ids::RackName;
use sublet_lend::node::MEMBERS_MAX;
use sublet_policy::placement::PlacementChoice;
use sublet_tls::peer::{DENIED_MAX, Fingerprint};
use sublet_types::{ClusterName, NodeName};

use super::member::PeerMember;
use super::peer_place::PeerPlace;
use super::raw_value::{RawValue, ValueError};

impl RawValue {
    /// A node's name.
    pub(crate) fn node(&self) -> Result<NodeName, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// A cluster's name.
    pub(crate) fn cluster(&self) -> Result<ClusterName, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// Where a host stands.
    pub(crate) fn rack(&self) -> Result<RackName, ValueError> {
        let said = self.text()?;
        let name = said.parse().map_err(|_| ValueError::Rack(said))?;
        Ok(RackName(name))
    }

    /// A placement policy with its knobs as the catalogue has them.
    pub(crate) fn placement(&self) -> Result<PlacementChoice, ValueError> {
        Ok(PlacementChoice::new(&self.text()?, [])?)
    }

    /// Members of etcd. An empty list is allowed.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, ValueError> {
        match parsed_list(self)? {
            endpoints if endpoints.len() > ENDPOINTS_MAX => Err(ValueError::TooManyEndpoints),
            endpoints => Ok(endpoints),
        }
    }

    /// Where this host listens for its peers.
    pub(crate) fn peer_place(&self) -> Result<PeerPlace, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// Names of the members that may borrow, at least one.
    pub(crate) fn borrowers(&self) -> Result<Vec<NodeName>, ValueError> {
        match parsed_list(self)? {
            nodes if nodes.is_empty() => Err(ValueError::NoBorrower),
            nodes => Ok(nodes),
        }
    }

    /// Members of a cluster, each with its address. An empty list is allowed.
    pub(crate) fn members(&self) -> Result<Vec<PeerMember>, ValueError> {
        match parsed_list(self)? {
            members if members.len() > MEMBERS_MAX => Err(ValueError::TooManyMembers),
            members => Ok(members),
        }
    }

    /// Fingerprints of certificates. An empty list is allowed.
    pub(crate) fn fingerprints(&self) -> Result<Vec<Fingerprint>, ValueError> {
        match parsed_list(self)? {
            denied if denied.len() > DENIED_MAX => Err(ValueError::TooManyFingerprints),
            denied => Ok(denied),
        }
    }
}

/// A list of texts, each parsed. A single text is a list of one.
fn parsed_list<T>(said: &RawValue) -> Result<Vec<T>, ValueError>
where
    T: FromStr,
    ValueError: From<T::Err>,
{
    match said {
        RawValue::List(all) if all.is_empty() => Ok(Vec::new()),
        _ => {
            let texts = said.names()?.into_iter();
            let parsed = texts.map(|text| text.parse::<T>().map_err(ValueError::from));
            parsed.collect()
        }
    }
}
