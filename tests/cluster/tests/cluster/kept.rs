//! A caller that keeps its connection for one request after the other.

use std::time::Duration;

use napwake_testkit::{Context, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// One connection.
#[derive(Debug)]
pub(crate) struct Kept(BufReader<TcpStream>);

/// What came back for a request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status line and headers.
    pub(crate) head: String,
    /// As many bytes as the head says.
    pub(crate) body: Vec<u8>,
}

impl Kept {
    /// Connects.
    pub(crate) async fn connect(address: &str, port: u16) -> Result<Self> {
        let socket = TcpStream::connect((address, port)).await;
        Ok(Self(BufReader::new(socket.context("connect")?)))
    }

    /// Sends a request and nothing but what it needs.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: app\r\n\r\n");
        self.send(request.as_bytes()).await?;
        self.answer().await
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await.context("send")
    }

    /// Reads one answer.
    pub(crate) async fn answer(&mut self) -> Result<Answer> {
        let read = timeout(PATIENCE, self.read_answer()).await;
        read.with_context(|| format!("no whole answer within {PATIENCE:?}"))?
    }

    /// Reads to the connection's end, at which nothing more may come.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        let count = self.0.read_to_end(&mut rest).await.context("read")?;
        ensure!(count == 0, "{count} bytes came before the end");
        Ok(())
    }

    async fn read_answer(&mut self) -> Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let count = self.0.read_line(&mut head).await?;
            ensure!(count > 0, "it ended after {head:?}");
        }
        let length = header(&head, "Content-Length").context("it has a length")?;
        let mut body = vec![0; length.parse()?];
        self.0.read_exact(&mut body).await?;
        Ok(Answer { head, body })
    }
}

impl Answer {
    /// The value of a header, spelled as the app spells it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The body as a line of text.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
