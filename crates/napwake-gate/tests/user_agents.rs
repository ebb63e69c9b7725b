//! Real User-Agents, of people's browsers and of robots, as the doorman judges them.
//!
//! They are read from packages that `cargo xtask test` fetches, of which nothing is
//! kept in the tree. `docs/user-agents.md` says what the figures below mean.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use jiff::Timestamp;
use napwake_gate::{
    Moment,
    answer::AnswerKind,
    caller::{Agents, names_robot},
    head::HeadScan,
    token::Keys,
    verdict::{Counted, Door, Heard, Standing, Verdict, judge},
};
use serde_json::Value;

/// How many strings of each kind there are, so that a list that was read in part
/// shows nothing.
const PEOPLE: usize = 981;
const ROBOTS: usize = 2118;

/// What becomes of the robots' strings.
const TOLD: [(Told, usize); 4] = [
    (Told::Checker, 13),
    (Told::Robot, 1777),
    (Told::Client, 293),
    (Told::Person, 35),
];

/// The robots' strings that are taken for people's, each by a word of its own.
const TAKEN_FOR_PEOPLES: [&str; 35] = [
    // People do read these: a page opened in an app, or beside one's code. The
    // list of robots has them for the app behind, or by mistake.
    "Instagram",
    "MetaIAB",
    "Fluid/",
    "Code/",
    "Trae/",
    // Robots, each with a browser's name and one that nothing else has.
    "NewsNow/",
    "Nitro-Optimizer-Agent",
    "abuse.xmco",
    "Collapsify",
    "YLT Chrome",
    "SQWatcher",
    "newsai/",
    "turingos",
    "MarketGoo/",
    "Dlc/",
    "Readable/",
    "PWABuilderHttpAgent",
    "Foregenix",
    "MonitoRSS",
    "ContentScan",
    "Datanyze",
    "PrintFriendly",
    "TestLocally",
    "Scope3",
    "Sindup",
    "Criticalcss",
    "GeedoShopProductFinder",
    "splash",
    "Miniature.io",
    "Rigor",
    "feeder.co",
    "adbeat",
    "Hotjar",
    "(at)gmail",
    "Keydrop",
];

/// The prefixes that `docs/user-agents.md` has for monitors which aren't known.
const TO_ADD: [&str; 13] = [
    "Better Uptime Bot",
    "Cloudflare-Healthchecks/",
    "FreshpingBot/",
    "synthetic-monitoring-agent/",
    "HetrixTools Uptime Monitoring Bot",
    "check_http/",
    "NodePing",
    "OhDear/",
    "PRTGCloudBot/",
    "SentryUptimeBot/",
    "Site24x7",
    "StatusCake_Uptime_Checker/",
    "updown.io daemon",
];

/// Who sent a request for a page, as a workload that asks takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// What gets none of the answers below.
    Nobody,
    /// A known probe, scraper or monitor: its own 503.
    Checker,
    /// A robot, by its name: a 503, counted.
    Robot,
    /// Neither a browser nor a robot by name, as curl: the same.
    Client,
    /// A person's browser: the page.
    Person,
}

fn tell(agent: &str) -> Told {
    tell_with(&Agents::built_in(), agent)
}

fn tell_with(agents: &Agents, agent: &str) -> Told {
    let head = format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: {agent}\r\nSec-Fetch-Mode: navigate\r\n\r\n"
    );
    let keys = Keys::default();
    let door = Door {
        standing: Standing::Asks,
        sleepers: &[],
        agents,
        signer: keys.at(Moment::ORIGIN),
        now: Timestamp::UNIX_EPOCH,
        came: None,
    };
    match judge(&Heard::Head(HeadScan::new().look(head.as_bytes())), &door) {
        Verdict::Asleep(_) => Told::Person,
        Verdict::Answer(answer, Counted::Not) if answer.kind == AnswerKind::Probe => Told::Checker,
        Verdict::Answer(_, Counted::TurnedAway) if names_robot(agent.as_bytes()) => Told::Robot,
        Verdict::Answer(_, Counted::TurnedAway) => Told::Client,
        _ => Told::Nobody,
    }
}

/// A list of one of the packages.
fn list(file: &str) -> Vec<Value> {
    let folder = std::env::var_os("NAPWAKE_USER_AGENTS").map(PathBuf::from);
    let folder = folder.expect(
        "NAPWAKE_USER_AGENTS must name the fetched lists: \
         run `cargo xtask test --level U`, which fetches them",
    );
    let text = std::fs::read_to_string(folder.join(file)).expect(file);
    serde_json::from_str(&text).expect(file)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a User-Agent").to_owned()
}

fn peoples() -> BTreeSet<String> {
    let visitors = list("user-agents/dist/user-agents.json");
    let visitors = visitors.iter().map(|one| text(&one["userAgent"]));
    let usual = list("top-user-agents/src/index.json");
    visitors.chain(usual.iter().map(text)).collect()
}

fn robots() -> BTreeSet<String> {
    let patterns = list("crawler-user-agents/crawler-user-agents.json");
    let strings = patterns
        .iter()
        .filter_map(|one| one["instances"].as_array());
    strings.flatten().map(text).collect()
}

/// T-33, ASK-03, ASK-49, CLASS-29: no person is refused.
#[test]
fn every_person_gets_the_page() {
    let peoples = peoples();
    assert_eq!(peoples.len(), PEOPLE);
    let refused: Vec<_> = peoples
        .iter()
        .filter(|agent| tell(agent) != Told::Person)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// ASK-34, ASK-35, ASK-36, ASK-50, ASK-62: robots get no page, but for those that
/// say too little of themselves. Whoever makes that list shorter or longer says so
/// here.
#[test]
fn robots_get_no_page_but_for_those_that_are_listed() {
    let robots = robots();
    assert_eq!(robots.len(), ROBOTS);
    let mut told = BTreeMap::from(TOLD.map(|(kind, _)| (kind, 0)));
    let mut words = BTreeMap::from(TAKEN_FOR_PEOPLES.map(|word| (word, 0)));
    for agent in &robots {
        let kind = tell(agent);
        *told.entry(kind).or_default() += 1;
        if kind == Told::Person {
            let mut known = words
                .iter_mut()
                .filter(|(word, _)| agent.contains(**word))
                .map(|(_, count)| count);
            let count = known.next();
            *count.unwrap_or_else(|| panic!("taken for a person's: {agent}")) += 1;
        }
    }
    let other: Vec<_> = words.iter().filter(|(_, count)| **count != 1).collect();
    assert!(other.is_empty(), "not one string each: {other:?}");
    assert_eq!(told, BTreeMap::from(TOLD));
}

/// CLASS-15, CLASS-31: the monitors that the documentation names are checkers once
/// its prefixes are added, and not before.
#[test]
fn the_documented_prefixes_are_those_of_their_monitors() {
    let documentation = include_str!("../../../docs/user-agents.md");
    let robots = robots();
    for prefix in TO_ADD {
        assert!(
            documentation.contains(&format!("| `{prefix}` |")),
            "{prefix}"
        );
        let added = Agents::with_added([prefix]).expect("no empty prefix");
        let mut found = robots
            .iter()
            .filter(|agent| tell(agent) != Told::Checker)
            .filter(|agent| tell_with(&added, agent) == Told::Checker);
        assert!(found.next().is_some(), "{prefix} finds nobody");
    }
}
