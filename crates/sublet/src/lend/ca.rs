//! `sublet lend ca`: a cluster's authority, and the certificates of its nodes.

use std::path::{Path, PathBuf};

use sublet_tls::peer::CertificateSummary;
use sublet_types::{ClusterName, NodeName, NodeNameError};

use super::authority_folder::{AuthorityFolder, IssuedCertificate, NodeKey};
use super::ca_error::CaError;
use crate::timestamp::{format_time, now};

/// The name that no node can have here, because its files would be the authority's.
const AUTHORITY_FILES: &str = "ca";

/// What to do with certificates.
#[derive(clap::Args)]
pub(super) struct CaArgs {
    #[command(subcommand)]
    verb: CaCommand,
}

#[derive(clap::Subcommand)]
enum CaCommand {
    /// Make a cluster's CA: ca.crt and ca.key, which last ten years
    Init {
        /// Name the cluster; nodes of other clusters are refused
        #[arg(long, value_name = "NAME", default_value_t)]
        cluster: ClusterName,
        #[command(flatten)]
        place: FolderOption,
    },
    /// Make a node's certificate and key, NODE.crt and NODE.key; if the key is there, renew its certificate
    Issue {
        /// Name the node, as peers.node in its config does
        #[arg(value_parser = node_name)]
        node: NodeName,
        /// Let the certificate last so many days
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..))]
        days: u32,
        #[command(flatten)]
        place: FolderOption,
    },
}

#[derive(clap::Args)]
struct FolderOption {
    /// Read and write files in this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Why a node cannot have this name here.
#[derive(Debug, thiserror::Error)]
enum NodeArgumentError {
    #[error(transparent)]
    Name(#[from] NodeNameError),
    #[error("a node named {AUTHORITY_FILES:?} would have the CA's files: name it otherwise")]
    AuthorityFiles,
}

fn node_name(text: &str) -> Result<NodeName, NodeArgumentError> {
    // Some file systems take capitals for small letters.
    match text.eq_ignore_ascii_case(AUTHORITY_FILES) {
        true => Err(NodeArgumentError::AuthorityFiles),
        false => Ok(text.parse()?),
    }
}

impl CaArgs {
    /// Makes certificates. Returns what to print.
    pub(super) fn run(&self) -> Result<String, CaError> {
        match &self.verb {
            CaCommand::Init { cluster, place } => {
                let folder = place.folder();
                let summary = folder.make_authority(cluster)?;
                Ok(authority_text(cluster, &folder, &summary))
            }
            CaCommand::Issue { node, days, place } => {
                let folder = place.folder();
                let issued = folder.issue(node, *days)?;
                let text = match issued.key {
                    NodeKey::Made => node_text(&folder, &issued),
                    NodeKey::Kept => renewal_text(&folder, &issued),
                };
                let exposed = folder.exposed_keys(node).into_iter();
                let warnings: String = exposed.map(|key| exposure_text(&key)).collect();
                Ok(text + &warnings)
            }
        }
    }
}

impl FolderOption {
    fn folder(&self) -> AuthorityFolder {
        AuthorityFolder {
            folder: self.dir.clone(),
            now_unix: now(),
        }
    }
}

fn authority_text(
    cluster: &ClusterName,
    folder: &AuthorityFolder,
    summary: &CertificateSummary,
) -> String {
    let (certificate, key) = (folder.authority_certificate(), folder.authority_key());
    format!(
        "made the CA of cluster {cluster}\n{}{}{}\
         Next, here and once for each node: sublet lend ca issue NODE{}\n\
         Each node gets ca.crt. No node needs ca.key: keep it where only you read it, and keep a copy.\n",
        line("certificate", certificate.display()),
        line("key", key.display()),
        facts(summary),
        folder_option(&folder.folder),
    )
}

fn node_text(folder: &AuthorityFolder, issued: &IssuedCertificate) -> String {
    let node = &issued.identity.node;
    let (certificate, key) = (folder.node_certificate(node), folder.node_key(node));
    format!(
        "made the certificate and key of node {node}: {}\n{}{}{}\
         Next: copy ca.crt, {node}.crt and {node}.key to {node}, where the key is for the daemon's user only.\n\
         The config there says, with its own address and those of the others:\n\n\
         [peers]\n\
         node = \"{node}\"\n\
         cluster = \"{}\"\n\
         listen = \"tcp:ADDRESS:7171\"\n\
         members = [\"OTHER=tcp:ADDRESS:7171\"]\n\
         ca = \"/etc/sublet/ca.crt\"\n\
         certificate = \"/etc/sublet/{node}.crt\"\n\
         key = \"/etc/sublet/{node}.key\"\n",
        issued.identity,
        line("certificate", certificate.display()),
        line("key", key.display()),
        facts(&issued.summary),
        issued.identity.cluster,
    )
}

fn renewal_text(folder: &AuthorityFolder, issued: &IssuedCertificate) -> String {
    let node = &issued.identity.node;
    let (certificate, key) = (folder.node_certificate(node), folder.node_key(node));
    format!(
        "renewed the certificate of node {node}: {}\n{}{}{}\
         Next: copy {node}.crt over the old one on {node}, and let the daemon read it: systemctl reload sublet\n",
        issued.identity,
        line("certificate", certificate.display()),
        line("key", format_args!("{}, as it was", key.display())),
        facts(&issued.summary),
    )
}

fn exposure_text(key: &Path) -> String {
    let key = key.display();
    format!("But others may read {key}. Type: chmod 600 {key}\n")
}

/// What an owner needs of a certificate later: by which fingerprint to deny it, and when to renew it.
fn facts(summary: &CertificateSummary) -> String {
    let ends = format_time(summary.ends_unix);
    line("fingerprint", summary.fingerprint) + &line("ends", ends)
}

fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("  {name:<12} {value}\n")
}

/// The option that leads the next command to the same folder.
fn folder_option(folder: &Path) -> String {
    match folder == Path::new(".") {
        true => String::new(),
        false => format!(" --dir {}", folder.display()),
    }
}
