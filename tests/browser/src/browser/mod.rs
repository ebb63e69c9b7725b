//! A browser as a person has it: a fresh profile, its own User-Agent, and the
//! clicks of a pointer.

mod driver;
mod start;
mod wire;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use napwake_testkit::{Context, Result, bail, ensure, wait};
use serde_json::{Value, json};
use thirtyfour::{
    By, WebDriver, WebElement,
    common::command::{Command, ExtensionCommand},
};

use crate::SOON;
use driver::Driver;

/// Which browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Chromium, headless, under the name that it has with a window.
    Chromium,
    /// Chromium, headless, under the name that it then gives itself.
    HeadlessChromium,
    /// As [`Kind::Chromium`], whose owner lets no page run scripts.
    ScriptlessChromium,
    /// Firefox ESR, headless.
    Firefox,
    /// WebKitGTK's MiniBrowser, on a screen of its own: Safari, as far as Linux
    /// has it.
    WebKit,
}

/// Names that a browser finds without a name server, and where.
pub type Hosts<'a> = &'a [(&'a str, std::net::IpAddr)];

/// A running browser.
#[derive(Debug)]
pub struct Browser {
    web: WebDriver,
    driver: Driver,
}

/// What a tab shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text, as it's laid out.
    pub text: String,
}

impl Page {
    /// Whether it's the asleep page, without a word on a click.
    pub fn is_asleep(&self) -> bool {
        self.title.starts_with("Asleep")
    }

    /// Whether it's the asleep page as the answer to a click that woke nothing.
    pub fn is_refusal(&self) -> bool {
        self.title.starts_with("Not woken")
    }

    /// Whether it's the waking-up page.
    pub fn is_waking(&self) -> bool {
        self.title.starts_with("Waking up")
    }

    /// Whether the test app of that name answered.
    pub fn is_of_app(&self, name: &str) -> bool {
        self.text.starts_with(&format!("app {name}-"))
    }
}

/// Runs `test` with a fresh browser and ends it, however the test ends. A failure
/// prints what the browser showed, and where a picture of it is.
pub async fn with(
    kind: Kind,
    hosts: Hosts<'_>,
    test: impl AsyncFnOnce(&Browser) -> Result<()>,
) -> Result<()> {
    let browser = start::browser(kind, hosts).await?;
    let outcome = test(&browser).await;
    if outcome.is_err() {
        browser.tell(kind).await;
    }
    let ended = browser.web.quit().await;
    drop(browser.driver);
    outcome?;
    ended.with_context(|| format!("end {kind:?}"))
}

impl Browser {
    /// Opens an address, as if a person had typed it, and waits for its page.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.web
            .goto(url)
            .await
            .with_context(|| format!("open {url}"))
    }

    /// What the tab shows now.
    pub async fn page(&self) -> Result<Page> {
        let script = "return [location.href, document.title, \
            document.body ? document.body.innerText : ''];";
        let shown = self.run(script, Vec::new()).await?;
        let [url, title, text]: [String; 3] =
            serde_json::from_value(shown).context("three texts")?;
        Ok(Page { url, title, text })
    }

    /// Waits until the tab shows what `is_it` accepts.
    pub async fn until(&self, what: &str, is_it: impl Fn(&Page) -> bool) -> Result<Page> {
        self.within(SOON, what, is_it).await
    }

    /// As [`Self::until`], within `bound`.
    pub async fn within(
        &self,
        bound: std::time::Duration,
        what: &str,
        is_it: impl Fn(&Page) -> bool,
    ) -> Result<Page> {
        wait::until(what, bound, || self.page(), is_it).await
    }

    /// Runs a script in the page, as the page's own would run.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Result<Value> {
        let run = self.web.execute(script, arguments).await;
        Ok(run.context("run a script")?.json().clone())
    }

    /// Runs a script that calls its last argument with what it found.
    pub async fn run_until_it_calls(&self, script: &str, arguments: Vec<Value>) -> Result<Value> {
        let run = self.web.execute_async(script, arguments).await;
        Ok(run.context("run a script")?.json().clone())
    }

    /// The only element that a selector finds.
    pub async fn only(&self, selector: &str) -> Result<WebElement> {
        let mut found = self.all(selector).await?;
        ensure!(found.len() == 1, "{} elements are {selector}", found.len());
        found.pop().context("there is one")
    }

    /// The elements that a selector finds.
    pub async fn all(&self, selector: &str) -> Result<Vec<WebElement>> {
        let found = self.web.find_all(By::Css(selector.to_owned())).await;
        found.with_context(|| format!("look for {selector}"))
    }

    /// Clicks on the only element that a selector finds.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let clicked = self.only(selector).await?.click().await;
        clicked.with_context(|| format!("click on {selector}"))
    }

    /// Clicks on the `Wake it` button.
    pub async fn press(&self) -> Result<()> {
        let button = self.only("form button").await?;
        let text = button.text().await?;
        ensure!(text == "Wake it", "the button says {text:?}");
        button.click().await.context("click on the button")
    }

    /// What the button would post.
    pub async fn token(&self) -> Result<String> {
        let field = self.only("form input[type=hidden]").await?;
        let token = field.attr("value").await?;
        token.context("the field has a value")
    }

    /// The driver itself, for what a single test needs.
    pub fn web(&self) -> &WebDriver {
        &self.web
    }

    /// Keeps a picture of what the tab shows.
    pub async fn picture(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let taken = self.web.screenshot(path).await;
        taken.with_context(|| format!("take a picture for {}", path.display()))
    }

    /// Has Chromium do something that WebDriver has no command for, by the name and
    /// parameters of its developer tools' protocol.
    pub async fn devtools(&self, name: &str, parameters: Value) -> Result<()> {
        let command = json!({"cmd": name, "params": parameters});
        self.chromium("/goog/cdp/execute", command).await?;
        Ok(())
    }

    /// What Chromium's console has been told since this was asked last: an object each,
    /// with its `source`, its `level` and its `message`.
    pub async fn console(&self) -> Result<Vec<Value>> {
        let told = self.chromium("/se/log", json!({"type": "browser"})).await?;
        serde_json::from_value(told).context("a list of messages")
    }

    async fn chromium(&self, endpoint: &'static str, parameters: Value) -> Result<Value> {
        let what = format!("have Chromium do {endpoint} with {parameters}");
        let command = Box::new(OfChromium {
            endpoint,
            parameters,
        });
        let done = self.web.cmd(Command::ExtensionCommand(command)).await;
        let done = done.and_then(thirtyfour::session::http::CmdResponse::value_json);
        done.context(what)
    }

    async fn tell(&self, kind: Kind) {
        let path = pictures().join(format!("{}-{kind:?}.png", test_name()));
        match self.picture(&path).await {
            Ok(()) => eprintln!("--- {kind:?} showed {} ---", path.display()),
            Err(error) => eprintln!("--- {kind:?} showed something: {error:#} ---"),
        }
        match self.page().await {
            Ok(page) => eprintln!("{page:#?}"),
            Err(error) => eprintln!("no page: {error:#}"),
        }
        match self.web.source().await {
            Ok(source) => eprintln!("{source}"),
            Err(error) => eprintln!("no source: {error}"),
        }
    }
}

/// A command that only Chromium's driver has.
#[derive(Debug)]
struct OfChromium {
    endpoint: &'static str,
    parameters: Value,
}

impl ExtensionCommand for OfChromium {
    fn parameters_json(&self) -> Option<Value> {
        Some(self.parameters.clone())
    }

    fn method(&self) -> http::Method {
        http::Method::POST
    }

    fn endpoint(&self) -> Arc<str> {
        self.endpoint.into()
    }
}

/// Where pictures are kept for people to look at.
pub fn pictures() -> PathBuf {
    napwake_dev::workspace::target().join("browser")
}

/// The running test, as it's named, fit for a file.
fn test_name() -> String {
    let current = std::thread::current();
    current.name().unwrap_or("test").replace("::", "-")
}

/// The version that a browser's program prints: its first number.
async fn major_version(program: &str) -> Result<String> {
    let printed = napwake_testkit::callers::run(program, &["--version"]).await?;
    let printed = printed.ok()?;
    let number = printed
        .split(' ')
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    match number.and_then(|number| number.split('.').next()) {
        Some(major) => Ok(major.to_owned()),
        None => bail!("{program} has no version: {printed:?}"),
    }
}
