//! Probes, scrapers and uptime monitors, by the beginning of their `User-Agent`.

/// The prefixes that are known without configuration (CLASS-24 to CLASS-29).
pub const BUILT_IN: [&str; 19] = [
    "kube-probe/",
    "Prometheus/",
    "Blackbox Exporter/",
    "vm_promscrape",
    "GrafanaAgent/",
    "Alloy/",
    "OpenTelemetry Collector",
    "otelcol",
    "Datadog Agent/",
    "Datadog/Synthetics",
    "ELB-HealthChecker/",
    "Amazon-Route53-Health-Check-Service",
    "GoogleStackdriverMonitoring-UptimeChecks",
    "Envoy/HC",
    "Mozilla/5.0+(compatible; UptimeRobot/",
    "Pingdom.com_bot",
    "NewRelicPinger/",
    "Uptime-Kuma/",
    "Gatus/",
];

/// Google Cloud's load balancer check. Not one of the prefixes: it is answered
/// otherwise, and isn't looked for behind `(compatible;` (T-37).
const GOOGLE: &str = "GoogleHC/";

/// What a monitor that poses as a browser writes before its name (CLASS-31).
const COMPATIBLE: &[u8] = b"(compatible;";

/// Whose check a GET or HEAD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// A probe, scraper or monitor, built in or added: gets a 503 (CLASS-08).
    Probe,
    /// Google Cloud's load balancer: gets a 200 (CLASS-12).
    GoogleHealthCheck,
}

/// An added prefix that would match everybody (T-38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a User-Agent prefix must not be empty, since it would match every caller")]
pub struct EmptyPrefix;

/// The checkers that are known: the built-in ones and those added for the
/// cluster (CLASS-15, CLASS-32).
#[derive(Clone, Debug, Default)]
pub struct Agents {
    added: Vec<Box<[u8]>>,
}

impl Agents {
    /// The built-in prefixes alone.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// The built-in prefixes and `added` ones, as `doorman.healthCheckUserAgents`
    /// lists them. They are taken as they are, spaces included.
    pub fn with_added<'a>(added: impl IntoIterator<Item = &'a str>) -> Result<Self, EmptyPrefix> {
        let added = added
            .into_iter()
            .map(|prefix| match prefix {
                "" => Err(EmptyPrefix),
                prefix => Ok(Box::from(prefix.as_bytes())),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { added })
    }

    /// Whose check this request is, if it is one. Only a GET or HEAD is: any
    /// other method carries data (CLASS-16, CLASS-17).
    pub fn checker(&self, method: &str, user_agent: Option<&[u8]>) -> Option<Checker> {
        let agent = user_agent?;
        if !matches!(method, "GET" | "HEAD") {
            None
        } else if agent.starts_with(GOOGLE.as_bytes()) {
            // Before the added ones: added or not, it gets its 200 (T-38).
            Some(Checker::GoogleHealthCheck)
        } else if self.knows(agent) || after_compatible(agent).any(|name| self.knows(name)) {
            Some(Checker::Probe)
        } else {
            None
        }
    }

    /// Prefixes are exact in their case (T-40).
    fn knows(&self, agent: &[u8]) -> bool {
        BUILT_IN
            .iter()
            .map(|prefix| prefix.as_bytes())
            .chain(self.added.iter().map(AsRef::as_ref))
            .any(|prefix| agent.starts_with(prefix))
    }
}

/// For fuzzing: whatever a `User-Agent` says, only a GET or HEAD is a check, and
/// whether it names a robot doesn't depend on its case.
#[doc(hidden)]
pub fn fuzz_user_agent(agent: &[u8]) {
    let agents = Agents::built_in();
    let check = agents.checker("GET", Some(agent));
    assert_eq!(check, agents.checker("HEAD", Some(agent)));
    assert_eq!(agents.checker("POST", Some(agent)), None);
    let other_case = agent.to_ascii_uppercase();
    assert_eq!(super::names_robot(agent), super::names_robot(&other_case));
}

/// What comes right after each `(compatible;`, optional spaces left out (T-40).
fn after_compatible(agent: &[u8]) -> impl Iterator<Item = &[u8]> {
    agent
        .windows(COMPATIBLE.len())
        .enumerate()
        .filter(|(_, window)| *window == COMPATIBLE)
        .filter_map(|(at, window)| agent.get(at + window.len()..))
        .map(|name| {
            let spaces = name.iter().take_while(|byte| **byte == b' ').count();
            name.get(spaces..).unwrap_or_default()
        })
}
