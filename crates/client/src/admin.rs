//! A handle on a daemon's admin interface. Calls block; each has a connection of its own.

use std::error::Error;
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
use sublet_tls::{Authorities, Fault};
use sublet_types::{DiskName, TenantName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

use crate::door::Door;
use crate::messages::{
    AddDisk, AddTenant, AllowFolder, AskEvents, AskWhatIf, ChangePolicy, ChangeTenant, CopyReport,
    DiskFolders, DiskStatus, Disks, Events, Explained, Freeze, Health, Lasts, OpenDisk, Policies,
    Refusal, ReleaseReport, ReleaseRequest, RemoveDisk, RemovedDisk, ResizeDisk, RestoreFile,
    SaveFile, Settings, Status, TenantStatus, Tenants, WhatIf,
};

/// A handle on a daemon's admin interface.
pub struct Admin {
    pub(crate) door: Door,
    pub(crate) runtime: Runtime,
}

/// What a call goes over.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody answers there, or not in time.
    #[error("no daemon answers at {door}: {source}")]
    Unreachable {
        /// Where.
        door: Door,
        /// Why.
        source: io::Error,
    },
    /// Somebody answers, whose certificate nobody vouches for.
    #[error("what answers at {door} cannot be trusted: {source}")]
    Untrusted {
        /// Where.
        door: Door,
        /// What is wrong with its certificate.
        source: Box<rustls::Error>,
    },
    /// Somebody answers there who is no admin interface over TCP.
    #[error(
        "{what} answers at {door}; the admin interface over TCP is where the daemon's `[admin] tcp` says"
    )]
    Other {
        /// Where.
        door: Door,
        /// Who.
        what: Other,
    },
    /// Certificate or token files are of no use.
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    /// The daemon said no.
    #[error("{}", .0.error)]
    Refused(Refusal),
    /// What came back makes no sense: another program, or another version.
    #[error("what answers at {0} does not speak this version of the admin interface")]
    Garbled(Door),
}

/// Who answers where an admin interface was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Other {
    /// It speaks, but not TLS.
    #[error("a listener without TLS")]
    WithoutTls,
    /// As an NBD or memcached listener may; an admin interface asks for a token.
    #[error("a listener that asks for a client's certificate, as no admin interface does,")]
    AsksForCertificate,
}

impl Other {
    fn of(fault: &rustls::Error) -> Option<Other> {
        use rustls::AlertDescription::{BadCertificate, CertificateRequired};
        match fault {
            rustls::Error::InvalidMessage(_) => Some(Other::WithoutTls),
            rustls::Error::AlertReceived(CertificateRequired | BadCertificate) => {
                Some(Other::AsksForCertificate)
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
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The authorities' file is of no use.
    #[error(transparent)]
    Authorities(#[from] Fault),
    /// No name that a certificate can be for.
    #[error("{0:?} is no host name or address")]
    Name(String),
    /// The TLS library refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// An answer's largest size: the status of as many tenants as a daemon serves.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// More than a token takes, and what its file may say below it.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;
/// How long a connection may take to come about.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take: an ordered release of a whole large host.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// For [`ANSWER_TIME_MAX`].
    Limited,
    /// As long as the daemon is there: a copy takes as long as there is to copy.
    Endless,
}

impl Admin {
    /// A handle. Nothing is connected yet.
    pub fn at(door: Door) -> io::Result<Admin> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Admin { door, runtime })
    }

    /// The whole daemon, now.
    pub fn status(&self) -> Result<Status, CallError> {
        self.call::<(), _>(Method::GET, "/v1/status", None)
    }

    /// All tenants.
    pub fn tenants(&self) -> Result<Tenants, CallError> {
        self.call::<(), _>(Method::GET, "/v1/tenants", None)
    }

    /// One tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, CallError> {
        self.call::<(), _>(Method::GET, &format!("/v1/tenants/{name}"), None)
    }

    /// Changes a tenant.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<TenantStatus, CallError> {
        self.call(Method::PATCH, &format!("/v1/tenants/{name}"), Some(change))
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, tenant: &AddTenant) -> Result<TenantStatus, CallError> {
        self.call(Method::POST, "/v1/tenants", Some(tenant))
    }

    /// Removes a tenant that nobody uses. Who remains is the answer.
    pub fn remove_tenant(&self, name: &TenantName, lasts: Lasts) -> Result<Tenants, CallError> {
        let path = format!("/v1/tenants/{name}?lasts={}", word(lasts));
        self.call::<(), _>(Method::DELETE, &path, None)
    }

    /// Refuses a tenant's new pages, or takes them again.
    pub fn freeze_tenant(
        &self,
        name: &TenantName,
        frozen: bool,
    ) -> Result<TenantStatus, CallError> {
        let path = format!("/v1/tenants/{name}/freeze");
        self.call(Method::POST, &path, Some(&Freeze { frozen }))
    }

    /// Writes a tenant's persistent pages into a file on the daemon's host; returns when it is there.
    pub fn save_tenant(&self, name: &TenantName, file: &SaveFile) -> Result<CopyReport, CallError> {
        self.long_call(
            Method::POST,
            &format!("/v1/tenants/{name}/save"),
            Some(file),
        )
    }

    /// Makes the pools of such a file anew; returns when all pages are there.
    pub fn restore_tenant(
        &self,
        name: &TenantName,
        file: &RestoreFile,
    ) -> Result<CopyReport, CallError> {
        self.long_call(
            Method::POST,
            &format!("/v1/tenants/{name}/restore"),
            Some(file),
        )
    }

    /// Ends restored pools that no program has taken over.
    pub fn discard_restored(&self, name: &TenantName) -> Result<TenantStatus, CallError> {
        self.call::<(), _>(
            Method::DELETE,
            &format!("/v1/tenants/{name}/restored"),
            None,
        )
    }

    /// Gives memory back; returns when the last block has left.
    pub fn release(&self, release: &ReleaseRequest) -> Result<ReleaseReport, CallError> {
        self.call(Method::POST, "/v1/release", Some(release))
    }

    /// Every policy of the Memory Manager.
    pub fn policies(&self) -> Result<Policies, CallError> {
        self.call::<(), _>(Method::GET, "/v1/policies", None)
    }

    /// Has another policy decide.
    pub fn change_policy(&self, change: &ChangePolicy) -> Result<Policies, CallError> {
        self.call(Method::POST, "/v1/policy", Some(change))
    }

    /// What the policy decided about a tenant until then (Unix seconds), the latest first.
    pub fn explain(&self, tenant: &TenantName, until: u64) -> Result<Explained, CallError> {
        let path = format!("/v1/policy/explain?tenant={tenant}&until={until}");
        self.call::<(), _>(Method::GET, &path, None)
    }

    /// What would be for so many hits, with so much memory, or under another policy.
    pub fn what_if(&self, asked: &AskWhatIf) -> Result<WhatIf, CallError> {
        let path = format!("/v1/policy/what-if?{}", asked.query());
        self.call::<(), _>(Method::GET, &path, None)
    }

    /// All disks.
    pub fn disks(&self) -> Result<Disks, CallError> {
        self.call::<(), _>(Method::GET, "/v1/disks", None)
    }

    /// One disk.
    pub fn disk(&self, name: &DiskName) -> Result<DiskStatus, CallError> {
        self.call::<(), _>(Method::GET, &format!("/v1/disks/{name}"), None)
    }

    /// Opens a disk and has it served.
    pub fn add_disk(&self, disk: &AddDisk) -> Result<DiskStatus, CallError> {
        self.call(Method::POST, "/v1/disks", Some(disk))
    }

    /// Lets backings lie under one folder more.
    pub fn allow_folder(&self, folder: &AllowFolder) -> Result<DiskFolders, CallError> {
        self.call(Method::POST, "/v1/disk-folders", Some(folder))
    }

    /// Ends a disk; returns when the backing has everything, or when what it does not take is given up.
    pub fn remove_disk(&self, name: &DiskName, how: RemoveDisk) -> Result<RemovedDisk, CallError> {
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
    pub fn open_disk(&self, name: &DiskName, how: OpenDisk) -> Result<DiskStatus, CallError> {
        let path = format!("/v1/disks/{name}/open?force={}", how.force);
        self.call::<(), _>(Method::POST, &path, None)
    }

    /// Gives a disk another size.
    pub fn resize_disk(&self, name: &DiskName, size: &ResizeDisk) -> Result<DiskStatus, CallError> {
        self.call(
            Method::POST,
            &format!("/v1/disks/{name}/resize"),
            Some(size),
        )
    }

    /// Returns when the backing has everything that was written to a disk before.
    pub fn flush_disk(&self, name: &DiskName) -> Result<DiskStatus, CallError> {
        self.long_call::<(), _>(Method::POST, &format!("/v1/disks/{name}/flush"), None)
    }

    /// Every setting in force.
    pub fn settings(&self) -> Result<Settings, CallError> {
        self.call::<(), _>(Method::GET, "/v1/settings", None)
    }

    /// Whether it is well.
    pub fn health(&self) -> Result<Health, CallError> {
        self.call::<(), _>(Method::GET, "/v1/health", None)
    }

    /// The metrics, in OpenMetrics form.
    pub fn metrics(&self) -> Result<String, CallError> {
        let body = self.fetch(Method::GET, "/metrics", Body::new(), Patience::Limited)?;
        String::from_utf8(body.to_vec()).map_err(|_| CallError::Garbled(self.door.clone()))
    }

    /// Events that are in memory, as many as one answer has; [`Events::next`](crate::messages::Events::next) asks for more.
    pub fn events(&self, asked: &AskEvents) -> Result<Events, CallError> {
        let path = format!("/v1/events?{}", asked.query());
        self.call::<(), _>(Method::GET, &path, None)
    }

    fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
    ) -> Result<A, CallError> {
        self.ask(method, path, question, Patience::Limited)
    }

    /// A call that takes as long as what it moves.
    fn long_call<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
    ) -> Result<A, CallError> {
        self.ask(method, path, question, Patience::Endless)
    }

    fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        question: Option<&Q>,
        patience: Patience,
    ) -> Result<A, CallError> {
        let body = question.map_or(Ok(Vec::new()), serde_json::to_vec);
        let body = body.map_err(|_| CallError::Garbled(self.door.clone()))?;
        let answer = self.fetch(method, path, body.into(), patience)?;
        serde_json::from_slice(&answer).map_err(|_| CallError::Garbled(self.door.clone()))
    }

    fn fetch(
        &self,
        method: Method,
        path: &str,
        body: Body,
        patience: Patience,
    ) -> Result<Body, CallError> {
        self.runtime.block_on(async {
            let accept = "application/json, application/openmetrics-text";
            let answer = self.exchange(method, path, body, accept, patience).await?;
            self.whole(answer).await
        })
    }

    /// A connection, and the token that is to be shown on it.
    async fn connect(&self) -> Result<(Box<dyn Stream>, Option<String>), CallError> {
        match &self.door {
            Door::Unix(socket) => {
                let stream = in_time(CONNECT_TIME_MAX, UnixStream::connect(socket)).await;
                let stream = stream.map_err(|e| self.unreachable(e))?;
                Ok((Box::new(stream), None))
            }
            Door::Tcp {
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

    /// Why nothing was answered. Of a client's certificate the other side speaks after its handshake only.
    pub(crate) fn unreachable(&self, source: io::Error) -> CallError {
        let door = self.door.clone();
        let fault = tls_fault(&source);
        match fault {
            Some(fault @ rustls::Error::InvalidCertificate(_)) => CallError::Untrusted {
                door,
                source: Box::new(fault.clone()),
            },
            _ => match fault.and_then(Other::of) {
                Some(what) => CallError::Other { door, what },
                None => CallError::Unreachable { door, source },
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
    ) -> Result<Request<Full<Body>>, CallError> {
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::HOST, "sublet")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        if method == Method::GET {
            // Who asks once wants what is now, not what others saw within the last second.
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request
            .body(Full::new(body))
            .map_err(|_| CallError::Garbled(self.door.clone()))
    }

    /// Asks, and gives back the answer as far as its head.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Body,
        accept: &str,
        patience: Patience,
    ) -> Result<Response<Incoming>, CallError> {
        let (stream, token) = self.connect().await?;
        let request = self.request(method, path, body, accept, token.as_deref())?;
        let lost = |e: hyper::Error| self.unreachable(io::Error::other(e));
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        tokio::spawn(connection);
        let answer = async { sender.send_request(request).await.map_err(io::Error::other) };
        let answer = match patience {
            Patience::Limited => in_time(ANSWER_TIME_MAX, answer).await,
            Patience::Endless => answer.await,
        };
        answer.map_err(|e| self.unreachable(e))
    }

    /// All of an answer, or what the daemon said instead.
    pub(crate) async fn whole(&self, answer: Response<Incoming>) -> Result<Body, CallError> {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = body
            .collect()
            .await
            .map_err(|_| CallError::Garbled(self.door.clone()))?;
        self.judge(status, body.to_bytes())
    }

    fn judge(&self, status: StatusCode, body: Body) -> Result<Body, CallError> {
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(refusal) => Err(CallError::Refused(refusal)),
            Err(_) => Err(CallError::Garbled(self.door.clone())),
        }
    }
}

fn word(lasts: Lasts) -> &'static str {
    match lasts {
        Lasts::Always => "always",
        Lasts::UntilRestart => "until-restart",
    }
}

/// What TLS has to say of a failure, wherever among its causes.
fn tls_fault(failure: &io::Error) -> Option<&rustls::Error> {
    let mut cause = Some(failure as &(dyn Error + 'static));
    while let Some(error) = cause {
        if let Some(fault) = error.downcast_ref() {
            return Some(fault);
        }
        // An error of the system's kind passes over the one that it was made of.
        let inner = error.downcast_ref::<io::Error>().map(io::Error::get_ref);
        cause = match inner {
            Some(inner) => inner.map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
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
