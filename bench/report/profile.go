package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// profiled is a test or benchmark whose CPU profile is divided into shares.
type profiled struct {
	dir    string
	args   []string // of go test
	shares []share
}

// share is the part of a profile that was spent in functions and their callees, except in those
// that match except. Both are regular expressions.
type share struct{ name, functions, except string }

const (
	network = `net/http\.\(\*(Transport|persistConn|conn)\)|crypto/tls|runtime\.(mcall|mstart)$`
	inJSON  = `^encoding/json\.|idverify-go\.decode\[`
)

// profiles lists the profiles that bench/run prints.
var profiles = []profiled{
	{"internal/soak", []string{"-run", "TestSoak"}, []share{
		{"soak/RSA", `crypto/rsa`, ""},
		{"soak/network", network, `crypto/rsa|` + inJSON},
		{"soak/JSON", inJSON, `crypto/rsa`},
	}},
	{".", benchmarkArgs("BenchmarkGetOverTLS"), []share{
		{"get-over-TLS/network", network, ""},
		{"get-over-TLS/JSON", inJSON, ""},
		{"get-over-TLS/attempts", `idverify-go\.\(\*api\)\.do$`, network + `|` + inJSON},
	}},
	{".", benchmarkArgs("BenchmarkGet"), []share{
		{"get/JSON", inJSON, ""},
		{"get/allocation", `runtime\.(mallocgc|gcBgMarkWorker)`, inJSON},
		{"get/attempts", `idverify-go\.\(\*api\)\.do$`, inJSON + `|runtime\.mallocgc|tokenTransport`},
	}},
	{"signature", benchmarkArgs("BenchmarkVerifier_VerifyCallback"), []share{
		{"verify-callback/RSA", `crypto/rsa`, ""},
		{"verify-callback/hashing", `crypto/.*sha256`, `crypto/rsa`},
		{"verify-callback/date", `time\.Parse|net/http\.ParseTime|signature\..*[dD]ate`, ""},
	}},
}

func benchmarkArgs(name string) []string {
	return []string{"-run", "^$", "-benchtime", "3s", "-bench", "^" + name + "$"}
}

// shown matches the line of go tool pprof -top with the share of the functions that it shows.
var shown = regexp.MustCompile(`(?m)^Showing nodes accounting for .*, *([0-9.]+)% of .* total$`)

// profile adds the shares of a profile as percentages.
func (m *measurer) profile(ctx context.Context, all *results, p profiled) error {
	fmt.Fprintf(m.log, "… %s, profile of %s\n", p.dir, p.args[len(p.args)-1])
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cpu := filepath.Join(dir, "cpu")
	args := append([]string{"test", "-count", "1", "-cpuprofile", cpu, "-o", filepath.Join(dir, "test")}, p.args...)
	if _, err := m.goCommand(ctx, p.dir, args...); err != nil {
		return err
	}
	for _, s := range p.shares {
		args := []string{"tool", "pprof", "-top", "-nodecount", "9999", "-nodefraction", "0", "-focus", s.functions}
		if s.except != "" {
			args = append(args, "-ignore", s.except)
		}
		top, err := m.goCommand(ctx, p.dir, append(args, cpu)...)
		if err != nil {
			return err
		}
		percent := 0.0 // no sample matches
		if found := shown.FindSubmatch(top); found != nil {
			percent, _ = strconv.ParseFloat(string(found[1]), 64)
		}
		all.add(key{p.dir, "profile/" + s.name, "%-of-profile"}, percent)
	}
	return nil
}
