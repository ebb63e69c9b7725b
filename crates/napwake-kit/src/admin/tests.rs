//! Tests of the admin servers over real sockets, on ports the system picks.

use std::path::Path;

use rstest::rstest;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{args::LogFormat, metrics};

const PATIENCE: Duration = Duration::from_secs(10);

fn args() -> AdminArgs {
    let local = "127.0.0.1:0".parse().unwrap();
    AdminArgs {
        health_bind_address: local,
        metrics_bind_address: local,
        metrics_insecure: true,
        metrics_cert_dir: None,
    }
}

fn log_handle() -> LogHandle {
    let args = crate::args::LogArgs {
        log_level: "info".parse().unwrap(),
        log_format: LogFormat::Text,
    };
    crate::log::detached(&args)
}

/// Runs a server until what is returned is dropped.
fn running<T: Send + 'static>(server: impl Future<Output = T> + Send + 'static) -> JoinSet<T> {
    let mut tasks = JoinSet::new();
    tasks.spawn(server);
    tasks
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    answer
}

async fn plain(address: SocketAddr, request: &str) -> String {
    exchange(TcpStream::connect(address).await.unwrap(), request).await
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

fn check(answer: &str, status: &str, contains: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")),
        "{answer}"
    );
    assert!(
        answer.contains(contains),
        "{contains} is missing in {answer}"
    );
}

#[tokio::test]
async fn health_follows_readiness() {
    let process = CancellationToken::new();
    let readiness = Readiness::new(&process);
    let caches = readiness.handle("caches");
    let health = Admin::bind(&args()).unwrap().health;
    let address = health.address();
    let _server = running(health.serve(readiness.clone(), log_handle()));

    check(&plain(address, &get("/healthz")).await, "200", "ok");
    check(&plain(address, &get("/readyz")).await, "503", "not ready");
    check(
        &plain(address, &get("/readyz?verbose")).await,
        "503",
        "waiting for caches",
    );

    caches.done();
    check(&plain(address, &get("/readyz")).await, "200", "ok");

    // DRAIN-04: not ready at once, alive all the same.
    process.cancel();
    check(
        &plain(address, &get("/readyz?verbose")).await,
        "503",
        "stopping",
    );
    check(&plain(address, &get("/healthz")).await, "200", "ok");
    check(&plain(address, &get("/")).await, "404", "");
}

#[rstest]
#[case::changes("PUT /debug/log-level?filter=debug,hyper=off", "200")]
#[case::unreadable("PUT /debug/log-level?filter=napwake=loud", "400")]
#[case::missing("PUT /debug/log-level", "400")]
#[case::reading("GET /debug/log-level", "405")]
#[tokio::test]
async fn the_log_filter_changes_from_loopback(#[case] line: &str, #[case] status: &str) {
    let health = Admin::bind(&args()).unwrap().health;
    let address = health.address();
    let readiness = Readiness::new(&CancellationToken::new());
    let _server = running(health.serve(readiness, log_handle()));
    let request = format!("{line} HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n");
    check(&plain(address, &request).await, status, "");
}

/// Knows one token.
struct OneToken(Verdict);

impl Authorizer for OneToken {
    fn may_read_metrics<'a>(&'a self, bearer: Option<&'a str>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match bearer {
                Some("secret") => self.0,
                _ => Verdict::Unauthenticated,
            }
        })
    }
}

fn metrics_now() -> Metrics {
    Metrics::new(metrics::registry("1.2.3"))
}

#[tokio::test]
async fn plain_metrics_ask_nobody() {
    let server = Admin::bind(&args()).unwrap().metrics;
    let address = server.address();
    let _server = running(server.serve(metrics_now(), Arc::new(OneToken(Verdict::Denied))));
    let answer = plain(address, &get("/metrics")).await;
    check(&answer, "200", "napwake_build_info{version=\"1.2.3\"} 1");
    check(&answer, "200", "content-type: text/plain; version=0.0.4");
    let request =
        "GET /metrics HTTP/1.1\r\nhost: t\r\naccept: application/openmetrics-text\r\n\r\n";
    check(&plain(address, request).await, "200", "# EOF");
}

struct SecureServer {
    address: SocketAddr,
    trusted: CertificateDer<'static>,
    tasks: JoinSet<Result<Infallible, Infallible>>,
}

impl SecureServer {
    fn start(cert_dir: Option<&Path>, authorizer: OneToken) -> Self {
        let args = AdminArgs {
            metrics_insecure: false,
            metrics_cert_dir: cert_dir.map(Path::to_owned),
            ..args()
        };
        let server = Admin::bind(&args).unwrap().metrics;
        let Transport::Tls { certificates, .. } = &server.transport else {
            panic!("not TLS")
        };
        let trusted = certificates.shown();
        let address = server.address();
        let tasks = running(server.serve(metrics_now(), Arc::new(authorizer)));
        Self {
            address,
            trusted,
            tasks,
        }
    }

    async fn scrape(&self, authorization: &str) -> String {
        assert!(!self.tasks.is_empty(), "the server runs");
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nhost: t\r\n{authorization}\r\n");
        exchange(stream, &request).await
    }
}

#[rstest]
#[case::allowed(
    Verdict::Allowed,
    "authorization: Bearer secret\r\n",
    "200",
    "process_open_fds"
)]
#[case::any_case(
    Verdict::Allowed,
    "authorization: bearer secret\r\n",
    "200",
    "process_open_fds"
)]
#[case::denied(Verdict::Denied, "authorization: Bearer secret\r\n", "403", "")]
#[case::unavailable(Verdict::Unavailable, "authorization: Bearer secret\r\n", "503", "")]
#[case::no_token(Verdict::Allowed, "", "401", "www-authenticate: Bearer")]
#[case::other_scheme(Verdict::Allowed, "authorization: Basic secret\r\n", "401", "")]
#[tokio::test]
async fn secure_metrics_ask_the_authorizer(
    #[case] verdict: Verdict,
    #[case] authorization: &str,
    #[case] status: &str,
    #[case] contains: &str,
) {
    let server = SecureServer::start(None, OneToken(verdict));
    check(&server.scrape(authorization).await, status, contains);
}

fn write_pair(directory: &Path) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), pair.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    pair.cert.into()
}

#[tokio::test]
async fn a_mounted_certificate_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = write_pair(directory.path());
    let server = SecureServer::start(Some(directory.path()), OneToken(Verdict::Allowed));
    assert_eq!(server.trusted, certificate);
    check(
        &server.scrape("authorization: Bearer secret\r\n").await,
        "200",
        "",
    );
}

#[test]
fn a_mounted_certificate_is_read_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_pair(directory.path());
    let certificates = Certificates::mounted(directory.path().to_owned()).unwrap();
    let second = write_pair(directory.path());

    let start = Instant::now();
    certificates.refresh(start + Duration::from_secs(30));
    assert_eq!(certificates.shown(), first, "too soon to look");
    certificates.refresh(start + Duration::from_secs(61));
    assert_eq!(certificates.shown(), second);

    std::fs::write(directory.path().join("tls.crt"), "half a certif").unwrap();
    certificates.refresh(start + Duration::from_secs(122));
    assert_eq!(
        certificates.shown(),
        second,
        "what can't be used changes nothing"
    );
}

#[test]
fn a_mounted_certificate_must_be_there_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let error = Certificates::mounted(directory.path().to_owned()).unwrap_err();
    assert!(error.to_string().ends_with("tls.crt"), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let args = AdminArgs {
        health_bind_address: crate::args::BindAddress(address),
        ..args()
    };
    let error = Admin::bind(&args).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("can't listen on {address} for health")
    );
}

/// A health server with limits of its own, and where it listens.
fn limited(limits: Limits) -> (SocketAddr, JoinSet<Result<Infallible, Infallible>>) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let app = routes::health(Readiness::new(&CancellationToken::new()), log_handle());
    let server = serve::serve(listener, app, Transport::Plain, limits);
    (address, running(server))
}

async fn check_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    assert_eq!(read.expect("it is closed").unwrap(), 0);
}

/// Those who send nothing keep no place from others.
#[tokio::test]
async fn one_more_than_fit_drops_the_oldest() {
    let long = Duration::from_mins(10);
    let (address, _server) = limited(Limits {
        connections: 2,
        whole: long,
        headers: long,
    });
    let oldest = TcpStream::connect(address).await.unwrap();
    let second = TcpStream::connect(address).await.unwrap();
    check(&plain(address, &get("/healthz")).await, "200", "ok");
    check_closed(oldest).await;
    check(&exchange(second, &get("/healthz")).await, "200", "ok");
}

#[tokio::test]
async fn who_sends_nothing_is_let_go_after_a_while() {
    let (address, _server) = limited(Limits {
        headers: Duration::from_millis(200),
        ..LIMITS
    });
    check_closed(TcpStream::connect(address).await.unwrap()).await;
}
