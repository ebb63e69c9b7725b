//! Programs that ask by HTTP, as they come: held where requests wake, turned away
//! where a person is asked for.

use std::net::SocketAddr;

use napwake_tests_process::{
    Context, Result, callers, ensure,
    hosts::Family,
    world::{self, World},
};
use rstest::rstest;

use crate::{
    browsers::with_key,
    protocols::{Server, first_call},
};

/// A program, or what it's made with.
#[derive(Clone, Copy, Debug)]
enum Program {
    Curl,
    Wget,
    /// The library that Python's programs use.
    Requests,
    /// Go's own client.
    Go,
}

/// Prints the status and the body.
const REQUESTS: &str = "
import sys, requests

answer = requests.get(sys.argv[1])
print(answer.status_code)
print(answer.text)
";

/// What a program was answered.
#[derive(Debug)]
struct Answered {
    status: u16,
    body: String,
}

impl Program {
    /// Asks as the program does where nobody tells it more than the address.
    async fn get(self, from: SocketAddr) -> Result<Answered> {
        let url = format!("http://{from}/");
        let printed = match self {
            Self::Curl => callers::curl(&url, &["-w", "%{stderr}%{http_code}"]).await?,
            Self::Wget => {
                let args = ["-q", "-S", "-O", "-", "--content-on-error", url.as_str()];
                callers::run("wget", &args).await?
            }
            Self::Requests => {
                // Debian's own Python: another in PATH lacks Debian's libraries.
                callers::run("/usr/bin/python3", &["-c", REQUESTS, &url]).await?
            }
            Self::Go => {
                let app = std::env::var("NAPWAKE_TEST_APP");
                let app = app.context("NAPWAKE_TEST_APP must be set")?;
                callers::run(&app, &["-get", &url]).await?
            }
        };
        let (status, body) = match self {
            Self::Curl => (printed.err.as_str(), printed.out.as_str()),
            Self::Wget => {
                let line = printed.err.trim_start().lines().next();
                let status = line.and_then(|line| line.split(' ').nth(1));
                (status.unwrap_or_default(), printed.out.as_str())
            }
            Self::Requests | Self::Go => printed.out.split_once('\n').unwrap_or_default(),
        };
        Ok(Answered {
            status: status.parse().with_context(|| format!("{printed:?}"))?,
            body: body.to_owned(),
        })
    }
}

/// HOLD-04, HOLD-39, CLASS-01: where requests wake, each is held, and gets the app's own
/// answer to its first call.
#[rstest]
#[tokio::test]
async fn a_program_is_held(
    #[values(Program::Curl, Program::Wget, Program::Requests, Program::Go)] program: Program,
    #[values(Family::V4, Family::V6)] family: Family,
) {
    world::with("program", async |world| {
        let server = Server::app(world, family, "http").await?;
        first_call(world, &server, family, async |to| {
            let answered = program.get(to).await?;
            ensure!(answered.status == 200, "{answered:?}");
            ensure!(answered.body.starts_with("app "), "{answered:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// ASK-05, ASK-28, ASK-30, ASK-33, AWAY-01, AWAY-14: where a person is asked for, each
/// is told that it's asleep and how to wake it, wakes nothing, and is counted.
#[rstest]
#[tokio::test]
async fn a_program_is_turned_away(
    #[values(Program::Curl, Program::Wget, Program::Requests, Program::Go)] program: Program,
) {
    world::with("program", async |world: &World| {
        let (route, doorman, to) = with_key(world, world.route("web").asking()).await?;
        let answered = program.get(to).await?;
        ensure!(answered.status == 503, "{answered:?}");
        for words in ["is asleep", "kubectl napwake wake"] {
            ensure!(answered.body.contains(words), "{answered:?}");
        }
        let labels = &[("result", "turned_away")];
        doorman
            .until_metric("napwake_doorman_wakes_total", labels, 1.0)
            .await?;
        let stamp = route.last_request().await?;
        ensure!(stamp.is_none(), "{stamp:?}");
        Ok(())
    })
    .await;
}
