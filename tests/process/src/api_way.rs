//! A process's way to the API server, held in the test's hand.
//!
//! A proxy that takes plain HTTP and passes it to the real API server over TLS
//! as the cluster's administrator, or on behalf of somebody with fewer rights. It
//! remembers each request, can be cut, can lose or hold requests of one kind, can
//! be narrowed to one namespace, and can lie: replace a text in what the API
//! server answers by another.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{Config, client::ConfigExt};
use napwake_testkit::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::narrow;

/// The way. Dropping it ends every connection on it.
#[derive(Debug)]
pub struct ApiWay {
    shared: Arc<Shared>,
    folder: TempDir,
    _serving: JoinSet<()>,
}

/// A request that went this way, or was lost on it.
#[derive(Clone, Debug)]
pub struct Request {
    /// When its last byte came.
    pub at: Instant,
    /// `GET`, `PATCH`, `POST` …
    pub method: String,
    /// The path with its query, as it was asked for.
    pub path: String,
    /// The body, null if it isn't JSON.
    pub body: Value,
}

struct Shared {
    connector: TlsConnector,
    server: SocketAddr,
    name: ServerName<'static>,
    asked: Mutex<Vec<Request>>,
    lies: Mutex<Vec<Lie>>,
    /// The only namespace there is, as far as this way shows.
    namespace: Mutex<Option<String>>,
    /// On whose behalf all is asked.
    user: Mutex<Option<String>>,
    state: watch::Sender<State>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// What the way does with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// All go through.
    #[default]
    Open,
    /// None does, and what was open ends.
    Cut,
    /// Each `PATCH` ends its connection unanswered.
    LosesPatches,
    /// Each `PATCH` waits, and is passed on once that is over.
    HoldsPatches,
}

/// A text, and what stands in its place.
#[derive(Clone, Debug)]
struct Lie {
    truth: Vec<u8>,
    instead: Vec<u8>,
}

impl ApiWay {
    /// Opens the way at `address`, to the API server that KUBECONFIG names.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let config = Config::infer()
            .await
            .context("KUBECONFIG must name the test cluster")?;
        let host = config.cluster_url.host().context("the API server's host")?;
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let host = host.trim_matches(['[', ']']);
        let server = SocketAddr::new(host.parse().context("the API server's address")?, port);
        let tls = config
            .rustls_client_config()
            .context("the administrator's certificate")?;
        let shared = Arc::new(Shared {
            connector: TlsConnector::from(Arc::new(tls)),
            server,
            name: ServerName::IpAddress(server.ip().into()),
            asked: Mutex::default(),
            lies: Mutex::default(),
            namespace: Mutex::default(),
            user: Mutex::default(),
            state: watch::Sender::default(),
        });
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("listen on {address}"))?;
        let folder = tempfile::tempdir()?;
        tokio::fs::write(folder.path().join("kubeconfig"), kubeconfig(address)).await?;
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            shared,
            folder,
            _serving: serving,
        })
    }

    /// A kubeconfig that leads this way.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder that is removed with the way.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Cuts the way: what is open ends, and nothing new gets through.
    pub fn cut(&self) {
        self.shared.state.send_replace(State::Cut);
    }

    /// Loses each `PATCH` from now on.
    pub fn lose_patches(&self) {
        self.shared.state.send_replace(State::LosesPatches);
    }

    /// Holds each `PATCH` from now on until the way is mended.
    pub fn hold_patches(&self) {
        self.shared.state.send_replace(State::HoldsPatches);
    }

    /// Opens it again.
    pub fn mend(&self) {
        self.shared.state.send_replace(State::Open);
    }

    /// Shows the objects of this namespace alone: who asks for those of the whole
    /// cluster gets only these.
    pub fn narrow(&self, namespace: &str) {
        *lock(&self.shared.namespace) = Some(namespace.to_owned());
    }

    /// Asks on behalf of this user from now on, with no more rights than theirs.
    pub fn speak_for(&self, user: &str) {
        *lock(&self.shared.user) = Some(user.to_owned());
    }

    /// Puts `instead` wherever the API server says `truth`, filled up with
    /// spaces behind it, so both must be JSON with their quotes.
    pub fn lie(&self, truth: &str, instead: &str) -> Result<()> {
        ensure!(
            instead.len() <= truth.len(),
            "{instead} is longer than {truth}"
        );
        let width = truth.len();
        lock(&self.shared.lies).push(Lie {
            truth: truth.as_bytes().to_vec(),
            instead: format!("{instead:width$}").into_bytes(),
        });
        Ok(())
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Vec<Request> {
        lock(&self.shared.asked).clone()
    }

    /// The writes to ManagedWorkloads in `namespace` so far.
    pub fn stamps(&self, namespace: &str) -> Vec<Request> {
        let path = format!("/namespaces/{namespace}/managedworkloads/");
        let mut asked = self.asked();
        asked.retain(|request| request.method != "GET" && request.path.contains(&path));
        asked
    }
}

fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "way",
        "clusters": [{"name": "way", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "way", "context": {"cluster": "way", "user": "nobody"}}],
    })
    .to_string()
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut passing = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if *shared.state.borrow() == State::Cut {
                    continue;
                }
                let shared = Arc::clone(&shared);
                // Either side may end it.
                passing.spawn(async move { drop(pass(stream, &shared).await) });
            }
            Some(_) = passing.join_next() => {}
        }
    }
}

async fn pass(client: TcpStream, shared: &Shared) -> Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    let server = shared
        .connector
        .connect(shared.name.clone(), server)
        .await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = tokio::io::split(server);
    let mut state = shared.state.subscribe();
    tokio::select! {
        ended = requests(from_client, to_server, shared) => ended,
        ended = answers(from_server, to_client, shared) => ended,
        _ = state.wait_for(|state| *state == State::Cut) => Ok(()),
    }
}

/// Passes requests on, one after the other: this side speaks plain HTTP/1.1.
async fn requests(
    mut client: impl AsyncRead + Unpin,
    mut server: tokio::io::WriteHalf<TlsStream<TcpStream>>,
    shared: &Shared,
) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let Some(head) = until_empty_line(&mut client, &mut bytes).await? else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let end = head + content_length(&text)?;
        while bytes.len() < end {
            ensure!(
                client.read_buf(&mut bytes).await? > 0,
                "a request without its end"
            );
        }
        let request = read(&text, &bytes[head..end])?;
        let is_patch = request.method == "PATCH";
        lock(&shared.asked).push(request);
        if is_patch {
            let mut state = shared.state.subscribe();
            state
                .wait_for(|state| *state != State::HoldsPatches)
                .await?;
            if *shared.state.borrow() == State::LosesPatches {
                return Ok(());
            }
        }
        let namespace = lock(&shared.namespace).clone();
        let narrowed = namespace.and_then(|namespace| narrow::head(&text, &namespace));
        let mut text = narrowed.unwrap_or(text);
        if let Some(user) = &*lock(&shared.user) {
            text = on_behalf_of(user, &text);
        }
        server.write_all(text.as_bytes()).await?;
        server.write_all(&bytes[head..end]).await?;
        server.flush().await?;
        bytes.drain(..end);
    }
}

/// The head of a request that is made on somebody's behalf.
fn on_behalf_of(user: &str, head: &str) -> String {
    head.replacen("\r\n", &format!("\r\nImpersonate-User: {user}\r\n"), 1)
}

async fn until_empty_line(
    client: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
) -> Result<Option<usize>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if client.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

fn content_length(head: &str) -> Result<usize> {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().to_owned())
    };
    match head.lines().find_map(value) {
        Some(length) => length.parse().context("a request's length"),
        None => Ok(0),
    }
}

fn read(head: &str, body: &[u8]) -> Result<Request> {
    let mut words = head.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        bail!("no request line in {head:?}");
    };
    Ok(Request {
        at: Instant::now(),
        method: method.to_owned(),
        path: path.to_owned(),
        body: serde_json::from_slice(body).unwrap_or_default(),
    })
}

/// Passes answers on, with the lies in them.
async fn answers(
    mut server: tokio::io::ReadHalf<TlsStream<TcpStream>>,
    mut client: impl AsyncWrite + Unpin,
    shared: &Shared,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    while server.read_buf(&mut bytes).await? > 0 {
        let lies = lock(&shared.lies).clone();
        for lie in &lies {
            lie.tell(&mut bytes);
        }
        // The beginning of a text that is replaced may be the end of a read.
        let kept = lies.iter().map(|lie| lie.begun(&bytes)).max().unwrap_or(0);
        let ready = bytes.len() - kept;
        client.write_all(&bytes[..ready]).await?;
        bytes.drain(..ready);
    }
    client.write_all(&bytes).await?;
    Ok(())
}

impl Lie {
    fn tell(&self, bytes: &mut [u8]) {
        let length = self.truth.len();
        for start in 0..bytes.len().saturating_sub(length - 1) {
            if bytes[start..start + length] == *self.truth {
                bytes[start..start + length].copy_from_slice(&self.instead);
            }
        }
    }

    /// How many of the last bytes may begin the text.
    fn begun(&self, bytes: &[u8]) -> usize {
        let longest = bytes.len().min(self.truth.len() - 1);
        let may_begin = |count: &usize| bytes.ends_with(&self.truth[..*count]);
        (1..=longest).rev().find(may_begin).unwrap_or(0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_has_the_length_of_the_truth() {
        let lie = Lie {
            truth: b"\"10.88.0.1\"".to_vec(),
            instead: b"\"::1\"      ".to_vec(),
        };
        let mut bytes = br#"{"ip":"10.88.0.1"},{"ip":"10.88"#.to_vec();
        lie.tell(&mut bytes);
        assert_eq!(bytes, br#"{"ip":"::1"      },{"ip":"10.88"#);
        assert_eq!(lie.begun(&bytes), 6);
        assert_eq!(lie.begun(b"\n"), 0);
    }

    #[test]
    fn a_request_is_made_on_somebodys_behalf() {
        let head = on_behalf_of("mary", "GET /a HTTP/1.1\r\nHost: b\r\n\r\n");
        let expected = "GET /a HTTP/1.1\r\nImpersonate-User: mary\r\nHost: b\r\n\r\n";
        assert_eq!(head, expected);
    }

    #[test]
    fn a_request_ends_where_its_length_says() {
        let head = "PATCH /a?b HTTP/1.1\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(content_length(head).unwrap(), 7);
        let request = read(head, br#"{"a":1}"#).unwrap();
        assert_eq!((&*request.method, &*request.path), ("PATCH", "/a?b"));
        assert_eq!(request.body["a"], 1);
    }
}
