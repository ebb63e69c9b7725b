//! A way to a Service that keeps what was asked for on it.
//!
//! It passes bytes on as they come, one connection for each that it takes, and
//! reads the requests' heads on the side. What the browser says of itself and of
//! the page stays as it was.

use std::net::{IpAddr, SocketAddr};

use napwake_testkit::{
    Context, Result,
    block::{self, Block},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::seen::{Record, Seen};

/// How many headers of a request are read: browsers send fewer.
const HEADERS: usize = 64;

/// Before which port of an address of its own it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// 80: the address names no port.
    Usual,
    /// A free one, which the address names.
    Other,
}

/// The way to one Service. What it carries ends when it's dropped.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    /// What was asked for.
    pub record: Record,
    _carrying: JoinSet<()>,
}

impl Door {
    /// A way to port 80 of `service`, at an address that no other test has.
    pub async fn to(service: &str, number: Number) -> Result<Self> {
        let own = Block::take()?.v4(0);
        block::own_addresses().await?;
        let port = match number {
            Number::Usual => 80,
            Number::Other => 0,
        };
        let listener = TcpListener::bind((own, port)).await;
        let listener = listener.with_context(|| format!("listen on {own}"))?;
        let address = listener.local_addr()?;
        let target = SocketAddr::new(service.parse::<IpAddr>()?, 80);
        let record = Record::default();
        let mut carrying = JoinSet::new();
        carrying.spawn(accept(listener, target, record.clone()));
        Ok(Self {
            address,
            record,
            _carrying: carrying,
        })
    }

    /// The origin of its pages, as a browser spells it.
    pub fn origin(&self) -> String {
        match self.address.port() {
            80 => format!("http://{}", self.address.ip()),
            port => format!("http://{}:{port}", self.address.ip()),
        }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, record: Record) {
    let mut connections = JoinSet::new();
    while let Ok((browser, _)) = listener.accept().await {
        connections.spawn(carry(browser, target, record.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection. One that fails on either side ends on both, as it
/// would without us.
async fn carry(browser: TcpStream, target: SocketAddr, record: Record) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (mut from_browser, mut to_browser) = browser.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = async {
        let mut heads = Heads::default();
        let mut piece = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_browser.read(&mut piece).await {
            let bytes = &piece[..length];
            heads
                .read(bytes)
                .into_iter()
                .for_each(|seen| record.add(seen));
            if to_server.write_all(bytes).await.is_err() {
                return;
            }
        }
        drop(to_server.shutdown().await);
    };
    let answering = async {
        drop(tokio::io::copy(&mut from_server, &mut to_browser).await);
        drop(to_browser.shutdown().await);
    };
    tokio::join!(asking, answering);
}

/// Reads the heads of the requests on one connection.
#[derive(Debug, Default)]
struct Heads {
    /// What has come of the next head.
    begun: Vec<u8>,
    /// How much of a body is still to come, in bytes.
    body: usize,
}

impl Heads {
    /// Takes the next bytes, and gives the requests whose heads they complete.
    fn read(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.begun.extend(bytes);
        let mut complete = Vec::new();
        loop {
            let of_body = self.body.min(self.begun.len());
            self.begun.drain(..of_body);
            self.body -= of_body;
            let Some((seen, length)) = head(&self.begun) else {
                return complete;
            };
            self.begun.drain(..length);
            let body = seen.header("content-length");
            self.body = body.and_then(|body| body.parse().ok()).unwrap_or(0);
            complete.push(seen);
        }
    }
}

/// The head that `bytes` begin with, and its length; none before all of it is there.
fn head(bytes: &[u8]) -> Option<(Seen, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) | Err(_) => return None,
    };
    let headers = request.headers.iter().map(|header| {
        let value = String::from_utf8_lossy(header.value).into_owned();
        (header.name.to_owned(), value)
    });
    let headers = headers.collect();
    Some((Seen::now(request.method?, request.path?, headers), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_behind_bodies_and_in_pieces() {
        let mut heads = Heads::default();
        let first = b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nGE";
        let seen = heads.read(first);
        assert_eq!(seen.iter().map(Seen::line).collect::<Vec<_>>(), ["POST /a"]);
        assert!(heads.read(b"T GET /b?c HTTP/1.1\r\nHo").is_empty());
        let seen = heads.read(b"st: x\r\n\r\nGET /d HTTP/1.1\r\n\r\n");
        assert_eq!(
            seen.iter().map(Seen::line).collect::<Vec<_>>(),
            ["GET /b?c", "GET /d"]
        );
        assert_eq!(seen[0].header("HOST"), Some("x"));
    }
}
