//! One request to a paused workload, told as it happens.

use std::io::Read as _;
use std::process::Child;

use super::{DemoError, NAMESPACE, Sample, view};
use crate::cluster::Cluster;
use crate::progress::Progress;
use crate::wait::{Stopwatch, pause};

/// How often the story looks at the cluster.
const EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// What has been told already.
#[derive(Default)]
struct Told {
    woken: bool,
    pod: bool,
    ready: bool,
}

/// Sends the request and tells what happens until it's answered.
pub(super) fn tell(
    cluster: &Cluster,
    sample: Sample,
    progress: &Progress,
) -> Result<(), DemoError> {
    let address = view::service_address(cluster, sample.name)?;
    let before = view::workload(cluster, sample.name)?.last_request;
    progress.line(format_args!(
        "a request to {} at {address}, with no pod there:",
        sample.title
    ));
    let since = Stopwatch::start();
    let mut request = super::start(cluster, sample, &address)?;
    let mut told = Told::default();
    while request.try_wait().ok().flatten().is_none() {
        look(cluster, sample, before.as_ref(), &mut told, since, progress)?;
        pause(EVERY);
    }
    let took = since.elapsed();
    let (good, out, err) = end(request);
    if !good {
        return Err(DemoError::NotAnswered(sample.name, err));
    }
    progress.line(format_args!(
        "  {:>5.2} s  answer: {}",
        took.as_secs_f64(),
        out.trim()
    ));
    Ok(())
}

/// Tells what is new.
fn look(
    cluster: &Cluster,
    sample: Sample,
    before: Option<&String>,
    told: &mut Told,
    since: Stopwatch,
    progress: &Progress,
) -> Result<(), DemoError> {
    let say = |text: &str| {
        progress.line(format_args!(
            "  {:>5.2} s  {text}",
            since.elapsed().as_secs_f64()
        ));
    };
    if !told.woken {
        let now = view::workload(cluster, sample.name)?.last_request;
        if now.is_some() && now.as_ref() != before {
            told.woken = true;
            say(&format!(
                "held by the doorman; woken by it: {}",
                now.unwrap_or_default()
            ));
        }
        return Ok(());
    }
    let pods = view::pods(cluster, sample.name)?;
    if let Some(pod) = pods.first().filter(|_| !told.pod) {
        told.pod = true;
        say(&format!("pod {NAMESPACE}/{} starts", pod.name));
    }
    if let Some(pod) = pods.iter().find(|pod| pod.ready && !told.ready) {
        told.ready = true;
        say(&format!(
            "pod {NAMESPACE}/{} is Ready; the doorman passes the request on",
            pod.name
        ));
    }
    Ok(())
}

/// Whether the request was answered, with what, and what its client complained about.
fn end(mut request: Child) -> (bool, String, String) {
    let good = request.wait().is_ok_and(|status| status.success());
    let (mut out, mut err) = (String::new(), String::new());
    if let Some(mut pipe) = request.stdout.take() {
        // What can't be read is shown as far as it could be.
        drop(pipe.read_to_string(&mut out));
    }
    if let Some(mut pipe) = request.stderr.take() {
        drop(pipe.read_to_string(&mut err));
    }
    (good, out, err)
}
