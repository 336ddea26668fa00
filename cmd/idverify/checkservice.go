package main

import (
	"context"
	"iter"

	"github.com/idverify/idverify-go"
)

// checkService contains the operations of one product.
type checkService struct {
	product idverify.Product
	title   string // for people
	scope   idverify.Scope
	device  bool // a device opens the Check URL, and the result is sent to a callback URL

	create   func(context.Context, createParams) (check, error)
	get      func(ctx context.Context, checkID string) (check, error)
	wait     func(ctx context.Context, checkID string) (check, error)
	complete func(ctx context.Context, checkID, code string) (check, error) // nil for SIMChecks
	all      func(context.Context, idverify.ListOptions) iter.Seq2[check, error]
	find     func(ctx context.Context, referenceID string) ([]check, error)
	traces   func(ctx context.Context, checkID string) ([]idverify.Trace, error)
}

// createParams are the parameters of a new check. A SIMCheck has no URLs.
type createParams struct{ number, referenceID, callbackURL, redirectURL string }

// newCheckService returns the operations of a product. An empty version selects the default.
func newCheckService(client *idverify.Client, product idverify.Product, version string) checkService {
	switch product {
	case idverify.ProductSIMCheck:
		return newSIMCheckService(client.WithVersions(idverify.Versions{SIMCheck: version}).SIMChecks)
	case idverify.ProductSubscriberCheck:
		return newSubscriberCheckService(client.WithVersions(idverify.Versions{SubscriberCheck: version}).SubscriberChecks)
	}
	return newPhoneCheckService(client.WithVersions(idverify.Versions{PhoneCheck: version}).PhoneChecks)
}

// products lists the products of -product.
func products() []idverify.Product {
	return []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}
}

func newPhoneCheckService(s *idverify.PhoneCheckService) checkService {
	return checkService{
		product: idverify.ProductPhoneCheck, title: "PhoneCheck", scope: idverify.ScopePhoneCheck, device: true,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.PhoneCheckParams{
				PhoneNumber: p.number, ReferenceID: p.referenceID, CallbackURL: p.callbackURL, RedirectURL: p.redirectURL,
			})
			return ofPhoneCheck(c), err
		},
		get:  one(s.Get, ofPhoneCheck),
		wait: one(s.Wait, ofPhoneCheck),
		complete: func(ctx context.Context, checkID, code string) (check, error) {
			c, err := s.Complete(ctx, checkID, code)
			return ofPhoneCheck(c), err
		},
		all:    each(s.All, ofPhoneCheck),
		find:   found(s.FindByReferenceID, ofPhoneCheck),
		traces: s.Traces,
	}
}

// newSIMCheckService returns the operations of SIMChecks, which end when they are created. Their
// wait only reads them.
func newSIMCheckService(s *idverify.SIMCheckService) checkService {
	return checkService{
		product: idverify.ProductSIMCheck, title: "SIMCheck", scope: idverify.ScopeSIMCheck,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.SIMCheckParams{PhoneNumber: p.number, ReferenceID: p.referenceID})
			return ofSIMCheck(c), err
		},
		get:    one(s.Get, ofSIMCheck),
		wait:   one(s.Get, ofSIMCheck),
		all:    each(s.All, ofSIMCheck),
		find:   found(s.FindByReferenceID, ofSIMCheck),
		traces: s.Traces,
	}
}

func newSubscriberCheckService(s *idverify.SubscriberCheckService) checkService {
	return checkService{
		product: idverify.ProductSubscriberCheck, title: "SubscriberCheck", scope: idverify.ScopeSubscriberCheck, device: true,
		create: func(ctx context.Context, p createParams) (check, error) {
			c, err := s.Create(ctx, idverify.SubscriberCheckParams{
				PhoneNumber: p.number, ReferenceID: p.referenceID, CallbackURL: p.callbackURL, RedirectURL: p.redirectURL,
			})
			return ofSubscriberCheck(c), err
		},
		get:  one(s.Get, ofSubscriberCheck),
		wait: one(s.Wait, ofSubscriberCheck),
		complete: func(ctx context.Context, checkID, code string) (check, error) {
			c, err := s.Complete(ctx, checkID, code)
			return ofSubscriberCheck(c), err
		},
		all:    each(s.All, ofSubscriberCheck),
		find:   found(s.FindByReferenceID, ofSubscriberCheck),
		traces: s.Traces,
	}
}

// one returns read for checks of any product.
func one[T any](read func(context.Context, string) (*T, error), of func(*T) check) func(context.Context, string) (check, error) {
	return func(ctx context.Context, checkID string) (check, error) {
		c, err := read(ctx, checkID)
		return of(c), err
	}
}

// each returns all for checks of any product.
func each[T any](all func(context.Context, idverify.ListOptions) iter.Seq2[*T, error], of func(*T) check) func(context.Context, idverify.ListOptions) iter.Seq2[check, error] {
	return func(ctx context.Context, o idverify.ListOptions) iter.Seq2[check, error] {
		return func(yield func(check, error) bool) {
			for c, err := range all(ctx, o) {
				if !yield(of(c), err) {
					return
				}
			}
		}
	}
}

// found returns find for checks of any product.
func found[T any](find func(context.Context, string) ([]*T, error), of func(*T) check) func(context.Context, string) ([]check, error) {
	return func(ctx context.Context, referenceID string) ([]check, error) {
		checks, err := find(ctx, referenceID)
		all := make([]check, len(checks))
		for i, c := range checks {
			all[i] = of(c)
		}
		return all, err
	}
}
