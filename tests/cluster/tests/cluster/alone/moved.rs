//! Requests to a workload that is paused and woken over and over, straight and through
//! what stands in front, while doorman pods come and go.

use futures::future::join_all;
use napwake_api::workload::Phase;
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers, ensure,
    ingress::{HOST, Ingress},
    managed, place,
    place::Place,
};
use napwake_tests_process::nginx::Nginx;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    own::{Own, Part},
    setup,
};

/// How many requests come at once to the workload that sleeps.
const AT_ONCE: usize = 10;

/// A way to the Service `web`.
enum Way {
    /// Its own address.
    Straight(String),
    /// nginx, which has that address for its upstream.
    Nginx {
        socket: String,
        _alive: (Nginx, TempDir),
    },
    /// An ingress that reads EndpointSlices: Contour, with Envoy.
    Contour(Ingress),
}

/// Which way.
#[derive(Clone, Copy, Debug)]
enum Front {
    None,
    Nginx,
    Contour,
}

impl Way {
    async fn open(place: &Place, front: Front) -> Result<Self> {
        let address = place.address("web").await?;
        Ok(match front {
            Front::None => Self::Straight(format!("http://{address}/")),
            Front::Nginx => {
                let folder = tempfile::tempdir()?;
                let socket = folder.path().join("front.sock").display().to_string();
                let http = format!(
                    "server {{ listen unix:{socket}; location / {{ proxy_pass http://{address}; }} }}",
                );
                let nginx = Nginx::start(folder.path(), &http).await?;
                Self::Nginx {
                    socket,
                    _alive: (nginx, folder),
                }
            }
            Front::Contour => {
                let ingress = Ingress::start(place).await?;
                ingress.serve(place, "web", "/", json!({})).await?;
                Self::Contour(ingress)
            }
        })
    }

    /// One request, which the app must answer itself.
    async fn ask(&self) -> Result<()> {
        let answer = match self {
            Self::Straight(url) => callers::curl(url, &["--include"]).await?.ok()?,
            Self::Nginx { socket, .. } => {
                let args = ["--include", "--unix-socket", socket];
                callers::curl("http://web.example.com/", &args)
                    .await?
                    .ok()?
            }
            Self::Contour(ingress) => ingress.curl(&format!("http://{HOST}/"), &[]).await?,
        };
        let is_answered = answer.contains(" 200") && answer.contains("app web-");
        ensure!(is_answered, "not the app's own answer: {answer}");
        Ok(())
    }
}

/// Pauses it and asks it, many at once, in each round; in every second round a doorman
/// pod is told to stop as the requests come.
async fn rounds(front: Front, rounds: usize) {
    place::with("moved", async |place| {
        let own = Own::of(&place);
        own.until_settled(Part::Doorman).await?;
        setup::manage(&place, &App::new("web", "http"), json!({})).await?;
        let way = Way::open(&place, front).await?;
        for round in 1..=rounds {
            managed::pause_routed(&place, "web").await?;
            let is_disturbed = round % 2 == 0;
            let asked = join_all((0..AT_ONCE).map(|_| way.ask()));
            let (left, asked) = tokio::join!(leave(&own, is_disturbed), asked);
            left?;
            let failed: Vec<_> = asked.into_iter().filter_map(Result::err).collect();
            ensure!(failed.is_empty(), "round {round}: {failed:#?}");
            managed::phase(&place, "web", Phase::Running).await?;
            own.until_whole(Part::Doorman).await?;
        }
        Ok(())
    })
    .await;
}

/// Has one doorman pod stop, if so.
async fn leave(own: &Own, is_so: bool) -> Result<()> {
    if is_so {
        let pods = own.staying(Part::Doorman).await?;
        own.delete(pods.first().context("a doorman pod")?).await?;
    }
    Ok(())
}

/// HOLD-04, DRAIN-11: none of the requests fails, whichever way they come.
#[rstest::rstest]
#[case::straight(Front::None)]
#[case::through_nginx(Front::Nginx)]
#[case::through_contour(Front::Contour)]
#[tokio::test]
async fn requests_are_answered_while_a_doorman_pod_stops(#[case] front: Front) {
    rounds(front, 2).await;
}

mod long {
    use super::*;

    /// HOLD-04, DRAIN-11: two hundred of them, through twenty pauses.
    #[rstest::rstest]
    #[case::straight(Front::None)]
    #[case::through_nginx(Front::Nginx)]
    #[case::through_contour(Front::Contour)]
    #[tokio::test]
    async fn two_hundred_requests_are_answered_through_twenty_pauses(#[case] front: Front) {
        rounds(front, 20).await;
    }
}
