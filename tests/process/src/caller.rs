//! Raw callers: TCP connections from a chosen address that a test drives byte
//! by byte.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use napwake_testkit::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout},
};

use crate::SOON;

/// A plain request that nobody takes for a health check.
pub const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: app.example\r\nUser-Agent: curl/8.5.0\r\n\r\n";

/// One connection.
#[derive(Debug)]
pub struct Caller {
    stream: TcpStream,
    connected: Instant,
}

/// How a connection ended, as its caller sees it.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Everything that came before the end.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub how: How,
    /// When, counted from the connection's start.
    pub after: Duration,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In order.
    Closed,
    /// By a reset.
    Reset,
}

impl Ending {
    /// Nothing was sent before the end.
    pub fn nothing_sent(&self) -> Result<()> {
        ensure!(
            self.bytes.is_empty(),
            "something was sent: {:?}",
            self.text()
        );
        Ok(())
    }

    /// What was sent, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Caller {
    /// Connects from `from` to `to`.
    pub async fn connect(from: IpAddr, to: SocketAddr) -> Result<Self> {
        let connected = Instant::now();
        let stream = timeout(SOON, open(from, to)).await;
        let stream = stream.with_context(|| format!("no connection from {from} to {to}"))?;
        let stream = stream.with_context(|| format!("connect from {from} to {to}"))?;
        Ok(Self { stream, connected })
    }

    /// Connects and sends `bytes`.
    pub async fn calling(from: IpAddr, to: SocketAddr, bytes: &[u8]) -> Result<Self> {
        let mut caller = Self::connect(from, to).await?;
        caller.send(bytes).await?;
        Ok(caller)
    }

    /// Whether a connection is refused.
    pub async fn is_refused(from: IpAddr, to: SocketAddr) -> Result<bool> {
        match timeout(SOON, open(from, to)).await {
            Ok(Ok(_)) => Ok(false),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => bail!("neither accepted nor refused within {SOON:?}"),
        }
    }

    /// Its own address.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.stream.local_addr()?)
    }

    /// When it was connected.
    pub fn connected(&self) -> Instant {
        self.connected
    }

    /// Sends all of `bytes`.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("send")?;
        Ok(())
    }

    /// Sends one byte at a time, with `pause` between them.
    pub async fn send_slowly(&mut self, bytes: &[u8], pause: Duration) -> Result<()> {
        self.stream.set_nodelay(true)?;
        for byte in bytes {
            self.stream.write_all(&[*byte]).await?;
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Shuts its sending side and goes on reading.
    pub async fn shut(&mut self) -> Result<()> {
        self.stream
            .shutdown()
            .await
            .context("shut the sending side")
    }

    /// Ends it with a reset.
    pub fn reset(self) -> Result<()> {
        self.will_reset()
    }

    /// Makes its end a reset, whatever is still unsent.
    pub fn will_reset(&self) -> Result<()> {
        Ok(self.stream.set_zero_linger()?)
    }

    /// Reads exactly so many bytes, within `bound`.
    pub async fn read(&mut self, count: usize, bound: Duration) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        let reading = async {
            while filled < count {
                let piece = self.stream.read(&mut bytes[filled..]).await?;
                ensure!(piece > 0, "it ended");
                filled += piece;
            }
            Ok(())
        };
        let read = timeout(bound, reading).await;
        let read = read.unwrap_or_else(|_| bail!("nothing more within {bound:?}"));
        read.with_context(|| format!("{filled} of {count} bytes came"))?;
        Ok(bytes)
    }

    /// Reads these bytes and no others.
    pub async fn expect(&mut self, wanted: &[u8]) -> Result<()> {
        let got = self.read(wanted.len(), SOON).await?;
        let text = String::from_utf8_lossy(&got);
        ensure!(
            got == wanted,
            "got {text:?}, not {:?}",
            String::from_utf8_lossy(wanted)
        );
        Ok(())
    }

    /// Reads an HTTP answer up to the end of its headers.
    pub async fn read_head(&mut self, bound: Duration) -> Result<String> {
        let mut head = Vec::new();
        let reading = async {
            while !head.ends_with(b"\r\n\r\n") {
                head.push(self.stream.read_u8().await?);
            }
            io::Result::Ok(())
        };
        let read = timeout(bound, reading).await;
        let text = String::from_utf8_lossy(&head).into_owned();
        match read {
            Ok(Ok(())) => Ok(text),
            Ok(Err(error)) => bail!("it ended ({error}) after {text:?}"),
            Err(_) => bail!("no whole head within {bound:?}, only {text:?}"),
        }
    }

    /// Reads until the end.
    pub async fn ending(&mut self, bound: Duration) -> Result<Ending> {
        let mut bytes = Vec::new();
        let read = timeout(bound, self.stream.read_to_end(&mut bytes)).await;
        let how = match read {
            Ok(Ok(_)) => How::Closed,
            Ok(Err(_)) => How::Reset,
            Err(_) => bail!(
                "still open after {bound:?}, with {} bytes read",
                bytes.len()
            ),
        };
        let after = self.connected.elapsed();
        Ok(Ending { bytes, how, after })
    }

    /// Sees that nothing comes and the connection stays open for `span`.
    pub async fn is_held_for(&mut self, span: Duration) -> Result<()> {
        let mut byte = [0];
        match timeout(span, self.stream.peek(&mut byte)).await {
            Err(_) => Ok(()),
            Ok(Ok(0)) => bail!("closed within {:?}", self.connected.elapsed()),
            Ok(Ok(_)) => bail!("answered within {:?}", self.connected.elapsed()),
            Ok(Err(error)) => bail!("ended within {:?}: {error}", self.connected.elapsed()),
        }
    }

    /// The two halves, for tasks of their own.
    pub fn split(
        self,
    ) -> (
        tokio::net::tcp::OwnedReadHalf,
        tokio::net::tcp::OwnedWriteHalf,
    ) {
        self.stream.into_split()
    }
}

async fn open(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}
