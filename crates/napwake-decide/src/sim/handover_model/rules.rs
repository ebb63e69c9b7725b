//! What must hold.

use std::fmt;

use napwake_api::workload::Phase;

use super::{
    super::{Doorman, Seen, SliceSpec},
    Fingerprint, Model, Rules,
    state::State,
};

impl Model for Rules {
    type State = State;
    type Act = String;

    fn steps(&self, from: &State) -> Vec<(String, State)> {
        self.steps_from(from)
    }

    fn tell(&self, state: &State, out: &mut Fingerprint) -> fmt::Result {
        state.tell(out)
    }

    fn sights(&self, state: &State) -> Vec<String> {
        let mut sights = Vec::new();
        for (name, app) in &state.cluster.apps {
            let Some(workload) = &app.workload else {
                continue;
            };
            let doorman = workload.status.doorman.iter();
            let routes = doorman.flat_map(|doorman| &doorman.routes);
            let routes = routes.map(|route| format!("{name} {:?}", route.state));
            sights.extend(routes);
            let phase = workload.status.phase;
            sights.extend(phase.map(|phase| format!("{name} {phase:?}")));
        }
        sights
    }

    fn check(&self, state: &State) -> Result<(), String> {
        for slice in state.proxy.seen.values() {
            self.check_slice(state, slice)?;
        }
        Ok(())
    }

    fn check_end(&self, state: &State) -> Result<(), String> {
        let end = self.end_well(state);
        for (name, app) in &end.cluster.apps {
            let status = end.cluster.status(name);
            let replicas = end.cluster.replicas(name);
            if replicas != 1 || status.phase != Some(Phase::Running) {
                return Err(format!("{name} is left at {replicas}: {status:#?}"));
            }
            if status.doorman.is_some() {
                return Err(format!("{name} has ports left over: {status:#?}"));
            }
            if !app.failures.is_empty() {
                return Err(format!("{name} fails still: {:?}", app.failures));
            }
        }
        if !end.cluster.slices.is_empty() {
            return Err(format!("slices left over: {:?}", end.cluster.slices));
        }
        Ok(())
    }
}

impl Rules {
    /// A caller whom kube-proxy sends by this slice reaches its own Service or
    /// nobody; and somebody, where that's asked.
    fn check_slice(&self, state: &State, slice: &SliceSpec) -> Result<(), String> {
        let Doorman::Enabled(Seen::Known(known)) = &state.cluster.doorman else {
            return Ok(());
        };
        for (known, pod) in known.iter().zip(&state.pods) {
            let address = known.addresses.get(&slice.family);
            let is_named = |one: &crate::world::Endpoint| Some(&one.address) == address;
            if !slice.endpoints.iter().any(is_named) {
                continue;
            }
            for port in &slice.ports {
                let (name, service) = (&known.pod.name, &slice.service);
                match pod.holder(port.port) {
                    Some(route) if route.service == *service && route.name.name == port.name => {}
                    Some(route) => {
                        return Err(format!("at {name} callers of {service} get {route:?}"));
                    }
                    None if self.listeners => {
                        return Err(format!("{name} refuses callers of {service}: {slice:?}"));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }
}
