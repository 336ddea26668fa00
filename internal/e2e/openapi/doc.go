// Package openapi tests the descriptions of the control plane, cmd/sandboxfake/openapi.json, and of
// the service. Only script/check heavy compiles it, because the validator takes minutes.
package openapi
