package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// config is the configuration from the environment.
type config struct {
	listen          string        // LISTEN: host:port, port 0 selects a free port
	publicURL       *url.URL      // PUBLIC_URL: where the service and the apps reach this program, with any path prefix
	databaseURL     string        // DATABASE_URL: pool_max_conns sets the number of connections
	baseURL         string        // IDVERIFY_BASE_URL
	credentialsFile string        // IDVERIFY_CREDENTIALS_FILE: {"client_id": "…", "client_secret": "…"}
	caFile          string        // IDVERIFY_CA_FILE: optional, PEM, in addition to the roots of the system
	telemetry       string        // OTEL: stdout or none, default none
	shutdownDelay   time.Duration // SHUTDOWN_DELAY: from the failure of the readiness probe to the end, default 1s
}

// configFrom returns the configuration in the environment.
func configFrom(getenv func(string) string) (config, error) {
	c := config{
		listen:          getenv("LISTEN"),
		databaseURL:     getenv("DATABASE_URL"),
		baseURL:         getenv("IDVERIFY_BASE_URL"),
		credentialsFile: getenv("IDVERIFY_CREDENTIALS_FILE"),
		caFile:          getenv("IDVERIFY_CA_FILE"),
		telemetry:       getenv("OTEL"),
		shutdownDelay:   time.Second,
	}
	for name, value := range map[string]string{"LISTEN": c.listen, "DATABASE_URL": c.databaseURL,
		"IDVERIFY_BASE_URL": c.baseURL, "IDVERIFY_CREDENTIALS_FILE": c.credentialsFile, "PUBLIC_URL": getenv("PUBLIC_URL")} {
		if value == "" {
			return config{}, fmt.Errorf("%s is not set", name)
		}
	}
	var err error
	if c.publicURL, err = url.Parse(strings.TrimSuffix(getenv("PUBLIC_URL"), "/")); err != nil || c.publicURL.Scheme != "https" || c.publicURL.Host == "" {
		return config{}, errors.New("PUBLIC_URL is not an https URL")
	}
	if delay := getenv("SHUTDOWN_DELAY"); delay != "" {
		if c.shutdownDelay, err = time.ParseDuration(delay); err != nil {
			return config{}, errors.New("SHUTDOWN_DELAY is not a duration")
		}
	}
	return c, nil
}

// httpClient returns a client that trusts the CA file, too.
func (c config) httpClient() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64 // all requests go to one host
	if c.caFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, err
		}
		ca, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, errors.New("IDVERIFY_CA_FILE contains no certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}, nil
}
