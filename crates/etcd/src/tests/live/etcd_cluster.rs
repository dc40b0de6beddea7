//! etcds on this host's loopback, which a test starts, kills and starts again.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde_json::json;

use crate::gateway::{CertificateFiles, Endpoint, EtcdTls, GatewayClient, GatewaySettings};

use super::super::contract::{block_on, eventually};
use super::authority::tls_files;

/// Where the members keep what they know: in memory.
const FOLDER: &str = "/dev/shm";

/// One cluster at a time, so that they do not take the processor from each other.
static ALONE: Mutex<()> = Mutex::new(());

/// How the members run.
#[derive(Clone, Debug, Default)]
pub(super) struct EtcdSettings {
    /// Whether they are slow to call a leader dead, as in a cluster whose hosts are busy.
    pub(super) pace: EtcdPace,
    /// TLS with clients, who have to show a certificate of the authority.
    pub(super) tls: Option<EtcdFiles>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EtcdPace {
    #[default]
    Quick,
    /// Heartbeats of 500 ms and elections after 5 s.
    Patient,
}

/// The files of TLS.
#[derive(Clone, Debug)]
pub(super) struct EtcdFiles {
    pub(super) authority: PathBuf,
    pub(super) certificate: CertificateFiles,
}

/// etcds on this host.
pub(super) struct EtcdCluster {
    settings: EtcdSettings,
    members: Vec<EtcdMember>,
    folder: tempfile::TempDir,
    _alone: std::sync::MutexGuard<'static, ()>,
}

struct EtcdMember {
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

/// Returns whether etcd is installed, and says so if it is not.
pub(super) fn is_installed() -> bool {
    let version = Command::new("etcd").arg("--version").output();
    let is_there = version.is_ok_and(|version| version.status.success());
    if !is_there {
        eprintln!("etcd is not installed, so this test is skipped: apt-get install etcd-server");
    }
    is_there
}

/// Ports that are free now.
fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
    let listeners: Vec<TcpListener> = (0..count).map(bind).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    listeners.iter().map(port).collect()
}

impl EtcdCluster {
    /// Starts so many members, and waits until they have a leader.
    pub(super) fn start(count: usize, settings: EtcdSettings) -> EtcdCluster {
        let alone = ALONE
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let ports = free_ports(2 * count);
        let member = |ports: &[u16]| EtcdMember {
            client_port: ports[0],
            peer_port: ports[1],
            process: None,
        };
        let folder = tempfile::Builder::new()
            .prefix("sublet-etcd-")
            .tempdir_in(FOLDER);
        let mut cluster = EtcdCluster {
            settings,
            members: ports.chunks(2).map(member).collect(),
            folder: folder.expect("a folder"),
            _alone: alone,
        };
        (0..count).for_each(|member| cluster.start_member(member));
        cluster.wait_until_it_serves();
        cluster
    }

    /// Waits until a majority answers.
    pub(super) fn wait_until_it_serves(&self) {
        block_on(async {
            let client = self.client();
            let question = json!({ "key": "AA==", "keys_only": true });
            eventually(async || client.ask("/v3/kv/range", &question).await.is_ok()).await;
        });
    }

    /// Starts a member, again if it was killed.
    pub(super) fn start_member(&mut self, number: usize) {
        let url = |scheme: &str, port: u16| format!("{scheme}://127.0.0.1:{port}");
        let scheme = self.scheme();
        let peers = self.members.iter().enumerate();
        let peers = peers.map(|(n, member)| format!("m{n}={}", url("http", member.peer_port)));
        let initial = peers.collect::<Vec<_>>().join(",");
        let member = &self.members[number];
        let (client, peer) = (
            url(scheme, member.client_port),
            url("http", member.peer_port),
        );
        let log = self.folder.path().join(format!("m{number}.log"));
        let log = File::options().append(true).create(true).open(log);
        let mut command = Command::new("etcd");
        command
            .args(["--name", &format!("m{number}"), "--logger", "zap"])
            .arg("--data-dir")
            .arg(self.folder.path().join(format!("m{number}")))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &initial])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"));
        if self.settings.pace == EtcdPace::Patient {
            command.args(["--heartbeat-interval", "500", "--election-timeout", "5000"]);
        }
        if let Some(files) = &self.settings.tls {
            command.arg("--client-cert-auth");
            command.arg("--trusted-ca-file").arg(&files.authority);
            command.arg("--cert-file").arg(&files.certificate.chain);
            command.arg("--key-file").arg(&files.certificate.key);
        }
        self.members[number].process = Some(command.spawn().expect("etcd starts"));
    }

    /// Kills a member.
    pub(super) fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.members[number].process.take() {
            process.kill().expect("killed");
            process.wait().expect("ended");
        }
    }

    fn scheme(&self) -> &'static str {
        match self.settings.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    pub(super) fn endpoint(&self, number: usize) -> Endpoint {
        let port = self.members[number].client_port;
        let text = format!("{}://127.0.0.1:{port}", self.scheme());
        text.parse().expect("an endpoint")
    }

    /// Settings of a client of all members.
    pub(super) fn client_settings(&self) -> GatewaySettings {
        let tls = self.settings.tls.as_ref().map(|files| {
            let files = tls_files(&files.authority, Some(files.certificate.clone()));
            EtcdTls::read(&files).expect("files that work")
        });
        GatewaySettings {
            endpoints: (0..self.members.len())
                .map(|number| self.endpoint(number))
                .collect(),
            tls,
            user: None,
            times: Default::default(),
            seed: 0,
        }
    }

    pub(super) fn client(&self) -> GatewayClient {
        GatewayClient::new(self.client_settings()).expect("settings that work")
    }

    /// A client of one member only.
    pub(super) fn client_of(&self, number: usize) -> GatewayClient {
        let settings = GatewaySettings {
            endpoints: vec![self.endpoint(number)],
            ..self.client_settings()
        };
        GatewayClient::new(settings).expect("settings that work")
    }

    /// The member that leads etcd.
    pub(super) async fn leader(&self) -> usize {
        let mut found = None;
        eventually(async || {
            for number in 0..self.members.len() {
                if self.members[number].process.is_some() && self.is_leader(number).await {
                    found = Some(number);
                }
            }
            found.is_some()
        })
        .await;
        found.expect("etcd has a leader")
    }

    async fn is_leader(&self, number: usize) -> bool {
        let client = self.client_of(number);
        let answer = client.ask("/v3/maintenance/status", &json!({})).await;
        let status = answer.map(|answer| {
            (
                answer["leader"].clone(),
                answer["header"]["member_id"].clone(),
            )
        });
        status.is_ok_and(|(leader, own)| leader.is_string() && leader == own)
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
