//! What goes through a connection that was held, byte for byte.

use std::time::Duration;

use napwake_dev::digest::sha256_hex;
use napwake_testkit::{apps::App, ensure, place};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use crate::{kept::Kept, setup};

/// How long no pod is Ready after the first byte was sent, at least.
const START: Duration = Duration::from_secs(4);

/// HOLD-17: 700 KiB sent while the connection is held arrive unchanged, and so
/// does a 100 MiB answer over the same connection, through the ClusterIP.
#[tokio::test]
async fn a_held_upload_and_a_big_answer_arrive_as_they_were_sent() {
    place::with("through", async |place| {
        let app = App::new("web", "http").arg(&format!("-ready-after={}s", START.as_secs()));
        setup::asleep(&place, &app).await?;
        let mut body = vec![0; 700 << 10];
        StdRng::seed_from_u64(1).fill_bytes(&mut body);
        let begun = Instant::now();
        let mut caller = Kept::connect(&place.address("web").await?, 80).await?;
        let head = format!(
            "POST /upload HTTP/1.1\r\nHost: app\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        caller.send(head.as_bytes()).await?;
        caller.send(&body).await?;
        let took = begun.elapsed();
        ensure!(took < START, "sent in {took:?}, when a pod may be Ready");
        let answer = caller.answer().await?;
        let sent = format!("{} {}", sha256_hex(&body), body.len());
        ensure!(answer.line() == sent, "{:?} isn't {sent}", answer.line());

        let answer = caller.get("/big?bytes=104857600").await?;
        ensure!(answer.body.len() == 100 << 20, "{}", answer.head);
        let hash = sha256_hex(&answer.body);
        ensure!(answer.header("X-Sha256") == Some(&hash), "{}", answer.head);
        Ok(())
    })
    .await;
}
