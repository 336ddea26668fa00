// Package openapitest tests the description of the control plane, cmd/sandboxfake/openapi.json. It
// is a module of its own because of the validator and the generator that it uses.
package openapitest
