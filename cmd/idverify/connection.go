package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// connection is the client of a command, and its flags.
type connection struct {
	*program
	client *idverify.Client
	server *sandboxfake.Server // with -fake, otherwise nil

	fake, json, showNumbers bool
	timeout                 time.Duration
}

// newConnection defines the flags of a command that calls the service. timeout is the default of
// -timeout.
func newConnection(p *program, flags *flag.FlagSet, timeout time.Duration) *connection {
	c := &connection{program: p}
	flags.BoolVar(&c.fake, "fake", false, "use a fake of the service in this process, which has example checks, instead of the service of the environment")
	flags.BoolVar(&c.json, "json", false, "print one JSON document")
	flags.DurationVar(&c.timeout, "timeout", timeout, "stop after this `duration`; 0 for no limit")
	return c
}

// open connects to the service of the environment, or starts the fake. The caller must call close.
func (c *connection) open(ctx context.Context) (code int, ok bool) {
	var err error
	switch {
	case c.fake:
		if c.server, c.client, err = startFake(ctx); err == nil {
			fmt.Fprintln(c.stderr, "Using a fake of the service in this process.")
		}
	default:
		c.client, err = c.program.client()
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "idverify: %v\nSee:  %stools.md#connection-to-the-service\n", err, docsURL)
		return exitError, false
	}
	return exitOK, true
}

func (c *connection) close() {
	if c.server != nil {
		c.server.Close()
	}
}

// limit returns ctx with the timeout of the command.
func (c *connection) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return c.withTimeout(ctx, c.timeout)
}

// startFake starts a fake with the same IDs in each run, and creates a few checks for the commands
// that read them.
func startFake(ctx context.Context) (*sandboxfake.Server, *idverify.Client, error) {
	// A frozen clock makes the order of the checks the same in each run.
	server, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Now()))
	if err != nil {
		return nil, nil, err
	}
	client := server.Client()
	for _, number := range []string{"447700900012", "447700900013", "447700900016"} {
		if err = createExamples(ctx, server, client, number, number != "447700900016"); err != nil {
			server.Close()
			return nil, nil, fmt.Errorf("start the fake: %w", err)
		}
	}
	return server, client, nil
}

// createExamples creates a check of each product. If open is set, the device opens the Check URLs.
func createExamples(ctx context.Context, server *sandboxfake.Server, client *idverify.Client, number string, open bool) error {
	reference := "order-" + number[len(number)-2:]
	phoneCheck, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
	if err != nil {
		return err
	}
	if _, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference}); err != nil {
		return err
	}
	subscriberCheck, err := client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: number, ReferenceID: reference})
	if err != nil || !open {
		return err
	}
	for _, checkURL := range []string{phoneCheck.CheckURL, subscriberCheck.CheckURL} {
		if _, err := server.Device().Open(ctx, checkURL); err != nil {
			return err
		}
	}
	return nil
}

// openCheckURL opens the Check URL of a check as the device, and returns the code that the device
// receives, if there is one.
func (c *connection) openCheckURL(ctx context.Context, checkURL string) (code string, err error) {
	visit, err := c.server.Device().Open(ctx, checkURL)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(c.stderr, "Opened the Check URL as the phone: status %d.\n", visit.Status)
	var page struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(visit.Body, &page) != nil {
		return "", nil // the page has no code
	}
	return page.Code, nil
}

// Environment variables with the connection to the service.
const (
	baseURLVariable         = "IDVERIFY_BASE_URL"
	clientIDVariable        = projectVariables + "CLIENT_ID"
	clientSecretVariable    = projectVariables + "CLIENT_SECRET"
	credentialsFileVariable = projectVariables + "CREDENTIALS_FILE" // JSON, instead of the two above
	caFileVariable          = "IDVERIFY_CA_FILE"                    // PEM
)

// Beginnings of the names of the variables with credentials.
const (
	projectVariables   = "IDVERIFY_"
	workspaceVariables = "IDVERIFY_WORKSPACE_"
)

// client returns a client with the base URL, credentials and CA certificates of the environment. It
// sends no request. Its errors name the variable and do not contain its value. Options in options
// are applied last.
func (p *program) client(options ...idverify.Option) (*idverify.Client, error) {
	baseURL, err := p.baseURL()
	if err != nil {
		return nil, err
	}
	credentials, err := p.credentials(projectVariables)
	if err != nil {
		return nil, err
	}
	httpClient, err := p.httpClient()
	if err != nil {
		return nil, err
	}
	options = append([]idverify.Option{idverify.WithHTTPClient(httpClient), idverify.WithUserAgent(userAgent())}, options...)
	return idverify.NewClient(baseURL, credentials, options...)
}

// baseURL returns the base URL of the service.
func (p *program) baseURL() (string, error) {
	baseURL := p.getenv(baseURLVariable)
	if baseURL == "" {
		return "", errors.New(baseURLVariable + " is missing (set it to the base URL of the service)")
	}
	return baseURL, validateBaseURL(baseURLVariable, baseURL)
}

// validateBaseURL returns an error if the variable or flag with this name is not a base URL.
func validateBaseURL(name, baseURL string) error {
	if err := validate(baseURL, idverify.Credentials{ClientID: "id", ClientSecret: idverify.NewSecret("secret")}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// credentials returns the credentials in the variables whose names begin with prefix.
func (p *program) credentials(prefix string) (idverify.Credentials, error) {
	idName, secretName, fileName := prefix+"CLIENT_ID", prefix+"CLIENT_SECRET", prefix+"CREDENTIALS_FILE"
	id, secret, file := p.getenv(idName), p.getenv(secretName), p.getenv(fileName)
	var c idverify.Credentials
	source := idName + ", " + secretName
	switch {
	case file != "" && (id != "" || secret != ""):
		return c, fmt.Errorf("%s is set together with %s or %s (unset one of them)", fileName, idName, secretName)
	case file != "":
		source = fileName
		text, err := readFile(fileName, file)
		if err != nil {
			return c, err
		}
		// The text of the error could contain a part of the file.
		if json.Unmarshal(text, &c) != nil {
			return idverify.Credentials{}, fmt.Errorf(`%s: the file is not JSON with "client_id" and "client_secret"`, fileName)
		}
	case id == "" && secret == "":
		return c, fmt.Errorf("%s and %s are missing (set them, or %s)", idName, secretName, fileName)
	case id == "":
		return c, errors.New(idName + " is missing")
	case secret == "":
		return c, errors.New(secretName + " is missing")
	default:
		c = idverify.Credentials{ClientID: id, ClientSecret: idverify.NewSecret(secret)}
	}
	if err := validate("https://localhost", c); err != nil {
		return idverify.Credentials{}, fmt.Errorf("%s: %w", source, err)
	}
	return c, nil
}

// validate returns the error of NewClient without its prefix.
func validate(baseURL string, c idverify.Credentials) error {
	_, err := idverify.NewClient(baseURL, c)
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// httpClient returns an HTTP client that uses the proxy of the environment, and trusts the
// certificates in the CA file in addition to those of the system.
func (p *program) httpClient() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = p.proxy
	client := &http.Client{Transport: transport}
	path := p.getenv(caFileVariable)
	if path == "" {
		return client, nil
	}
	pool, err := certPool(caFileVariable, path)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	return client, nil
}

// certPool returns the certificates in the file that an environment variable or flag names, and
// those of the system.
func certPool(name, path string) (*x509.CertPool, error) {
	pem, err := readFile(name, path)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the system has no certificates
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(name + ": the file contains no PEM certificate")
	}
	return pool, nil
}

// readFile reads the file that an environment variable or flag names. The error does not contain
// its path.
func readFile(name, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read the file: %w", name, err)
	}
	return text, nil
}

// userAgent returns the start of the User-Agent header.
func userAgent() string { return "idverify-program/" + strings.Trim(moduleVersion(), "()") }
