//! What a cluster is asked to be, and what an earlier `up` made of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeCount {
    /// A control plane alone, whose only controllers are those that remove
    /// what belongs to something deleted: for tests that write pods and
    /// endpoints themselves.
    Zero,
    /// Everything in one network namespace.
    #[default]
    One,
    /// A control plane and three nodes, each in a namespace of its own.
    Three,
}

/// How kube-proxy sends a Service's connections to its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyMode {
    #[default]
    Nftables,
    Iptables,
}

/// Whether the cluster has name resolution of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dns {
    #[default]
    Off,
    On,
}

/// Who enforces network policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::enum_variant_names, reason = "a program's name")]
pub enum Policies {
    /// Nobody: they are objects without effect.
    #[default]
    None,
    /// kube-router's firewall: a forbidden connection is refused.
    KubeRouter,
    /// kube-network-policies: a forbidden connection's packets are dropped.
    KubeNetworkPolicies,
}

/// Whether the API server keeps a log of who wrote what, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audit {
    #[default]
    Off,
    On,
}

/// How soon the endpoints of Services follow their pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slices {
    #[default]
    Prompt,
    /// Up to 1.5 s late, as where the controller has much to do.
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
// What a cluster made before there was a setting doesn't say stays as it was then.
#[serde(default)]
pub struct Settings {
    pub nodes: NodeCount,
    pub proxy: ProxyMode,
    pub dns: Dns,
    pub policies: Policies,
    pub audit: Audit,
    pub slices: Slices,
}

/// What a command line says; what it leaves open stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wish {
    pub nodes: Option<NodeCount>,
    pub proxy: Option<ProxyMode>,
    pub dns: Option<Dns>,
    pub policies: Option<Policies>,
    pub audit: Option<Audit>,
    pub slices: Option<Slices>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

/// Why a cluster can't be what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    #[error("the cluster has {have} node(s); take it down before making one with {want}")]
    OtherNodeCount { have: NodeCount, want: NodeCount },
    #[error("{what} runs in pods, and a cluster with --nodes 0 has none")]
    NoNodes { what: &'static str },
}

impl Wish {
    /// What the cluster should be, given what it is.
    pub fn settle(self, existing: Option<Settings>) -> Result<Settings, Unsettled> {
        let have = existing.unwrap_or_default();
        let nodes = self.nodes.unwrap_or(have.nodes);
        if existing.is_some() && nodes != have.nodes {
            return Err(Unsettled::OtherNodeCount {
                have: have.nodes,
                want: nodes,
            });
        }
        let settings = Settings {
            nodes,
            proxy: self.proxy.unwrap_or(have.proxy),
            dns: self.dns.unwrap_or(have.dns),
            policies: self.policies.unwrap_or(have.policies),
            audit: self.audit.unwrap_or(have.audit),
            slices: self.slices.unwrap_or(have.slices),
        };
        match settings.runs_in_pods() {
            Some(what) if nodes == NodeCount::Zero => Err(Unsettled::NoNodes { what }),
            _ => Ok(settings),
        }
    }
}

impl Settings {
    /// A part of the cluster that needs a node.
    fn runs_in_pods(self) -> Option<&'static str> {
        match self {
            Self { dns: Dns::On, .. } => Some("name resolution (--dns on)"),
            Self {
                policies: Policies::None,
                ..
            } => None,
            _ => Some("the engine for network policies (--policies)"),
        }
    }
}

/// Gives a closed set of values its words on the command line.
macro_rules! words {
    ($kind:ty { $($value:path = $word:literal),+ $(,)? }) => {
        impl FromStr for $kind {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok($value),)+
                    other => Err(UnknownWord {
                        word: other.to_owned(),
                        known: [$($word),+].join(", "),
                    }),
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($value => $word),+ })
            }
        }
    };
}

words!(NodeCount { NodeCount::Zero = "0", NodeCount::One = "1", NodeCount::Three = "3" });
words!(ProxyMode { ProxyMode::Nftables = "nftables", ProxyMode::Iptables = "iptables" });
words!(Dns { Dns::Off = "off", Dns::On = "on" });
words!(Audit { Audit::Off = "off", Audit::On = "on" });
words!(Slices { Slices::Prompt = "prompt", Slices::Late = "late" });
words!(Policies {
    Policies::None = "none",
    Policies::KubeRouter = "kube-router",
    Policies::KubeNetworkPolicies = "kube-network-policies",
});

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn what_a_command_leaves_open_stays() {
        let have = Settings {
            proxy: ProxyMode::Iptables,
            dns: Dns::On,
            ..Settings::default()
        };
        let wish = Wish {
            proxy: Some(ProxyMode::Nftables),
            ..Wish::default()
        };
        let settled = wish.settle(Some(have)).unwrap();
        assert_eq!(
            settled,
            Settings {
                proxy: ProxyMode::Nftables,
                ..have
            }
        );
    }

    #[test]
    fn a_cluster_made_before_there_was_a_setting_has_its_default() {
        let text = r#"{"nodes":"three","proxy":"iptables","dns":"off","policies":"none"}"#;
        let settings: Settings = serde_json::from_str(text).unwrap();
        let expected = Settings {
            nodes: NodeCount::Three,
            proxy: ProxyMode::Iptables,
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_running_cluster_keeps_its_number_of_nodes() {
        let wish = Wish {
            nodes: Some(NodeCount::Three),
            ..Wish::default()
        };
        assert!(wish.settle(Some(Settings::default())).is_err());
        assert_eq!(wish.settle(None).unwrap().nodes, NodeCount::Three);
    }

    #[rstest]
    #[case(Some(Dns::On), None, true)]
    #[case(None, Some(Policies::KubeRouter), true)]
    #[case(Some(Dns::Off), Some(Policies::None), false)]
    fn what_runs_in_pods_is_refused_without_nodes(
        #[case] dns: Option<Dns>,
        #[case] policies: Option<Policies>,
        #[case] refused: bool,
    ) {
        let wish = Wish {
            nodes: Some(NodeCount::Zero),
            dns,
            policies,
            ..Wish::default()
        };
        assert_eq!(wish.settle(None).is_err(), refused);
        let with_nodes = Wish {
            nodes: Some(NodeCount::Three),
            ..wish
        };
        assert!(with_nodes.settle(None).is_ok());
    }

    #[rstest]
    #[case("none", Policies::None)]
    #[case("kube-router", Policies::KubeRouter)]
    #[case("kube-network-policies", Policies::KubeNetworkPolicies)]
    fn words_are_read_as_they_are_written(#[case] word: &str, #[case] policies: Policies) {
        assert_eq!(word.parse(), Ok(policies));
        assert_eq!(policies.to_string(), word);
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let text = "ipvs".parse::<ProxyMode>().unwrap_err().to_string();
        assert_eq!(text, r#""ipvs" is none of nftables, iptables"#);
    }
}
