// Package tools names the program that is built from this module, so that everything it needs is in
// go.mod and go.sum. It is never built itself.
//
//go:build tools

package tools

import _ "helm.sh/helm/v3/cmd/helm"
