//! Whether a Service selects a workload's pods, by what is known of those while there
//! are none (F-137).

use super::{Service, Target, TargetKind};
use crate::owners::{self, Mark};

/// Labels that a StatefulSet gives each pod of its own (F-202): its name, and its number.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

impl Target {
    /// Whether the Service selects its pods, or one of them: by the labels of the
    /// template and those that each of a StatefulSet's pods gets (ROUTE-01).
    pub fn is_selected_by(&self, service: &Service) -> bool {
        let labels = &self.template.labels;
        let is_given = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        let mut own = service.selector.iter().filter(|pair| !is_given(*pair));
        // What only one pod has, every label that it's selected by must name.
        let Some((key, value)) = own.next() else {
            return !service.selector.is_empty();
        };
        let number = self.numbered(key, value);
        number.is_some() && own.all(|(key, value)| self.numbered(key, value) == number)
    }

    /// The number of the pod to which a StatefulSet gives this label.
    fn numbered(&self, label: &str, value: &str) -> Option<i32> {
        let text = match label {
            POD_NAME => value.strip_prefix(&self.id.name)?.strip_prefix('-')?,
            POD_INDEX => value,
            _ => return None,
        };
        let number: i32 = text.parse().ok()?;
        let first = self.first_ordinal;
        let is_there = number >= first && number < first.saturating_add(self.pods());
        let is_its = self.id.kind == TargetKind::StatefulSet && number.to_string() == text;
        (is_there && is_its).then_some(number)
    }

    /// How many pods it has, or will have once it's awake.
    fn pods(&self) -> i32 {
        match owners::mark(self) {
            _ if self.replicas > 0 => self.replicas,
            Mark::Replicas(replicas) => replicas,
            // How many can't be told.
            Mark::None | Mark::Spoilt => i32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use napwake_api::{names::signal, workload::Phase};
    use rstest::rstest;

    use super::*;
    use crate::sim::objects::{running, service};

    /// Pods 5, 6 and 7 of it, for it has three replicas.
    fn target(kind: TargetKind, replicas: i32, mark: Option<&str>) -> Target {
        let mut target = running().target("api").clone();
        target.id.kind = kind;
        target.first_ordinal = 5;
        target.replicas = replicas;
        let mark = mark.map(|mark| (signal::PAUSED_REPLICAS.to_owned(), mark.to_owned()));
        target.annotations.extend(mark);
        target
    }

    fn selecting(selector: &[(&str, &str)]) -> Service {
        let mut service = service("api", "uid");
        let selector = selector.iter();
        service.selector = selector
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        service
    }

    #[rstest]
    #[case::its_label(TargetKind::Deployment, &[("app", "api")], true)]
    #[case::another_label(TargetKind::Deployment, &[("app", "web")], false)]
    #[case::nobody(TargetKind::StatefulSet, &[], false)]
    #[case::one_pod(TargetKind::StatefulSet, &[(POD_NAME, "api-5")], true)]
    #[case::one_by_number(TargetKind::StatefulSet, &[("app", "api"), (POD_INDEX, "7")], true)]
    #[case::one_by_both(TargetKind::StatefulSet, &[(POD_NAME, "api-6"), (POD_INDEX, "6")], true)]
    #[case::two_at_once(TargetKind::StatefulSet, &[(POD_NAME, "api-6"), (POD_INDEX, "7")], false)]
    #[case::before_the_first(TargetKind::StatefulSet, &[(POD_NAME, "api-4")], false)]
    #[case::after_the_last(TargetKind::StatefulSet, &[(POD_NAME, "api-8")], false)]
    #[case::of_a_deployment(TargetKind::Deployment, &[(POD_NAME, "api-5")], false)]
    #[case::anothers(TargetKind::StatefulSet, &[(POD_NAME, "web-5")], false)]
    #[case::a_longer_name(TargetKind::StatefulSet, &[(POD_NAME, "api-db-5")], false)]
    #[case::no_number(TargetKind::StatefulSet, &[(POD_NAME, "api-05")], false)]
    #[case::signed(TargetKind::StatefulSet, &[(POD_INDEX, "+5")], false)]
    #[case::not_its_label(TargetKind::StatefulSet, &[(POD_NAME, "api-5"), ("app", "x")], false)]
    fn a_service_selects(
        #[case] kind: TargetKind,
        #[case] selector: &[(&str, &str)],
        #[case] expected: bool,
    ) {
        let service = selecting(selector);
        assert_eq!(target(kind, 3, None).is_selected_by(&service), expected);
    }

    /// Asleep, it's selected by those who will select its pods.
    #[rstest]
    #[case::marked(Some("3"), "api-7", true)]
    #[case::none_such(Some("3"), "api-8", false)]
    #[case::spoilt(Some("three"), "api-8", true)]
    fn one_asleep_has_the_pods_that_it_will_have(
        #[case] mark: Option<&str>,
        #[case] pod: &str,
        #[case] expected: bool,
    ) {
        let target = target(TargetKind::StatefulSet, 0, mark);
        let service = selecting(&[(POD_NAME, pod)]);
        assert_eq!(target.is_selected_by(&service), expected);
    }

    /// ROUTE-01, ROUTE-14: a Service of one pod of a StatefulSet is routed as any other
    /// that selects its pods, and one of a pod that it won't have isn't.
    #[test]
    fn a_service_of_one_pod_is_routed() {
        let mut cluster = running();
        cluster.target("api").id.kind = TargetKind::StatefulSet;
        cluster.workload("api").spec.target_ref.kind = TargetKind::StatefulSet;
        for pod in ["api-2", "api-3"] {
            let mut service = selecting(&[(POD_NAME, pod)]);
            pod.clone_into(&mut service.name);
            pod.clone_into(&mut service.uid);
            cluster.services.push(service);
        }
        cluster.settle();
        cluster.pause("api");
        let slices = cluster.slices.values();
        let services: Vec<_> = slices.map(|slice| slice.spec.service.as_str()).collect();
        assert_eq!(services, ["api-2", "api"]);
        cluster.stamp("api", signal::LAST_REQUEST);
        cluster.until("api", Phase::Running);
        cluster.pass_secs(5);
        assert_eq!(cluster.slices.len(), 0);
    }
}
