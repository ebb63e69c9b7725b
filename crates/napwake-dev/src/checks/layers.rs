//! The layers: which crate may use which, and what the pure crates never use.
//!
//! The table of ARCHITECTURE.md as data; `tidy` holds it against the resolved
//! dependency graph.

/// What one crate of ours may depend on.
#[derive(Debug)]
pub struct Layer {
    /// The crate.
    pub name: &'static str,
    /// Which of our crates it may use, directly or through others.
    pub ours: &'static [&'static str],
    /// What kind of crate it is.
    pub kind: Kind,
}

/// How near to the outside world a crate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No I/O, no clock, no randomness.
    Pure,
    /// Sockets, whose bytes it doesn't read as HTTP.
    Sockets,
    /// A process with what it serves, but no Kubernetes client.
    Io,
    /// May talk to the API server.
    Client,
}

/// Every crate that ships, from the bottom up.
pub const LAYERS: &[Layer] = &[
    Layer {
        name: "napwake-api",
        ours: &[],
        kind: Kind::Pure,
    },
    Layer {
        name: "napwake-decide",
        ours: &["napwake-api"],
        kind: Kind::Pure,
    },
    Layer {
        name: "napwake-gate",
        ours: &["napwake-api"],
        kind: Kind::Pure,
    },
    Layer {
        name: "napwake-net",
        ours: &[],
        kind: Kind::Sockets,
    },
    Layer {
        name: "napwake-kit",
        ours: &[],
        kind: Kind::Io,
    },
    Layer {
        name: "napwake-cluster",
        ours: &["napwake-api", "napwake-kit"],
        kind: Kind::Client,
    },
    Layer {
        name: "napwake-doorman",
        ours: &[
            "napwake-api",
            "napwake-gate",
            "napwake-net",
            "napwake-cluster",
            "napwake-kit",
        ],
        kind: Kind::Client,
    },
    Layer {
        name: "napwake-operator",
        ours: &[
            "napwake-api",
            "napwake-decide",
            "napwake-net",
            "napwake-cluster",
            "napwake-kit",
        ],
        kind: Kind::Client,
    },
    Layer {
        name: "kubectl-napwake",
        ours: &["napwake-api"],
        kind: Kind::Client,
    },
];

/// Crates that a pure crate never uses, with what each would bring in.
pub const IMPURE: &[(&str, &str)] = &[
    ("tokio", "a runtime"),
    ("mio", "sockets"),
    ("socket2", "sockets"),
    ("hyper", "a network client"),
    ("kube-client", "the Kubernetes client"),
    ("kube-runtime", "the Kubernetes client"),
    ("rand", "randomness: pass a generator in"),
    ("getrandom", "randomness: pass a generator in"),
    ("tracing-subscriber", "process-wide state"),
];

/// What of the standard library a pure crate never names, however it was
/// imported. Clocks are clippy's (`clippy.toml`), in every crate.
pub const IMPURE_STD: &[(&str, &str)] = &[
    ("fs::", "files"),
    ("env::", "the environment"),
    ("process::", "processes"),
    ("thread::", "threads"),
    ("TcpStream", "sockets"),
    ("TcpListener", "sockets"),
    ("UdpSocket", "sockets"),
];

/// Crates that read or write HTTP, which a [`Kind::Sockets`] never uses: what a
/// caller said is for `gate` to judge.
pub const HTTP: &[&str] = &[
    "axum",
    "h2",
    "http",
    "http-body",
    "httparse",
    "httpdate",
    "hyper",
    "hyper-util",
    "tungstenite",
];

/// Crates that only a [`Kind::Client`] may use.
pub const CLIENT: &[&str] = &["kube-client", "kube-runtime"];
