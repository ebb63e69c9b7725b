//! Scripted servers in place of pods, which remember who came and what was
//! sent.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use napwake_testkit::{Context, Result, bail, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::Instant,
};

use crate::SOON;

/// Where pods listen, unless a test says otherwise.
pub const PORT: u16 = 8080;

/// A server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    visits: Visits,
    _serving: JoinSet<()>,
}

/// What is known of one connection.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Where it came from.
    pub peer: SocketAddr,
    /// When it came.
    pub at: Instant,
    /// Everything it sent so far.
    pub bytes: Vec<u8>,
    /// Whether its sending side has ended.
    pub ended: bool,
}

type Visits = Arc<Mutex<Vec<Visit>>>;

/// One connection to a server, as its script sees it.
#[derive(Debug)]
pub struct Guest {
    stream: TcpStream,
    number: usize,
    visits: Visits,
    /// Bytes that were read and not given out yet.
    unread: VecDeque<u8>,
}

impl Upstream {
    /// Serves each connection with `script`.
    pub async fn serve<S, F>(address: IpAddr, script: S) -> Result<Self>
    where
        S: Fn(Guest) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::serve_at(SocketAddr::new(address, PORT), script).await
    }

    /// The same on a port of the test's own.
    pub async fn serve_at<S, F>(address: SocketAddr, script: S) -> Result<Self>
    where
        S: Fn(Guest) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("listen on {address}"))?;
        Ok(Self::over(listener, address, script))
    }

    fn over<S, F>(listener: TcpListener, address: SocketAddr, script: S) -> Self
    where
        S: Fn(Guest) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let visits = Visits::default();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, visits.clone(), script));
        Self {
            address,
            visits,
            _serving: serving,
        }
    }

    /// Sends everything back.
    pub async fn echoing(address: IpAddr) -> Result<Self> {
        Self::greeting(address, "").await
    }

    /// Speaks first, then sends everything back.
    pub async fn greeting(address: IpAddr, greeting: &str) -> Result<Self> {
        let greeting = greeting.to_owned();
        Self::serve(address, move |guest| greet(guest, greeting.clone())).await
    }

    /// Reads on for ever and says nothing.
    pub async fn listening(address: IpAddr) -> Result<Self> {
        Self::serve(address, |mut guest| async move {
            while !guest.read().await?.is_empty() {}
            Ok(())
        })
        .await
    }

    /// Answers each request head with `answer`, as it is.
    pub async fn answering(address: IpAddr, answer: &str) -> Result<Self> {
        let answer = answer.to_owned();
        Self::serve(address, move |guest| reply(guest, answer.clone())).await
    }

    /// Answers each request head with [`PAGE`].
    pub async fn web(address: IpAddr) -> Result<Self> {
        Self::answering(address, PAGE).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who came so far, in that order.
    pub fn visits(&self) -> Vec<Visit> {
        lock(&self.visits).clone()
    }

    /// How many came so far.
    pub fn count(&self) -> usize {
        lock(&self.visits).len()
    }

    /// Waits until so many have come.
    pub async fn visited(&self, count: usize) -> Result<Vec<Visit>> {
        let what = format!("{count} connections to {}", self.address);
        let probe = || async { Ok(self.visits()) };
        wait::until(&what, SOON, probe, |visits| visits.len() >= count).await
    }

    /// Waits until the first that came has sent so many bytes.
    pub async fn received(&self, count: usize) -> Result<Vec<u8>> {
        let what = format!("{count} bytes at {}", self.address);
        let probe = || async {
            let visits = lock(&self.visits);
            Ok(visits.first().map_or(0, |visit| visit.bytes.len()))
        };
        wait::until(&what, SOON, probe, |received| *received >= count).await?;
        Ok(self.visits().swap_remove(0).bytes)
    }
}

/// The answer of [`Upstream::web`].
pub const PAGE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\napp\n";

async fn accept<S, F>(listener: TcpListener, visits: Visits, script: S)
where
    S: Fn(Guest) -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut guests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else { continue };
                let guest = welcome(stream, peer, &visits);
                let scripted = script(guest);
                // A guest that leaves early ends its script with an error.
                guests.spawn(async move { drop(scripted.await) });
            }
            Some(_) = guests.join_next() => {}
        }
    }
}

fn welcome(stream: TcpStream, peer: SocketAddr, visits: &Visits) -> Guest {
    let mut all = lock(visits);
    all.push(Visit {
        peer,
        at: Instant::now(),
        bytes: Vec::new(),
        ended: false,
    });
    let number = all.len() - 1;
    Guest {
        stream,
        number,
        visits: Arc::clone(visits),
        unread: VecDeque::new(),
    }
}

async fn greet(mut guest: Guest, greeting: String) -> io::Result<()> {
    guest.write(greeting.as_bytes()).await?;
    loop {
        let piece = guest.read().await?;
        if piece.is_empty() {
            return guest.stream.shutdown().await;
        }
        guest.write(&piece).await?;
    }
}

async fn reply(mut guest: Guest, answer: String) -> io::Result<()> {
    while !guest.head().await?.is_empty() {
        guest.write(answer.as_bytes()).await?;
    }
    Ok(())
}

impl Guest {
    /// The next bytes; none at the end.
    pub async fn read(&mut self) -> io::Result<Vec<u8>> {
        if !self.unread.is_empty() {
            return Ok(self.unread.drain(..).collect());
        }
        let mut piece = vec![0; 64 * 1024];
        let count = self.stream.read(&mut piece).await?;
        piece.truncate(count);
        let mut visits = lock(&self.visits);
        let visit = &mut visits[self.number];
        visit.bytes.extend_from_slice(&piece);
        visit.ended |= count == 0;
        drop(visits);
        Ok(piece)
    }

    /// The next request head, up to its empty line; empty at the end.
    pub async fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut head: Vec<u8> = Vec::new();
        loop {
            let piece = self.read().await?;
            if piece.is_empty() {
                return Ok(Vec::new());
            }
            head.extend(piece);
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                self.unread.extend(head.split_off(end + 4));
                return Ok(head);
            }
        }
    }

    /// Reads so many bytes.
    pub async fn body(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while body.len() < count {
            let piece = self.read().await?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            body.extend(piece);
        }
        self.unread.extend(body.split_off(count));
        Ok(body)
    }

    /// Sends all of `bytes`.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }
}

/// An address where connections are neither accepted nor refused: a listener
/// whose queue is full, so that the kernel drops every SYN.
#[derive(Debug)]
pub struct Deaf {
    listener: TcpListener,
    queued: Vec<TcpStream>,
}

impl Deaf {
    /// Begins to drop SYNs.
    pub async fn begin(address: IpAddr) -> Result<Self> {
        let address = SocketAddr::new(address, PORT);
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.bind(address)?;
        let listener = socket.listen(0)?;
        let mut queued = Vec::new();
        for _ in 0..8 {
            let knocking = TcpStream::connect(address);
            match tokio::time::timeout(Duration::from_millis(300), knocking).await {
                Ok(connected) => queued.push(connected?),
                Err(_) => return Ok(Self { listener, queued }),
            }
        }
        bail!("{address} takes more connections than its queue should hold");
    }

    /// Accepts from now on, and serves with `script`; the kernel then answers the
    /// next SYN of whoever tried before.
    pub async fn listen<S, F>(self, script: S) -> Result<Upstream>
    where
        S: Fn(Guest) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        for _ in &self.queued {
            self.listener.accept().await?;
        }
        let address = self.listener.local_addr()?;
        Ok(Upstream::over(self.listener, address, script))
    }
}

fn lock(visits: &Visits) -> MutexGuard<'_, Vec<Visit>> {
    visits.lock().unwrap_or_else(PoisonError::into_inner)
}
