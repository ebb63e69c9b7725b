//! Health checks that the doorman can't tell from callers.

mod long {
    use std::{convert::Infallible, time::Duration};

    use jiff::SignedDuration;
    use napwake_api::{names::signal, stamp::LastRequest, workload::Phase};
    use napwake_testkit::{
        Context, Result,
        apps::App,
        bail, callers, ensure, managed,
        place::{self, Place},
    };
    use rstest::rstest;
    use serde_json::json;

    use crate::setup;

    /// How often the check comes.
    const EVERY: Duration = Duration::from_mins(1);

    /// Checks it every minute, for ever.
    async fn check(url: &str) -> Result<Infallible> {
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            let agent = ["-k", "-A", "AcmeScrape/1"];
            callers::curl(url, &agent).await?.ok()?;
        }
    }

    /// Pauses it three times, each as soon as it runs again, and gives how long it
    /// was paused each time until a caller came.
    async fn spells(place: &Place) -> Result<Vec<SignedDuration>> {
        let mut spells = Vec::new();
        for _ in 0..3 {
            let status = managed::pause(place, "web").await?;
            let paused = status.pause.and_then(|pause| pause.paused_at);
            let began = paused.context("its pods went")?.0;
            managed::phase(place, "web", Phase::Running).await?;
            let stamp = managed::annotation(place, "web", signal::LAST_REQUEST).await?;
            let stamp: LastRequest = stamp.context("a stamp")?.parse()?;
            spells.push(stamp.stamp.at().duration_since(began));
        }
        Ok(spells)
    }

    /// CLASS-36: a check whose User-Agent nobody knows, and one over TLS, wake it
    /// each time, so it's never paused for as long as the check's minute.
    #[rstest]
    #[case::unknown("http")]
    #[case::over_tls("tls")]
    #[tokio::test]
    async fn its_pauses_are_shorter_than_the_check_s_interval(#[case] mode: &str) {
        place::with("unread", async |place| {
            setup::manage(&place, &App::new("web", mode), json!({})).await?;
            let address = place.address("web").await?;
            setup::until_it_answers(&format!("{address}:80")).await?;
            let scheme = if mode == "tls" { "https" } else { "http" };
            let url = format!("{scheme}://{address}:80/ready");
            let spells = tokio::select! {
                spells = spells(&place) => spells?,
                ended = check(&url) => match ended {
                    Err(error) => bail!("a check failed: {error:#}"),
                    Ok(never) => match never {},
                },
            };
            let (least, most) = (SignedDuration::ZERO, SignedDuration::try_from(EVERY)?);
            let fits = |spell: &SignedDuration| least < *spell && *spell < most;
            ensure!(spells.iter().all(fits), "{spells:?}");
            Ok(())
        })
        .await;
    }
}
