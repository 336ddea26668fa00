package stack

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// startService starts the fake of the service, with a live project for the backend, and writes the
// files with the certificates and the credentials.
func (s *Stack) startService(o Options) error {
	certificate, err := s.newCertificate()
	if err != nil {
		return err
	}
	// The replicas compare the dates of signatures with the system clock.
	s.Service, err = sandboxfake.Start(sandboxfake.WithFreshKeys(), sandboxfake.WithSystemDates(), sandboxfake.WithControl(sandboxfake.ControlOptions{}),
		sandboxfake.WithReceiverCA(certificate), sandboxfake.WithPhoneIPCheck(), sandboxfake.WithJournalLimit(o.JournalLimit),
		sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: "0.01", idverify.ProductSIMCheck: "0.01", idverify.ProductSubscriberCheck: "0.01"}))
	if err != nil {
		return err
	}
	s.Project = s.Service.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	s.roots = x509.NewCertPool()
	all := append(s.Service.CACertPEM(), certificate...)
	if !s.roots.AppendCertsFromPEM(all) {
		return errors.New("invalid certificate")
	}
	if err := os.WriteFile(s.serviceCAFile(), s.Service.CACertPEM(), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(s.CAFile(), all, 0o600); err != nil {
		return err
	}
	return s.writeCredentials(s.Project.Credentials)
}

// RotateCredentials replaces the credentials of the project: it creates a new pair, replaces the
// file that the replicas read, and deletes the old pair with its access tokens.
func (s *Stack) RotateCredentials(ctx context.Context) error {
	pairs := s.Service.Console().ProjectCredentials
	issued, err := pairs.Create(ctx, s.Project.ProjectID)
	if err != nil {
		return fmt.Errorf("stack: rotate credentials: %w", err)
	}
	old := s.credentials.ClientID
	if err := s.writeCredentials(idverify.Credentials{ClientID: issued.ClientID, ClientSecret: issued.ClientSecret}); err != nil {
		return fmt.Errorf("stack: rotate credentials: %w", err)
	}
	if err := pairs.Delete(ctx, s.Project.ProjectID, old); err != nil {
		return fmt.Errorf("stack: rotate credentials: %w", err)
	}
	return nil
}

// writeCredentials replaces the file by renaming a new one, so that no reader sees half of it.
func (s *Stack) writeCredentials(c idverify.Credentials) error {
	text, err := json.Marshal(map[string]string{"client_id": c.ClientID, "client_secret": c.ClientSecret.Reveal()})
	if err != nil {
		return err
	}
	next := s.credentialsFile() + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	s.credentials = c
	return os.Rename(next, s.credentialsFile())
}

func (s *Stack) credentialsFile() string { return filepath.Join(s.Dir, "credentials.json") }
func (s *Stack) serviceCAFile() string   { return filepath.Join(s.Dir, "service-ca.pem") }
