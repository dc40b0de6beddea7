//! A client of a daemon's admin interface. Its calls block, and each has a connection of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes as Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sublet_tls::{Authorities, CredentialError, tls_fault};
use sublet_types::{DiskName, FreezeState, TenantName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

use crate::admin_endpoint::AdminEndpoint;
use crate::messages::{
    AddDisk, AddTenant, AllowFolder, ChangeLifetime, ChangePolicy, ChangeTenant, ClusterPlan,
    ClusterStatus, CopyReport, DiskFolders, DiskList, DiskStatus, DrainLending, EventList,
    EventsQuery, Health, JoinCluster, LeaseList, LeaveCluster, LendStatus, OpenDiskRequest,
    Policies, PolicyExplanation, Refusal, ReleaseReport, ReleaseRequest, RemoveDisk, RemovedDisk,
    ResizeDisk, RestoreFile, ResumeLending, SaveFile, SetFrozen, Settings, Status, TenantList,
    TenantStatus, WhatIf, WhatIfQuery,
};

/// A client of a daemon's admin interface.
pub struct Admin {
    pub(crate) endpoint: AdminEndpoint,
    pub(crate) runtime: Runtime,
}

/// The stream that a call uses.
trait AdminStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AdminStream for S {}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Nobody answers at the endpoint, or not in time.
    #[error("no daemon answers at {door}: {source}")]
    Unreachable {
        /// The endpoint.
        door: AdminEndpoint,
        /// The cause.
        source: io::Error,
    },
    /// The other side's certificate cannot be trusted.
    #[error("what answers at {door} cannot be trusted: {source}")]
    Untrusted {
        /// The endpoint.
        door: AdminEndpoint,
        /// What is wrong with its certificate.
        source: Box<rustls::Error>,
    },
    /// The other side is no admin interface over TCP.
    #[error(
        "{what} answers at {door}; the admin interface over TCP is where the daemon's `[admin] tcp` says"
    )]
    Other {
        /// The endpoint.
        door: AdminEndpoint,
        /// What the other side is.
        what: UnexpectedListener,
    },
    /// The certificate or token files cannot be used.
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    /// The daemon refused the call.
    #[error("{}", .0.error)]
    Refused(Refusal),
    /// The answer makes no sense. It comes from another program, or from another version.
    #[error("what answers at {0} does not speak this version of the admin interface")]
    Garbled(AdminEndpoint),
}

/// What answers instead of an admin interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnexpectedListener {
    /// A listener that does not speak TLS.
    #[error("a listener without TLS")]
    WithoutTls,
    /// A listener that asks for a client's certificate, as an NBD or memcached listener may. An admin interface asks
    /// for a token instead.
    #[error("a listener that asks for a client's certificate, as no admin interface does,")]
    AsksForCertificate,
}

impl UnexpectedListener {
    fn of(fault: &rustls::Error) -> Option<UnexpectedListener> {
        use rustls::AlertDescription::{BadCertificate, CertificateRequired};
        match fault {
            rustls::Error::InvalidMessage(_) => Some(UnexpectedListener::WithoutTls),
            rustls::Error::AlertReceived(CertificateRequired | BadCertificate) => {
                Some(UnexpectedListener::AsksForCertificate)
            }
            _ => None,
        }
    }
}

/// Why TLS or the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file's path.
        path: std::path::PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The authorities' file cannot be used.
    #[error(transparent)]
    Authorities(#[from] CredentialError),
    /// No certificate can be for such a name.
    #[error("{0:?} is no host name or address")]
    Name(String),
    /// The TLS library refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The largest answer: the status of as many tenants as a daemon serves.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The largest token file. It is larger than any token, because the file may contain more below its first line.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;
/// How long connecting may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a change may take: as long as an ordered release of a whole large host.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(600);
/// How long an answer to a question may take that changes nothing.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a call waits for its answer.
#[derive(Clone, Copy)]
pub(crate) enum AnswerTimeout {
    /// The call waits for [`ANSWER_TIME_MAX`], or [`CHANGE_TIME_MAX`] if it changes something.
    Limited,
    /// The call waits as long as the daemon is there. A copy takes as long as there is something to copy.
    Endless,
}

impl Admin {
    /// A client for that endpoint. It does not connect yet.
    pub fn at(endpoint: AdminEndpoint) -> io::Result<Admin> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Admin { endpoint, runtime })
    }

    /// Returns the status of the whole daemon.
    pub fn status(&self) -> Result<Status, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/status", None)
    }

    /// Returns all tenants.
    pub fn tenants(&self) -> Result<TenantList, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/tenants", None)
    }

    /// Returns one tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, AdminError> {
        self.call::<(), _>(Method::GET, &format!("/v1/tenants/{name}"), None)
    }

    /// Changes a tenant.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<TenantStatus, AdminError> {
        self.call(Method::PATCH, &format!("/v1/tenants/{name}"), Some(change))
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, tenant: &AddTenant) -> Result<TenantStatus, AdminError> {
        self.call(Method::POST, "/v1/tenants", Some(tenant))
    }

    /// Removes a tenant that nobody uses. Returns the remaining tenants.
    pub fn remove_tenant(
        &self,
        name: &TenantName,
        lasts: ChangeLifetime,
    ) -> Result<TenantList, AdminError> {
        let path = format!("/v1/tenants/{name}?lasts={}", word(lasts));
        self.call::<(), _>(Method::DELETE, &path, None)
    }

    /// Makes a tenant refuse new pages, or take them again.
    pub fn set_freeze_state(
        &self,
        name: &TenantName,
        state: FreezeState,
    ) -> Result<TenantStatus, AdminError> {
        let path = format!("/v1/tenants/{name}/freeze");
        let frozen = state.is_frozen();
        self.call(Method::POST, &path, Some(&SetFrozen { frozen }))
    }

    /// Writes a tenant's persistent pages into a file on the daemon's host. Returns after the file is complete.
    pub fn save_tenant(
        &self,
        name: &TenantName,
        file: &SaveFile,
    ) -> Result<CopyReport, AdminError> {
        self.long_call(
            Method::POST,
            &format!("/v1/tenants/{name}/save"),
            Some(file),
        )
    }

    /// Makes the pools of a saved file again. Returns after all pages are there.
    pub fn restore_tenant(
        &self,
        name: &TenantName,
        file: &RestoreFile,
    ) -> Result<CopyReport, AdminError> {
        self.long_call(
            Method::POST,
            &format!("/v1/tenants/{name}/restore"),
            Some(file),
        )
    }

    /// Ends restored pools that no program has claimed.
    pub fn discard_restored(&self, name: &TenantName) -> Result<TenantStatus, AdminError> {
        self.call::<(), _>(
            Method::DELETE,
            &format!("/v1/tenants/{name}/restored"),
            None,
        )
    }

    /// Releases memory. Returns after the last block has left.
    pub fn release(&self, release: &ReleaseRequest) -> Result<ReleaseReport, AdminError> {
        self.call(Method::POST, "/v1/release", Some(release))
    }

    /// Returns all policies of the Memory Manager.
    pub fn policies(&self) -> Result<Policies, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/policies", None)
    }

    /// Puts another policy in force.
    pub fn change_policy(&self, change: &ChangePolicy) -> Result<Policies, AdminError> {
        self.call(Method::POST, "/v1/policy", Some(change))
    }

    /// Returns what the policy decided about a tenant until then (Unix seconds), the latest decision first.
    pub fn explain(
        &self,
        tenant: &TenantName,
        until: u64,
    ) -> Result<PolicyExplanation, AdminError> {
        let path = format!("/v1/policy/explain?tenant={tenant}&until={until}");
        self.call::<(), _>(Method::GET, &path, None)
    }

    /// Returns what would happen with a given hit rate, with a given amount of memory, or under another policy.
    pub fn what_if(&self, query: &WhatIfQuery) -> Result<WhatIf, AdminError> {
        let path = format!("/v1/policy/what-if?{}", query.query());
        self.call::<(), _>(Method::GET, &path, None)
    }

    /// Returns all disks.
    pub fn disks(&self) -> Result<DiskList, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/disks", None)
    }

    /// Returns one disk.
    pub fn disk(&self, name: &DiskName) -> Result<DiskStatus, AdminError> {
        self.call::<(), _>(Method::GET, &format!("/v1/disks/{name}"), None)
    }

    /// Opens a disk and serves it.
    pub fn add_disk(&self, disk: &AddDisk) -> Result<DiskStatus, AdminError> {
        self.call(Method::POST, "/v1/disks", Some(disk))
    }

    /// Allows backings under one more folder.
    pub fn allow_folder(&self, folder: &AllowFolder) -> Result<DiskFolders, AdminError> {
        self.call(Method::POST, "/v1/disk-folders", Some(folder))
    }

    /// Removes a disk. Returns after the backing has everything, or after the daemon has given up what the backing does
    /// not take.
    pub fn remove_disk(&self, name: &DiskName, how: RemoveDisk) -> Result<RemovedDisk, AdminError> {
        let RemoveDisk {
            lasts,
            force,
            delete,
        } = how;
        let lasts = word(lasts);
        let path = format!("/v1/disks/{name}?lasts={lasts}&force={force}&delete={delete}");
        self.long_call::<(), _>(Method::DELETE, &path, None)
    }

    /// Opens a disk that is closed.
    pub fn open_disk(
        &self,
        name: &DiskName,
        how: OpenDiskRequest,
    ) -> Result<DiskStatus, AdminError> {
        let path = format!("/v1/disks/{name}/open?force={}", how.force);
        self.call::<(), _>(Method::POST, &path, None)
    }

    /// Changes a disk's size.
    pub fn resize_disk(
        &self,
        name: &DiskName,
        size: &ResizeDisk,
    ) -> Result<DiskStatus, AdminError> {
        self.call(
            Method::POST,
            &format!("/v1/disks/{name}/resize"),
            Some(size),
        )
    }

    /// Flushes a disk. Returns after the backing has everything that was written before.
    pub fn flush_disk(&self, name: &DiskName) -> Result<DiskStatus, AdminError> {
        self.long_call::<(), _>(Method::POST, &format!("/v1/disks/{name}/flush"), None)
    }

    /// Returns how the host stands with its peers.
    pub fn lending(&self) -> Result<LendStatus, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/lend", None)
    }

    /// Returns all leases between the host and its peers.
    pub fn leases(&self) -> Result<LeaseList, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/lend/leases", None)
    }

    /// Begins a drain: the host lends nothing more, and asks for what is lent.
    pub fn drain_lending(&self, drain: &DrainLending) -> Result<LendStatus, AdminError> {
        self.call(Method::POST, "/v1/lend/drain", Some(drain))
    }

    /// Ends a drain.
    pub fn resume_lending(&self, resume: &ResumeLending) -> Result<LendStatus, AdminError> {
        self.call(Method::POST, "/v1/lend/resume", Some(resume))
    }

    /// Takes everything back at once. The host lends again half a minute later.
    pub fn recall_lent(&self) -> Result<LendStatus, AdminError> {
        self.call::<(), _>(Method::POST, "/v1/lend/recall", None)
    }

    /// Returns how the node stands in its cluster, and how the cluster stands.
    pub fn cluster(&self) -> Result<ClusterStatus, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/cluster", None)
    }

    /// Returns what the placement policy would advise now.
    pub fn cluster_plan(&self) -> Result<ClusterPlan, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/cluster/plan", None)
    }

    /// Begins to leave the cluster: the host takes everything back and gives everything back, and then parts from all.
    pub fn leave_cluster(&self, leave: &LeaveCluster) -> Result<ClusterStatus, AdminError> {
        self.call(Method::POST, "/v1/cluster/leave", Some(leave))
    }

    /// Takes part in the cluster again.
    pub fn join_cluster(&self, join: &JoinCluster) -> Result<ClusterStatus, AdminError> {
        self.call(Method::POST, "/v1/cluster/join", Some(join))
    }

    /// Returns every setting in force.
    pub fn settings(&self) -> Result<Settings, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/settings", None)
    }

    /// Returns whether the daemon is well.
    pub fn health(&self) -> Result<Health, AdminError> {
        self.call::<(), _>(Method::GET, "/v1/health", None)
    }

    /// Returns the metrics, in OpenMetrics form.
    pub fn metrics(&self) -> Result<String, AdminError> {
        let body = self.fetch(Method::GET, "/metrics", Body::new(), AnswerTimeout::Limited)?;
        String::from_utf8(body.to_vec()).map_err(|_| AdminError::Garbled(self.endpoint.clone()))
    }

    /// Returns events in memory, as many as fit one answer. [`EventList::next`](crate::messages::EventList::next) asks
    /// for more.
    pub fn events(&self, query: &EventsQuery) -> Result<EventList, AdminError> {
        let path = format!("/v1/events?{}", query.query());
        self.call::<(), _>(Method::GET, &path, None)
    }

    fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
    ) -> Result<A, AdminError> {
        self.call_with_timeout(method, path, question, AnswerTimeout::Limited)
    }

    /// Makes a call that takes as long as what it moves.
    fn long_call<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
    ) -> Result<A, AdminError> {
        self.call_with_timeout(method, path, question, AnswerTimeout::Endless)
    }

    fn call_with_timeout<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
        timeout: AnswerTimeout,
    ) -> Result<A, AdminError> {
        let body = question.map_or(Ok(Vec::new()), serde_json::to_vec);
        let body = body.map_err(|_| AdminError::Garbled(self.endpoint.clone()))?;
        let answer = self.fetch(method, path, body.into(), timeout)?;
        serde_json::from_slice(&answer).map_err(|_| AdminError::Garbled(self.endpoint.clone()))
    }

    fn fetch(
        &self,
        method: Method,
        path: &str,
        body: Body,
        timeout: AnswerTimeout,
    ) -> Result<Body, AdminError> {
        self.runtime.block_on(async {
            let accept = "application/json, application/openmetrics-text";
            let answer = self
                .send_request(method, path, body, accept, timeout)
                .await?;
            self.read_body(answer).await
        })
    }

    /// Connects. Returns the stream, and the token to send on it.
    async fn connect(&self) -> Result<(Box<dyn AdminStream>, Option<String>), AdminError> {
        match &self.endpoint {
            AdminEndpoint::Unix(socket) => {
                let stream = in_time(CONNECT_TIME_MAX, UnixStream::connect(socket)).await;
                let stream = stream.map_err(|e| self.unreachable(e))?;
                Ok((Box::new(stream), None))
            }
            AdminEndpoint::Tcp {
                host,
                port,
                ca,
                token_file,
            } => {
                let token = first_line(token_file)?;
                let stream = in_time(CONNECT_TIME_MAX, async {
                    TcpStream::connect((host.as_str(), *port)).await
                });
                let stream = stream.await.map_err(|e| self.unreachable(e))?;
                let (connector, name) = (connector(ca)?, server_name(host)?);
                let stream = in_time(CONNECT_TIME_MAX, connector.connect(name, stream)).await;
                let stream = stream.map_err(|e| self.unreachable(e))?;
                Ok((Box::new(stream), Some(token)))
            }
        }
    }

    /// Explains why there is no answer. The other side complains about a client's certificate only after the handshake.
    pub(crate) fn unreachable(&self, source: io::Error) -> AdminError {
        let door = self.endpoint.clone();
        let fault = tls_fault(&source);
        match fault {
            Some(fault @ rustls::Error::InvalidCertificate(_)) => AdminError::Untrusted {
                door,
                source: Box::new(fault.clone()),
            },
            _ => match fault.and_then(UnexpectedListener::of) {
                Some(what) => AdminError::Other { door, what },
                None => AdminError::Unreachable { door, source },
            },
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Body,
        accept: &str,
        token: Option<&str>,
    ) -> Result<Request<Full<Body>>, AdminError> {
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::HOST, "sublet")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        if method == Method::GET {
            // A single question wants the present state, not what others saw within the last second.
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request
            .body(Full::new(body))
            .map_err(|_| AdminError::Garbled(self.endpoint.clone()))
    }

    /// Sends a request, and returns the response up to its head.
    pub(crate) async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Body,
        accept: &str,
        timeout: AnswerTimeout,
    ) -> Result<Response<Incoming>, AdminError> {
        let answer_time = match method {
            Method::GET => ANSWER_TIME_MAX,
            _ => CHANGE_TIME_MAX,
        };
        let (stream, token) = self.connect().await?;
        let request = self.request(method, path, body, accept, token.as_deref())?;
        let lost = |e: hyper::Error| self.unreachable(io::Error::other(e));
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        tokio::spawn(connection);
        let answer = async { sender.send_request(request).await.map_err(io::Error::other) };
        let answer = match timeout {
            AnswerTimeout::Limited => in_time(answer_time, answer).await,
            AnswerTimeout::Endless => answer.await,
        };
        answer.map_err(|e| self.unreachable(e))
    }

    /// Reads the whole body of an answer, or the daemon's refusal.
    pub(crate) async fn read_body(&self, answer: Response<Incoming>) -> Result<Body, AdminError> {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = body
            .collect()
            .await
            .map_err(|_| AdminError::Garbled(self.endpoint.clone()))?;
        self.check_status(status, body.to_bytes())
    }

    fn check_status(&self, status: StatusCode, body: Body) -> Result<Body, AdminError> {
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(refusal) => Err(AdminError::Refused(refusal)),
            Err(_) => Err(AdminError::Garbled(self.endpoint.clone())),
        }
    }
}

fn word(lasts: ChangeLifetime) -> &'static str {
    match lasts {
        ChangeLifetime::Always => "always",
        ChangeLifetime::UntilRestart => "until-restart",
    }
}

async fn in_time<T>(time: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(time, work)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

fn first_line(path: &std::path::Path) -> Result<String, CredentialsError> {
    let text = sublet_tls::read_text(path, TOKEN_FILE_BYTES_MAX).map_err(|source| {
        CredentialsError::Read {
            path: path.to_owned(),
            source,
        }
    })?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn connector(ca: &std::path::Path) -> Result<TlsConnector, CredentialsError> {
    let provider = sublet_tls::provider();
    let verifier = sublet_tls::server_verifier(Authorities::read(ca)?, &provider);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn server_name(host: &str) -> Result<ServerName<'static>, CredentialsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| CredentialsError::Name(host.to_owned()))
}
