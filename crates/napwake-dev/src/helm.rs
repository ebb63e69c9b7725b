//! The real Helm, built once and kept.

use std::path::PathBuf;

use crate::progress::Progress;
use crate::tools::{GoTool, ToolError, go_install};

const HELM: GoTool<'_> = GoTool {
    package: "helm.sh/helm/v3/cmd/helm@v3.22.0",
    tags: "",
    // Without these Helm doesn't know its own version, and renders for
    // Kubernetes 1.20 when no cluster is asked.
    ldflags: "-s -w \
        -X helm.sh/helm/v3/internal/version.version=v3.22.0 \
        -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
        -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=35",
};

/// The program's path.
pub fn program(progress: &Progress) -> Result<PathBuf, ToolError> {
    go_install(&HELM, progress)
}
