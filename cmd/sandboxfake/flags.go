package main

import (
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// flags contains the values of the flags and environment variables.
type flags struct {
	// The program.
	addr, caFile           string
	seed                   uint64
	seedSet                bool // the seed is not random
	newIDs                 bool
	fixedKeys              bool
	controlToken           string
	clientID, clientSecret string // of the project; empty for generated ones
	live                   bool   // the project is a live project
	remoteControl          bool
	json                   bool
	quiet                  bool

	// How others reach the service, and it reaches receivers.
	publicURL       string
	tlsCert, tlsKey string
	ownCertificate  *x509.Certificate // first certificate of the file tlsCert, or nil
	lan             bool
	phonePage       bool
	mappings        []mapping
	receiverCAs     []byte // contents of the file receiverCA

	// Instead of a server.
	version     bool
	healthcheck bool
	openAPI     string // serviceAPI, controlAPI or empty

	// The service.
	digest         string
	callbackHeader string
	rateLimit      int
	prices         map[idverify.Product]string
	frozenAt       *time.Time // nil: the clock is not frozen
	signatureDates string
	callerIP       netip.Addr // of callers on a local address; zero means the address of the connection
	phoneIPCheck   bool
	extraScopes    []string
	receiverCA     string
	journalLimit   int
}

// Values of -openapi. Without a value, a flag has the value "true".
const (
	serviceAPI = "true"
	controlAPI = "control"
)

// Values of -digest and -signature-dates.
const (
	hexDigest    = "hex"
	base64Digest = "base64"
	systemDates  = "system"
	sandboxDates = "sandbox"
)

// envName returns the environment variable that also sets a flag, such as SANDBOXFAKE_CA_FILE.
func envName(flagName string) string {
	return "SANDBOXFAKE_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// parse parses the command line. A flag that it does not contain is set by its environment
// variable, unless that is empty.
func parse(set *flag.FlagSet, args []string, getenv func(string) string) error {
	set.VisitAll(func(f *flag.Flag) { f.Usage += " [$" + envName(f.Name) + "]" })
	// The usage contains no value of a variable, because Parse returns before they are read.
	err := set.Parse(args)
	given := make(map[string]bool)
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set.VisitAll(func(f *flag.Flag) {
		name := envName(f.Name)
		if value := getenv(name); err == nil && !given[f.Name] && value != "" {
			if err = set.Set(f.Name, value); err != nil {
				if _, isBool := f.Value.(interface{ IsBoolFlag() bool }); isBool && err.Error() == "parse error" {
					err = errors.New("must be true or false")
				}
				err = fmt.Errorf("invalid value of %s: %w", name, err)
			}
		}
	})
	return err
}

// parseFlags parses the command line and the environment variables. If the program must exit,
// parseFlags prints the usage or an error, and returns nil and the exit code.
func parseFlags(args []string, getenv func(string) string, stdout, stderr io.Writer) (*flags, int) {
	// Without -seed, each run has its own IDs and credentials.
	f := &flags{seed: rand.Uint64(), digest: hexDigest, signatureDates: systemDates, prices: make(map[idverify.Product]string)}
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	set.SetOutput(io.Discard) // also of errors, which are printed below
	f.define(set)
	err := parse(set, args, getenv)
	switch {
	case err == flag.ErrHelp:
		set.SetOutput(stdout)
		set.Usage()
		return nil, exitOK
	case err != nil:
	case f.version && f.healthcheck, f.openAPI != "" && (f.version || f.healthcheck):
		err = errors.New("-version, -healthcheck and -openapi cannot be used together")
	case set.NArg() > 0:
		// Do not quote the argument, which may be a misplaced secret.
		err = errors.New("unexpected argument: write the value of a flag as -flag=value")
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandboxfake: %v (\"sandboxfake -h\" lists the flags)\n", err)
		return nil, exitUsage
	}
	addrSet := false
	set.Visit(func(used *flag.Flag) { addrSet = addrSet || used.Name == "addr" })
	if f.lan && !addrSet {
		f.addr = lanAddr
	}
	return f, exitOK
}

func (f *flags) define(set *flag.FlagSet) {
	set.StringVar(&f.addr, "addr", "127.0.0.1:0", "listen on this `host:port`; port 0 selects a free port")
	set.StringVar(&f.caFile, "ca-file", "", "write the CA certificate to this `path` and keep it; by default a temporary file")
	set.Func("seed", "use the same IDs and credentials in every run with this `number`; random by default", func(text string) error {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("must be a whole number from 0 to 18446744073709551615")
		}
		f.seed, f.seedSet = seed, true
		return nil
	})
	set.BoolVar(&f.newIDs, "new-ids-after-reset", false, "use different IDs after each reset, for a database that is not reset; credentials stay the same")
	set.BoolVar(&f.fixedKeys, "fixed-keys", false, "use public test keys instead of new ones")
	set.StringVar(&f.controlToken, "control-token", "", "the `token` that /_sandbox/ requires, of at least 16 characters; random by default. Prefer the environment variable: other users can see flags")
	set.StringVar(&f.clientID, "client-id", "", "client `ID` of the project, for programs with fixed credentials; requires -client-secret")
	set.StringVar(&f.clientSecret, "client-secret", "", "client `secret` of the project. Prefer the environment variable: other users can see flags")
	set.BoolVar(&f.live, "live", false, "make the project a live project, for clients with idverify.WithLiveOnly")
	set.BoolVar(&f.remoteControl, "remote-control", false, "serve /_sandbox/ to any address, not only to this machine")
	set.BoolVar(&f.json, "json", false, "print one line of JSON instead of text")
	set.BoolVar(&f.quiet, "quiet", false, "do not log requests")
	set.BoolVar(&f.version, "version", false, "print the version of the program and exit")
	set.BoolVar(&f.healthcheck, "healthcheck", false, "report whether a server with the same -addr on this machine is ready, and exit with 0 or 1")
	set.BoolFunc("openapi", "print the description of the service in OpenAPI 3.1 and exit; -openapi=control prints that of the control plane", func(text string) error {
		if text != serviceAPI && text != controlAPI {
			return errors.New("must be -openapi or -openapi=control")
		}
		f.openAPI = text
		return nil
	})

	set.StringVar(&f.publicURL, "public-url", "", "base `URL` of all links, such as https://sandbox.example.com, if others reach the service through a tunnel or by another name")
	set.StringVar(&f.tlsCert, "tls-cert", "", "present the certificate in the PEM file at this `path` for the names that it is valid for; requires -tls-key")
	set.StringVar(&f.tlsKey, "tls-key", "", "`path` of the PEM file with the private key of -tls-cert")
	set.BoolVar(&f.lan, "lan", false, "listen on all addresses, port 8443 by default, and use the address of this machine on the local network in links")
	set.BoolVar(&f.phonePage, "phone-page", false, "show a browser that opens a Check URL a page where a person chooses the result")
	set.Func("map", "send callbacks for a public host to a local address, as `host=address` such as shop.example.com=127.0.0.1:3000; repeatable, or separated by commas", each(f.addMapping))

	set.Func("digest", "`encoding` of the Digest of callbacks, hex or base64; hex by default", oneOf(&f.digest, hexDigest, base64Digest))
	set.StringVar(&f.callbackHeader, "callback-header", "x-service-callback", "`name` of the header with the product of a callback")
	set.IntVar(&f.rateLimit, "rate-limit", 0, "limit each workspace to this `number` of requests per hour; 0 for no limit")
	set.Func("price", "price of a check of a live project, as `product=amount` such as phone_check=0.05; repeatable, or separated by commas", each(func(text string) error {
		product, amount, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("must be product=amount")
		}
		f.prices[idverify.Product(product)] = amount
		return nil
	}))
	set.Func("frozen-clock", "freeze the clock at this RFC 3339 `time`, such as 2026-01-02T03:04:05Z; only advance moves it", func(text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return errors.New("must be a time such as 2026-01-02T03:04:05Z")
		}
		f.frozenAt = &at
		return nil
	})
	set.Func("signature-dates", "`clock` that dates signatures, system or sandbox (the clock that advance moves); system by default", oneOf(&f.signatureDates, systemDates, sandboxDates))
	set.TextVar(&f.callerIP, "caller-ip", netip.MustParseAddr("192.0.2.10"), "`address` of callers on a loopback or private address that look up their own reachability")
	set.BoolVar(&f.phoneIPCheck, "phone-ip-check", false, "end a check with ip_mismatch if its Check URL is opened from another address than its phone_ip")
	set.Func("extra-scopes", "also grant these `scopes`, separated by commas, for programs that request scopes of other products", each(func(scope string) error {
		f.extraScopes = append(f.extraScopes, scope)
		return nil
	}))
	set.StringVar(&f.receiverCA, "receiver-ca", "", "trust the CA certificates in the file at this `path` for callbacks over https")
	set.IntVar(&f.journalLimit, "journal-limit", 1024, "`number` of requests, and of deliveries, that the journals keep")
}

// each returns a flag function that calls add for each part of a list that is separated by commas.
func each(add func(string) error) func(string) error {
	return func(list string) error {
		for text := range strings.SplitSeq(list, ",") {
			if err := add(text); err != nil {
				return err
			}
		}
		return nil
	}
}

// oneOf returns a flag function that sets value to one of values.
func oneOf(value *string, values ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(values, text) {
			return fmt.Errorf("must be %s", strings.Join(values, " or "))
		}
		*value = text
		return nil
	}
}

// control returns the options of the control plane, without its page.
func (f *flags) control() sandboxfake.ControlOptions {
	return sandboxfake.ControlOptions{Token: idverify.NewSecret(f.controlToken), Remote: f.remoteControl, PhonePage: f.phonePage}
}

// options returns the server's other options. The server logs requests to log.
func (f *flags) options(log io.Writer) ([]sandboxfake.Option, error) {
	options := []sandboxfake.Option{
		sandboxfake.WithAddr(f.addr),
		sandboxfake.WithSeed(f.seed),
		sandboxfake.WithCallbackHeader(f.callbackHeader),
		sandboxfake.WithPrices(f.prices),
		sandboxfake.WithJournalLimit(f.journalLimit),
		sandboxfake.WithAdditionalScopes(f.extraScopes...),
	}
	for _, row := range []struct {
		set    bool
		option func() sandboxfake.Option
	}{
		{f.newIDs, sandboxfake.WithNewIDsAfterReset},
		{!f.fixedKeys, sandboxfake.WithFreshKeys},
		{f.clientID+f.clientSecret != "", func() sandboxfake.Option {
			return sandboxfake.WithCredentials(idverify.Credentials{ClientID: f.clientID, ClientSecret: idverify.NewSecret(f.clientSecret)})
		}},
		{f.live, sandboxfake.WithLiveProject},
		{!f.quiet, func() sandboxfake.Option { return sandboxfake.WithRequestLog(log) }},
		{f.digest == base64Digest, sandboxfake.WithBase64Digest},
		{f.rateLimit != 0, func() sandboxfake.Option { return sandboxfake.WithRateLimit(f.rateLimit) }},
		{f.frozenAt != nil, func() sandboxfake.Option { return sandboxfake.WithFrozenClock(*f.frozenAt) }},
		{f.phoneIPCheck, sandboxfake.WithPhoneIPCheck},
		{f.signatureDates == systemDates, sandboxfake.WithSystemDates},
		{f.callerIP.IsValid(), func() sandboxfake.Option { return sandboxfake.WithCallerIP(f.callerIP) }},
	} {
		if row.set {
			options = append(options, row.option())
		}
	}
	return f.appendNetwork(options, log)
}

// appendNetwork appends the options that determine how clients reach the server, and how it reaches
// receivers. It prints warnings.
func (f *flags) appendNetwork(options []sandboxfake.Option, warnings io.Writer) ([]sandboxfake.Option, error) {
	if f.lan {
		interfaces, err := networkInterfaces()
		if err != nil {
			return nil, fmt.Errorf("sandboxfake: -lan: %w", err)
		}
		if f.publicURL, err = f.lanURL(interfaces); err != nil {
			return nil, err
		}
	}
	if err := f.checkMappings(); err != nil {
		return nil, err
	}
	if f.publicURL != "" {
		options = append(options, sandboxfake.WithPublicURL(f.publicURL))
	}
	certificate, ok, err := f.certificate(time.Now(), warnings)
	if err != nil {
		return nil, err
	}
	if ok {
		f.ownCertificate = certificate.Leaf
		options = append(options, sandboxfake.WithCertificate(certificate))
	}
	if f.receiverCA != "" {
		if f.receiverCAs, err = os.ReadFile(f.receiverCA); err != nil {
			return nil, fmt.Errorf("sandboxfake: receiver CA: %w", err)
		}
		options = append(options, sandboxfake.WithReceiverCA(f.receiverCAs))
	}
	return options, nil
}

// warnAboutPublic prints warnings if other machines can reach the service with credentials or keys
// that they may know. The program starts, because a container may publish its port on loopback
// only.
func (f *flags) warnAboutPublic(w io.Writer) {
	host, _, _ := net.SplitHostPort(f.addr)
	public, err := url.Parse(f.publicURL)
	listens := !isLoopback(host)
	linked := err == nil && f.publicURL != "" && !isLoopback(public.Hostname())
	if f.seedSet && (listens || linked) {
		fmt.Fprintln(w, "sandboxfake: warning: -seed: other machines may reach the service, and anyone who knows the seed has the credentials and IDs; use a random 64-bit seed and keep it secret")
	}
	if f.clientSecret != "" && (listens || linked) {
		fmt.Fprintln(w, "sandboxfake: warning: -client-secret: other machines may reach the service, and anyone who knows the secret can create checks; use a long random secret")
	}
	if f.fixedKeys && listens {
		fmt.Fprintln(w, "sandboxfake: warning: -fixed-keys: other machines may reach the service, and anyone can impersonate it, because the private keys are public; use new keys")
	}
}
