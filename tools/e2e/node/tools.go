// Package tools names the programs that are built from this module, so that everything they need is in
// go.mod and go.sum. It is never built itself.
//
//go:build tools

package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
