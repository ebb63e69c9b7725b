// Command kube is every part of Kubernetes that the development cluster runs,
// in one program: linked once, the parts share their code on disk.
//
// Which part it is depends on the name it was called by (a link named kubectl
// is kubectl), or, called as kube, on its first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// Log format and metrics that the parts expect to find registered.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// servers are the parts that differ in their command alone.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	part := filepath.Base(os.Args[0])
	if part == "kube" && len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		// kubectl words its errors itself and knows their exit codes.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	default:
		newCommand, known := servers[part]
		if !known {
			fmt.Fprintf(os.Stderr, "kube: there is no part called %q\n", part)
			os.Exit(2)
		}
		os.Exit(cli.Run(newCommand()))
	}
}
