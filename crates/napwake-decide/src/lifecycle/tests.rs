use crate::sim::objects::running;
use napwake_api::workload::Phase;

#[test]
fn pause_and_wake() {
    let mut cluster = running();
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    cluster.pause("api");
    println!("{:#?}", cluster.written("api"));
    println!("{:#?}", cluster.status("api"));
    cluster.stamp("api", "napwake.dev/last-request");
    cluster.until("api", Phase::Running);
    println!("{:#?}", cluster.written("api"));
    cluster.pass_secs(100);
    println!("{:#?}", cluster.status("api"));
    println!("{:#?}", cluster.written("api"));
}
