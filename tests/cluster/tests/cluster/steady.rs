//! Callers that call all the while, each time over a connection of its own.

use std::{future::Future, pin::pin, time::Duration};

use napwake_testkit::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// How often somebody calls.
const EVERY: Duration = Duration::from_millis(50);

/// What is asked all the while, and how its answer begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    request: &'static str,
    answer: &'static str,
}

/// A request like any other, which the app answers.
pub(crate) const REQUESTS: Calls = Calls {
    request: "GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n",
    answer: "HTTP/1.1 200",
};

/// Health checks, which the doorman answers itself, waking nothing.
pub(crate) const CHECKS: Calls = Calls {
    request: "GET / HTTP/1.1\r\nHost: web\r\nUser-Agent: kube-probe/1.30\r\nConnection: close\r\n\r\n",
    answer: "HTTP/1.1 503",
};

/// Health checks, whoever answers them.
pub(crate) const PROBES: Calls = Calls {
    request: CHECKS.request,
    answer: "HTTP/1.1 ",
};

/// A browser's page loads, whoever answers them.
pub(crate) const LOADS: Calls = Calls {
    request: "GET / HTTP/1.1\r\nHost: web\r\nAccept: text/html\r\nUser-Agent: Mozilla/5.0 \
              (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0\r\nConnection: close\r\n\r\n",
    answer: "HTTP/1.1 ",
};

impl Calls {
    /// Calls the address while `work` goes on, and gives how many calls were
    /// answered. The first call that isn't answered so is an error at once.
    pub(crate) async fn during<T>(
        self,
        address: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(usize, T)> {
        let begun = Instant::now();
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut calls = JoinSet::new();
        let mut answered = 0;
        let mut work = pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done?,
                _ = tick.tick() => drop(calls.spawn(self.call(address.to_owned(), begun))),
                Some(ended) = calls.join_next() => {
                    ended.context("a call ran")??;
                    answered += 1;
                }
            }
        };
        while let Some(ended) = calls.join_next().await {
            ended.context("a call ran")??;
            answered += 1;
        }
        Ok((answered, done))
    }

    async fn call(self, address: String, begun: Instant) -> Result<()> {
        let at = begun.elapsed();
        let ended = timeout(Duration::from_mins(1), self.ask(&address)).await;
        ended
            .context("no answer within 60 s")
            .flatten()
            .with_context(|| format!("the call {at:?} after the first"))
    }

    async fn ask(self, address: &str) -> Result<()> {
        let mut socket = TcpStream::connect(address).await.context("connect")?;
        socket.write_all(self.request.as_bytes()).await?;
        let mut answer = String::new();
        let read = socket.read_to_string(&mut answer).await;
        read.with_context(|| format!("the answer ended after {answer:?}"))?;
        ensure!(
            answer.starts_with(self.answer),
            "not {:?} but {answer:?}",
            self.answer
        );
        Ok(())
    }
}
