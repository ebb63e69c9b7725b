//! Starting each browser: its driver, and what it is asked to be.

use std::{net::Ipv4Addr, time::Duration};

use napwake_testkit::{Context, Result, wait};
use serde_json::{Value, json};
use thirtyfour::{Capabilities, WebDriver};
use tokio::net::{TcpListener, TcpStream};

use super::{
    Browser, Hosts, Kind,
    driver::{self, Driver, Wanted},
    major_version,
    wire::Wire,
};
use crate::SOON;

/// Starts a browser with a fresh profile.
pub(super) async fn browser(kind: Kind, hosts: Hosts<'_>) -> Result<Browser> {
    let (driver, port) = match kind {
        Kind::Chromium | Kind::HeadlessChromium | Kind::ScriptlessChromium => {
            chromedriver(hosts).await?
        }
        Kind::Firefox => geckodriver(hosts).await?,
        Kind::WebKit => webkit_driver(hosts).await?,
    };
    let wanted = capabilities(kind, &driver).await?;
    let url = format!("http://127.0.0.1:{port}");
    let web = WebDriver::builder(url, wanted).client(Wire::new()).await;
    let web = web.with_context(|| format!("start {kind:?}: {}", driver.last_words()))?;
    web.set_page_load_timeout(Duration::from_mins(2)).await?;
    Ok(Browser { web, driver })
}

async fn chromedriver(hosts: Hosts<'_>) -> Result<(Driver, u16)> {
    let wanted = Wanted {
        program: "chromedriver",
        args: vec!["--port=0".to_owned()],
        variables: Vec::new(),
        screen: None,
    };
    let mut driver = Driver::start(wanted, hosts)?;
    let port = driver.printed_port("started successfully on port ").await?;
    Ok((driver, port))
}

async fn geckodriver(hosts: Hosts<'_>) -> Result<(Driver, u16)> {
    let program = std::env::var("NAPWAKE_GECKODRIVER").context("set by `cargo xtask test`")?;
    let wanted = Wanted {
        program: &program,
        args: ["--port", "0", "--websocket-port", "0"]
            .map(str::to_owned)
            .to_vec(),
        variables: Vec::new(),
        screen: None,
    };
    let mut driver = Driver::start(wanted, hosts)?;
    let port = driver.printed_port("Listening on 127.0.0.1:").await?;
    Ok((driver, port))
}

/// It takes a free port by itself, too, but doesn't say which.
async fn webkit_driver(hosts: Hosts<'_>) -> Result<(Driver, u16)> {
    let (screen, display) = driver::screen().await?;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = free.local_addr()?.port();
    drop(free);
    let wanted = Wanted {
        program: "WebKitWebDriver",
        args: vec![format!("--port={port}")],
        variables: vec![
            ("DISPLAY", display),
            ("LIBGL_ALWAYS_SOFTWARE", "1".to_owned()),
            // As root it can't have a sandbox.
            ("WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS", "1".to_owned()),
        ],
        screen: Some(screen),
    };
    let driver = Driver::start(wanted, hosts)?;
    let what = format!("WebKitWebDriver to listen on {port}");
    let address = (Ipv4Addr::LOCALHOST, port);
    let listens = async || Ok(TcpStream::connect(address).await.is_ok());
    wait::until(&what, SOON, listens, |listens| *listens).await?;
    Ok((driver, port))
}

/// What a session is asked to be. Certificates are the tests' own.
async fn capabilities(kind: Kind, driver: &Driver) -> Result<Capabilities> {
    let (name, key, options) = match kind {
        Kind::Chromium | Kind::ScriptlessChromium => {
            let agent = chromes_own_name().await?;
            let more = [format!("--user-agent={agent}")];
            let mut options = chromium(driver, &more);
            if kind == Kind::ScriptlessChromium {
                // 2 is "block".
                let setting = "profile.managed_default_content_settings.javascript";
                options["prefs"] = json!({setting: 2});
            }
            ("chrome", "goog:chromeOptions", options)
        }
        Kind::HeadlessChromium => ("chrome", "goog:chromeOptions", chromium(driver, &[])),
        Kind::Firefox => ("firefox", "moz:firefoxOptions", firefox()),
        Kind::WebKit => ("MiniBrowser", "webkitgtk:browserOptions", webkit()),
    };
    let mut wanted = json!({"browserName": name, "acceptInsecureCerts": true, key: options});
    if name == "chrome" {
        // Else its driver keeps warnings and errors alone.
        wanted["goog:loggingPrefs"] = json!({"browser": "ALL"});
    }
    Ok(serde_json::from_value(wanted)?)
}

/// What Chromium calls itself where it has a window: its version, and nothing
/// of a robot.
async fn chromes_own_name() -> Result<String> {
    let major = major_version("chromium").await?;
    Ok(format!(
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/{major}.0.0.0 Safari/537.36"
    ))
}

fn chromium(driver: &Driver, more: &[String]) -> Value {
    let profile = driver.home.path().join("profile");
    let mut args = vec![
        "--headless=new".to_owned(),
        // As root it can't have a sandbox.
        "--no-sandbox".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-gpu".to_owned(),
        format!("--user-data-dir={}", profile.display()),
    ];
    args.extend_from_slice(more);
    json!({"binary": "/usr/bin/chromium", "args": args})
}

fn firefox() -> Value {
    json!({"binary": "/usr/bin/firefox-esr", "args": ["-headless"]})
}

fn webkit() -> Value {
    // Where Debian has it.
    let libraries = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let binary = format!("{libraries}/webkit2gtk-4.1/MiniBrowser");
    json!({"binary": binary, "args": ["--automation"]})
}
