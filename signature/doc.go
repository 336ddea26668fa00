// Package signature verifies the callbacks and redirects that the service signs.
package signature
