//! What tests of pages share: requests as browsers make them, and pages as they
//! read them.

use std::net::{IpAddr, SocketAddr};

use napwake_tests_process::{
    Context, Result, SOON,
    caller::{Caller, How},
    doorman::Doorman,
    ensure,
    route::{Draft, Route},
    wait,
    world::World,
};

pub(crate) const FIREFOX: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0";
pub(crate) const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 \
    (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
pub(crate) const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) \
    AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15";
pub(crate) const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) \
    AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/130.0.6723.37 Mobile/15E148 Safari/604.1";

/// The host that every browser here opens.
pub(crate) const HOST: &str = "staging.example.com";

/// What a browser says of a page that a person opens, over HTTPS.
pub(crate) const NAVIGATES: &[&str] = &["Sec-Fetch-Mode: navigate", "Accept: text/html,*/*;q=0.8"];

/// What it says of a click on the page's button.
pub(crate) const CLICKS: &[&str] = &[
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-User: ?1",
];

/// A request with these headers.
pub(crate) fn asking(line: &str, agent: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: {agent}\r\n");
    for header in headers {
        text.extend([*header, "\r\n"]);
    }
    text.extend(["\r\n", body]);
    text.into_bytes()
}

/// A person opens a page.
pub(crate) fn opening(path: &str) -> Vec<u8> {
    asking(&format!("GET {path}"), FIREFOX, NAVIGATES, "")
}

/// A small form that is posted.
pub(crate) fn posting(path: &str, agent: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    let own = [
        "Content-Type: application/x-www-form-urlencoded",
        length.as_str(),
    ];
    asking(
        &format!("POST {path}"),
        agent,
        &[headers, own.as_slice()].concat(),
        body,
    )
}

/// The form that the button posts.
pub(crate) fn form(token: &str) -> String {
    format!("napwake-wake={token}")
}

/// A person presses the button, in Firefox over HTTPS.
pub(crate) fn clicking(token: &str) -> Vec<u8> {
    posting("/", FIREFOX, CLICKS, &form(token))
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The status line, without the version.
    pub(crate) status: String,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(text: &str) -> Result<Self> {
        let (head, body) = text.split_once("\r\n\r\n").context("a whole head")?;
        let status = head.lines().next().unwrap_or_default();
        let status = status.strip_prefix("HTTP/1.1 ").context("an answer")?;
        Ok(Self {
            status: status.to_owned(),
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    /// The value of a header, empty if it isn't there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().skip(1);
        let value = lines.find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        });
        value.unwrap_or_default()
    }

    /// What the page's button posts.
    pub(crate) fn token(&self) -> Result<String> {
        token_in(&self.body).with_context(|| format!("no button in {self:?}"))
    }

    /// That it has this status, isn't stored, and closes.
    pub(crate) fn is(&self, status: &str) -> Result<()> {
        ensure!(self.status == status, "not {status}: {self:?}");
        ensure!(self.header("Connection") == "close", "{self:?}");
        ensure!(self.header("Cache-Control") == "no-store", "{self:?}");
        Ok(())
    }

    /// That it is the waking-up page.
    pub(crate) fn is_waking_page(&self) -> Result<()> {
        self.is("503 Service Unavailable")?;
        ensure!(self.header("Retry-After") == "3", "{self:?}");
        ensure!(self.body.contains("is waking up"), "{self:?}");
        Ok(())
    }

    /// That it is the asleep page, with this status and a button.
    pub(crate) fn is_asleep_page(&self, status: &str) -> Result<()> {
        self.is(status)?;
        ensure!(self.body.contains("is asleep"), "{self:?}");
        ensure!(self.body.contains("<button>Wake it</button>"), "{self:?}");
        self.token()?;
        Ok(())
    }

    /// That it names none of these.
    pub(crate) fn names_none_of(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let is_named = self.head.contains(name) || self.body.contains(name);
            ensure!(!is_named, "{name} is in {self:?}");
        }
        Ok(())
    }
}

/// Makes the wake key's Secret, the route, and a doorman, with where that listens
/// for it.
pub(crate) async fn with_key<'a>(
    world: &World,
    draft: Draft<'a>,
) -> Result<(Route<'a>, Doorman, SocketAddr)> {
    world.put_wake_key().await?;
    let route = draft.make().await?;
    let doorman = world.doorman().await?;
    let to = route.at(&doorman);
    Ok((route, doorman, to))
}

/// What the button of a page posts, if it has one.
pub(crate) fn token_in(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("name=\"napwake-wake\" value=\"")?;
    let (token, _) = rest.split_once('"')?;
    Some(token.to_owned())
}

/// Asks and reads the answer to its end.
pub(crate) async fn answer(from: IpAddr, to: SocketAddr, bytes: &[u8]) -> Result<Answer> {
    let mut caller = Caller::calling(from, to, bytes).await?;
    let ending = caller.ending(SOON).await?;
    ensure!(
        ending.how == How::Closed,
        "a reset may lose the answer: {ending:?}"
    );
    Answer::read(&ending.text())
}

/// Waits for the asleep page there, and gives its token.
pub(crate) async fn until_asleep(from: IpAddr, to: SocketAddr) -> Result<String> {
    let opens = opening("/");
    let probe = || answer(from, to, &opens);
    let is_asleep = |page: &Answer| page.is_asleep_page("200 OK").is_ok();
    let page = wait::until("the asleep page", SOON, probe, is_asleep).await?;
    page.token()
}

/// Waits for the waking-up page there.
pub(crate) async fn until_waking(from: IpAddr, to: SocketAddr) -> Result<()> {
    let opens = opening("/");
    let probe = || answer(from, to, &opens);
    let is_waking = |page: &Answer| page.is_waking_page().is_ok();
    wait::until("the waking-up page", SOON, probe, is_waking).await?;
    Ok(())
}
