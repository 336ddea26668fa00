// Package openapi tests the descriptions of the control plane, cmd/sandboxfake/openapi.json,
// and of the service. It is a module of its own because of the validator and the generator that it
// uses.
package openapi
