//! Somebody else's site: one page, whatever is asked for.

use axum::{Router, extract::Request, response::Html};
use napwake_testkit::{
    Context, Result,
    block::{self, Block},
};
use tokio::{net::TcpListener, task::JoinSet};

use crate::seen::{Record, Seen};

/// A site at an address of its own, gone when it's dropped.
#[derive(Debug)]
pub struct Site {
    /// The address of its page.
    pub url: String,
    /// What was asked for.
    pub record: Record,
    _serving: JoinSet<()>,
}

impl Site {
    /// A site whose page is `html`.
    pub async fn of(html: &str) -> Result<Self> {
        let own = Block::take()?.v4(0);
        block::own_addresses().await?;
        let listener = TcpListener::bind((own, 80)).await;
        let listener = listener.with_context(|| format!("listen on {own}"))?;
        let record = Record::default();
        let (kept, html) = (record.clone(), html.to_owned());
        let answer = async move |request: Request| {
            kept.add(seen(&request));
            Html(html)
        };
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // Until it's dropped.
            drop(axum::serve(listener, Router::new().fallback(answer)).await);
        });
        Ok(Self {
            url: format!("http://{own}/"),
            record,
            _serving: serving,
        })
    }
}

fn seen(request: &Request) -> Seen {
    let headers = request.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value)
    });
    let target = request.uri().to_string();
    Seen::now(request.method().as_str(), &target, headers.collect())
}
