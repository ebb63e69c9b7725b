//! Servers that fall silent, over real sockets and with a clock that only the test
//! moves.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, mpsc},
    time::Duration,
};

use http_body_util::BodyExt;
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::Client;
use napwake_kit::chain::Chain;
use tokio::{net::TcpStream, sync::watch, task::JoinSet};
use tokio_rustls::server::TlsStream;

use super::*;
use crate::{client::from_config, plain};

/// What the server never answers. All else it answers with the number of the
/// connection that it was asked by.
const NEVER: &str = "/never";

const STEP: Duration = Duration::from_millis(1);

/// An API server that speaks HTTP/2.
struct Server {
    address: SocketAddr,
    /// Connections up to this number are silent.
    silent: Arc<watch::Sender<usize>>,
    accepted: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
    _still: mpsc::Sender<()>,
}

/// Keeps the clock of a current-thread runtime, which is paused, from moving by
/// itself whenever there is nothing to do but wait for a socket.
fn still() -> mpsc::Sender<()> {
    let (still, end) = mpsc::channel();
    tokio::task::spawn_blocking(move || end.recv().ok());
    still
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(watch::Sender::new(0));
        let (count, accepted) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&silent), count));
        Self {
            address,
            silent,
            accepted,
            _tasks: tasks,
            _still: still(),
        }
    }

    /// From now on nothing more is heard of it on the connections there are: it
    /// reads nothing, answers nothing, not even a ping, and closes nothing.
    async fn falls_silent(&self) {
        self.silent.send_replace(*self.accepted.borrow());
        quiet().await;
    }

    fn request(&self, path: &str) -> Request<Body> {
        let request = Request::get(format!("https://{}{path}", self.address));
        request.body(Body::empty()).unwrap()
    }

    /// A client as the processes have it.
    fn client(&self) -> Client {
        from_config(config(self.address), "1.2.3").unwrap()
    }
}

async fn accept(
    listener: TcpListener,
    silent: Arc<watch::Sender<usize>>,
    count: watch::Sender<usize>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        count.send_modify(|count| *count += 1);
        let (number, silent) = (*count.borrow(), silent.subscribe());
        connections.spawn(async move {
            let stream = server().accept(stream).await.unwrap();
            speak(stream, number, silent).await;
        });
    }
}

/// Speaks HTTP/2 until it falls silent.
async fn speak(stream: TlsStream<TcpStream>, number: usize, mut silent: watch::Receiver<usize>) {
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| async move {
        if request.uri().path() == NEVER {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(number.to_string()))
    });
    let builder = http2::Builder::new(TokioExecutor::new());
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        _silent = silent.wait_for(|silent| *silent >= number) => None,
    };
    if ended.is_none() {
        // It stays open, and nobody looks after it any more.
        std::future::pending::<()>().await;
    }
}

/// Lets everything happen that needs no time.
async fn quiet() {
    rounds(200).await;
}

async fn rounds(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Waits for what needs no time. The clock stands still, so it bounds nothing.
async fn soon<T>(wanted: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        got = wanted => got,
        () = rounds(100_000) => panic!("it would wait for ever"),
    }
}

/// All of a span but its last step.
fn nearly(span: Duration) -> Duration {
    span.saturating_sub(STEP)
}

async fn pass(span: Duration) {
    quiet().await;
    tokio::time::advance(span).await;
    quiet().await;
}

/// By which connection a call goes. It takes no time.
async fn asked_by(transport: &mut Transport, server: &Server) -> String {
    let call = transport.call(server.request("/version"));
    let answer = soon(call).await.unwrap();
    let body = soon(answer.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

async fn asked_with(client: &Client) -> String {
    let request = Request::get("/version").body(Vec::new()).unwrap();
    soon(client.request_text(request)).await.unwrap()
}

/// A call to a server that is gone without a word ends once a ping of it has had no
/// answer, and the next goes by another connection.
#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_given_up_under_a_call() {
    let server = Server::start().await;
    let mut transport = transport(server.address, Calls::Together);
    assert_eq!(asked_by(&mut transport, &server).await, "1");
    server.falls_silent().await;
    let mut calls = JoinSet::new();
    calls.spawn(transport.call(server.request("/version")));
    pass(PING).await;
    pass(nearly(PONG)).await;
    assert!(calls.try_join_next().is_none(), "it ended too early");
    pass(STEP).await;
    let ended = calls.try_join_next().expect("it ends").unwrap();
    let error = ended.expect_err("nobody answered");
    let told = Chain(&error).to_string();
    assert!(told.contains("keep-alive timed out"), "{told}");
    assert_eq!(asked_by(&mut transport, &server).await, "2");
}

/// The same while nothing is asked, so that the next call doesn't find out.
#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_given_up_at_rest() {
    let server = Server::start().await;
    let mut transport = transport(server.address, Calls::Together);
    assert_eq!(asked_by(&mut transport, &server).await, "1");
    server.falls_silent().await;
    pass(PING).await;
    pass(PONG).await;
    assert_eq!(asked_by(&mut transport, &server).await, "2");
}

/// A server that answers pings keeps its connection, however little is asked.
#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_pings_is_kept() {
    let server = Server::start().await;
    let mut transport = transport(server.address, Calls::Together);
    for _ in 0..10 {
        assert_eq!(asked_by(&mut transport, &server).await, "1");
        for _ in 0..10 {
            pass(PING).await;
        }
    }
}

/// A call without an answer ends at its own limit. It holds up no other meanwhile,
/// and takes none with it.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_alone() {
    let server = Server::start().await;
    let client = server.client();
    assert_eq!(asked_with(&client).await, "1");
    let mut calls = JoinSet::new();
    let (asking, request) = (client.clone(), Request::get(NEVER).body(Vec::new()));
    calls.spawn(async move { asking.request_text(request.unwrap()).await });
    let mut left = nearly(ANSWER);
    while !left.is_zero() {
        let step = left.min(PING);
        pass(step).await;
        assert_eq!(asked_with(&client).await, "1");
        left -= step;
    }
    assert!(calls.try_join_next().is_none(), "it ended too early");
    pass(STEP).await;
    let ended = calls.try_join_next().expect("it ends").unwrap();
    let error = ended.expect_err("nobody answered");
    assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
    assert_eq!(plain(&error), "request timed out");
    assert_eq!(asked_with(&client).await, "1");
}

/// A server that takes a connection and says nothing, not even by TLS, is waited
/// for no longer than connecting may take.
#[rstest]
#[case(Calls::Together)]
#[case(Calls::Apart)]
#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_begin_is_given_up(#[case] calls: Calls) {
    let _still = still();
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = mute.local_addr().unwrap();
    let mut transport = transport(address, calls);
    let request = Request::get(format!("https://{address}/version"));
    let mut waiting = JoinSet::new();
    waiting.spawn(transport.call(request.body(Body::empty()).unwrap()));
    let (_open, _) = soon(mute.accept()).await.unwrap();
    pass(nearly(CONNECT)).await;
    assert!(waiting.try_join_next().is_none(), "it ended too early");
    pass(STEP).await;
    let ended = waiting.try_join_next().expect("it ends").unwrap();
    ended.expect_err("nobody answered");
}

/// Calls that are apart don't go the way of one that has no answer.
#[tokio::test(start_paused = true)]
async fn calls_that_are_apart_pass_one_without_an_answer() {
    let _still = still();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut transport = transport(address, Calls::Apart);
    let (mut calls, mut open) = (JoinSet::new(), Vec::new());
    for _ in 0..3 {
        let request = Request::get(format!("https://{address}/version"));
        calls.spawn(transport.call(request.body(Body::empty()).unwrap()));
        let (stream, _) = soon(listener.accept()).await.unwrap();
        open.push(soon(server().accept(stream)).await.unwrap());
    }
    assert!(calls.try_join_next().is_none(), "nobody answered");
}
