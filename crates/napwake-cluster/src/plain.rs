//! How an error of a call to the API server is told to people: one plain
//! sentence with what the server said, and none of the forms for programmers
//! that kube's own texts hold.

use std::error::Error;

use kube::core::Status;
use napwake_kit::chain::{self, Share};
use tokio::time::error::Elapsed;

/// The error with its sources on one line.
pub fn plain(error: &(dyn Error + 'static)) -> String {
    chain::tell(error, share)
}

fn share(error: &(dyn Error + 'static)) -> Share {
    if let Some(status) = find::<Status>(error) {
        return Share::Whole(said(status));
    }
    match find::<kube::Error>(error) {
        Some(kube::Error::Api(status)) => Share::Whole(said(status)),
        // Their own words are names of kube's and of its libraries.
        Some(kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::HttpError(_)) => {
            Share::Nothing
        }
        // Whoever sets a time limit says so in its own words.
        None if error.is::<Elapsed>() => Share::Nothing,
        Some(_) | None => Share::Text,
    }
}

/// What the API server said: most often a sentence, else at least its code.
fn said(status: &Status) -> String {
    match (&*status.message, &*status.reason) {
        ("", "") => format!("the API server answered {}", status.code),
        ("", reason) => format!("the API server answered {} ({reason})", status.code),
        (message, _) => message.to_owned(),
    }
}

/// The error, in a box or not, if it's one of these.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let boxed = || error.downcast_ref::<Box<E>>().map(|error| &**error);
    error.downcast_ref().or_else(boxed)
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::runtime::watcher;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("can't do it")]
    struct Ours(#[source] Box<kube::Error>);

    fn status(message: &str, reason: &str) -> Box<Status> {
        let status = json!({
            "status": "Failure", "message": message, "reason": reason, "code": 403,
            "details": {"kind": "leases", "causes": [{"reason": "Forbidden"}]},
        });
        serde_json::from_value(status).unwrap()
    }

    fn refused() -> kube::Error {
        kube::Error::Api(status("leases \"napwake\" is forbidden", "Forbidden"))
    }

    fn unreached() -> kube::Error {
        kube::Error::Service(io::Error::other("connection refused").into())
    }

    #[rstest]
    #[case::refused(refused(), "leases \"napwake\" is forbidden")]
    #[case::unreached(unreached(), "connection refused")]
    #[case::without_a_message(
        kube::Error::Api(status("", "Forbidden")),
        "the API server answered 403 (Forbidden)"
    )]
    #[case::without_a_reason(kube::Error::Api(status("", "")), "the API server answered 403")]
    #[case::of_several_lines(
        kube::Error::Api(status("a webhook said no:\n\tnot today\n", "Invalid")),
        "a webhook said no: not today"
    )]
    fn says_what_was_said_and_no_more(#[case] error: kube::Error, #[case] told: &str) {
        assert_eq!(plain(&error), told);
        assert_eq!(
            plain(&Ours(Box::new(error))),
            format!("can't do it: {told}")
        );
    }

    #[rstest]
    #[case(
        watcher::Error::InitialListFailed(refused()),
        "failed to perform initial object list: leases \"napwake\" is forbidden"
    )]
    #[case(
        watcher::Error::WatchFailed(unreached()),
        "watch stream failed: connection refused"
    )]
    #[case(
        watcher::Error::WatchError(status("too old resource version", "Expired")),
        "error returned by apiserver during watch: too old resource version"
    )]
    fn a_watch_says_it_too(#[case] error: watcher::Error, #[case] told: &str) {
        assert_eq!(plain(&error), told);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("no answer within 5 s")]
        struct Late(#[source] Elapsed);

        let never = std::future::pending::<()>();
        let late = tokio::time::timeout(std::time::Duration::from_secs(5), never).await;
        assert_eq!(plain(&Late(late.unwrap_err())), "no answer within 5 s");
    }
}
