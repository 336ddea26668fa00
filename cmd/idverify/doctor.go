package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// doctor checks the environment of a backend. It only reads, and creates no check.
func doctor(ctx context.Context, p *program, args []string) int {
	d := newDoctorRun(p)
	flags := newFlags("doctor", "")
	d.define(flags)
	if code, ok := p.parse(flags, args); !ok {
		return code
	}
	if err := d.configure(flags.Args()); err != nil {
		return p.misused("doctor", err)
	}
	d.started = time.Now()
	for _, c := range d.plan() {
		d.examine(ctx, c)
	}
	if err := d.finish(); err != nil {
		fmt.Fprintf(p.stderr, "idverify: doctor: write the result: %v\n", err)
		return exitError
	}
	switch {
	case d.interrupted:
		fmt.Fprintln(p.stderr, "idverify: doctor: interrupted")
		return exitError
	case d.count(resultFailed) > 0 || d.warnings && d.count(resultWarning) > 0:
		return exitProblem
	}
	return exitOK
}

// doctorRun is one run of doctor. The checks share it, one after the other.
type doctorRun struct {
	*program

	// Flags.
	timeout              time.Duration
	callbacks, redirects stringList
	only, skip           stringList
	json, warnings       bool

	started     time.Time
	interrupted bool // at least one check did not run
	rows        []doctorRow
	failed      map[string]string // the failed check, by the name and target of each check that failed or depends on one
	secrets     []string          // texts that the output must not contain

	// Results of checks that later ones use.
	service *exchange // the request for the key set
	other   *exchange // a request to another endpoint, if there was no response to that one
	api     *idverify.Client
	scopes  []idverify.Scope
	keyID   string
}

func newDoctorRun(p *program) *doctorRun {
	return &doctorRun{program: p, failed: make(map[string]string)}
}

func (d *doctorRun) define(flags *flag.FlagSet) {
	flags.Var(&d.callbacks, "callback-url", "callback `URL` to check; repeatable")
	flags.Var(&d.redirects, "redirect-url", "redirect `URL` to check; repeatable")
	flags.Var(&d.only, "only", "run only the check with this `name`, or all whose names begin with it; repeatable")
	flags.Var(&d.skip, "skip", "do not run the check with this `name`, or all whose names begin with it; repeatable")
	flags.DurationVar(&d.timeout, "timeout", 10*time.Second, "timeout of each check")
	flags.BoolVar(&d.json, "json", false, "print one JSON document")
	flags.BoolVar(&d.warnings, "warnings", false, "exit with 1 if there is a warning")
}

// configure verifies the flags.
func (d *doctorRun) configure(arguments []string) error {
	switch {
	case len(arguments) > 0:
		return errors.New("unexpected argument (pass URLs with -callback-url or -redirect-url)")
	case d.timeout <= 0:
		return errors.New("-timeout must be positive")
	}
	if secret := d.getenv(clientSecretVariable); secret != "" {
		d.secrets = append(d.secrets, secret)
	}
	known := doctorChecks()
	for i, list := range []stringList{d.only, d.skip} {
		for j, name := range list {
			list[j] = strings.ReplaceAll(name, " ", "-")
			if !slices.ContainsFunc(known, func(check string) bool { return covers(list[j], check) }) {
				return &unknownNameError{[]string{"-only", "-skip"}[i], "check", name, known}
			}
		}
	}
	plan := d.plan()
	for _, c := range plan {
		for _, name := range c.needs {
			if covers("config", name) && d.skips(name) {
				return fmt.Errorf("-skip: %s needs the check %s (skip both, or none)", c.name, name)
			}
		}
	}
	if len(plan) == 0 {
		return errors.New("nothing to check: the flags select no check, or a check that needs -callback-url or -redirect-url")
	}
	return nil
}

// doctorCheck is a check.
type doctorCheck struct {
	name   string   // for example "callback-tls"
	target string   // the host, for checks of one of several URLs
	needs  []string // checks without which this one makes no sense
	run    func(context.Context) diagnosis
	twice  bool // sends up to two requests, each with the timeout
}

// key returns the name with the target.
func (c doctorCheck) key() string { return strings.TrimSpace(c.name + " " + c.target) }

// doctorChecks returns the names of all checks, in their order.
func doctorChecks() []string {
	url := []string{"https://localhost"}
	d := &doctorRun{callbacks: url, redirects: url}
	var names []string
	for _, c := range d.plan() {
		names = append(names, c.name)
	}
	return names
}

// plan returns the selected checks in their order, and the checks of the configuration that they
// need.
func (d *doctorRun) plan() []doctorCheck {
	all := slices.Concat(d.configurationChecks(), d.serviceChecks(), d.credentialsChecks(), d.keySetChecks(),
		d.receiverChecks("callback", d.callbacks), d.receiverChecks("redirect", d.redirects))
	needed := make(map[string]bool)
	for _, c := range all {
		if d.selects(c.name) {
			for _, name := range c.needs {
				needed[name] = covers("config", name)
			}
		}
	}
	return slices.DeleteFunc(all, func(c doctorCheck) bool { return !d.selects(c.name) && (!needed[c.name] || d.skips(c.name)) })
}

// selects reports whether the flags select the check.
func (d *doctorRun) selects(name string) bool {
	only := len(d.only) == 0 || slices.ContainsFunc(d.only, func(prefix string) bool { return covers(prefix, name) })
	return only && !d.skips(name)
}

// skips reports whether -skip excludes the check.
func (d *doctorRun) skips(name string) bool {
	return slices.ContainsFunc(d.skip, func(prefix string) bool { return covers(prefix, name) })
}

// covers reports whether prefix is name, or names the group of checks that it belongs to.
func covers(prefix, name string) bool { return name == prefix || strings.HasPrefix(name, prefix+"-") }

// examine runs a check, unless one that it needs has failed.
func (d *doctorRun) examine(parent context.Context, c doctorCheck) {
	for _, name := range c.needs {
		cause := cmp.Or(d.failed[name], d.failed[name+" "+c.target])
		if cause != "" {
			d.failed[c.key()] = cause // skip what needs this one, too
			d.add(c, skipped("because %s failed", spaced(cause)), 0)
			return
		}
	}
	began := time.Now()
	result := skipped("")
	if parent.Err() == nil {
		timeout := d.timeout
		if c.twice {
			timeout *= 2
		}
		ctx, cancel := context.WithTimeout(parent, timeout)
		defer cancel()
		result = c.run(ctx)
	}
	// The interruption can be the cause of a problem, but not of a healthy result.
	if parent.Err() != nil && (result.skipped || result.problem != "") {
		d.interrupted = true
		result = skipped("because doctor was interrupted")
	}
	d.add(c, result, time.Since(began))
}
