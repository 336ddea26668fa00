package idverify

import "github.com/idverify/idverify-go/internal/wire"

// Scope is what an access token may be used for (specification, sections 4 and 5.2). The methods of this package ask for the scope they need; a Scope is named only to hand a token on, see [Client.Token].
type Scope string

// The scopes of project credentials, then those of workspace credentials.
const (
	ScopePhoneCheck      Scope = wire.ScopePhoneCheck
	ScopeSIMCheck        Scope = wire.ScopeSIMCheck
	ScopeSubscriberCheck Scope = wire.ScopeSubscriberCheck
	ScopeCoverage        Scope = wire.ScopeCoverage

	ScopeProjects   Scope = wire.ScopeProjects
	ScopeWorkspaces Scope = wire.ScopeWorkspaces
	ScopeConsole    Scope = wire.ScopeConsole // projects and workspaces together
)

// Product is a check product. Values that this package does not know survive as the service wrote them.
type Product string

// The products of specification, section 1, named as in paths and in callbacks.
const (
	ProductPhoneCheck      Product = wire.PhoneCheck
	ProductSIMCheck        Product = wire.SIMCheck
	ProductSubscriberCheck Product = wire.SubscriberCheck
)
