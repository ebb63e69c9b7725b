//! The machine, as far as figures depend on it.

use std::fs;

/// What the machine is, in a line.
pub(crate) fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    describe_from(&info, &memory)
}

fn describe_from(cpus: &str, memory: &str) -> String {
    let cores = cpus
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let virtualized = cpus
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let kind = if virtualized {
        "virtualized"
    } else {
        "not known to be virtualized"
    };
    let gib = field(memory, "MemTotal:").map_or(0, |kib| (kib + 512 * 1024) / (1024 * 1024));
    format!("{cores} cores, {gib} GiB, {kind}")
}

/// The load average of the last minute, with all that runs on the machine.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// A figure of a file of `name: number kB` lines.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_its_cores_its_memory_and_what_it_runs_on() {
        let cpus = "processor\t: 0\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n";
        let memory = "MemTotal:       16384000 kB\nMemFree: 1 kB\n";
        assert_eq!(describe_from(cpus, memory), "2 cores, 16 GiB, virtualized");
        assert!(describe_from("processor: 0\n", "").starts_with("1 cores, 0 GiB, not"));
    }
}
