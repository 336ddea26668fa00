package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// bom is a software bill of materials in the format CycloneDX 1.6.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// newBOM returns the bill of materials of a binary: its modules and the standard library. Its bytes
// depend on the binary and the list of licenses only.
func newBOM(b *binary, program []byte) ([]byte, error) {
	licenses, err := readLicenses()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	root := newComponent("application", b.info.Main, "Apache-2.0")
	root.Name = "sandboxfake"
	root.PURL += "#cmd/sandboxfake"
	root.Ref = root.PURL
	root.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED"} {
		root.Properties = append(root.Properties, property{"cdx:gomod:build:env:" + key, b.setting(key)})
	}
	std := debug.Module{Path: "std", Version: strings.TrimPrefix(b.info.GoVersion, "go")}
	components := []component{newComponent("library", std, "BSD-3-Clause")}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced", m.Path)
		}
		if licenses[m.Path] == "" {
			return nil, fmt.Errorf("%s has no row for module %s", licensesFile, m.Path)
		}
		components = append(components, newComponent("library", *m, licenses[m.Path]))
	}
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	dependencies := []dependency{{Ref: root.Ref}}
	for _, c := range components {
		dependencies[0].DependsOn = append(dependencies[0].DependsOn, c.Ref)
	}
	text, err := json.MarshalIndent(bom{
		Schema:       "http://cyclonedx.org/schema/bom-1.6.schema.json",
		Format:       "CycloneDX",
		SpecVersion:  "1.6",
		SerialNumber: serialNumber(sum),
		Version:      1,
		Metadata:     metadata{b.committed.UTC().Format(time.RFC3339), root},
		Components:   components,
		Dependencies: dependencies,
	}, "", "  ")
	return append(text, '\n'), err
}

// newComponent returns the component of a module.
func newComponent(kind string, m debug.Module, licenseID string) component {
	purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl, Licenses: make([]license, 1)}
	c.Licenses[0].License.ID = licenseID
	if m.Sum != "" {
		c.Properties = []property{{"go.sum", m.Sum}}
	}
	return c
}

// serialNumber returns a UUID of version 8 that depends on the binary only.
func serialNumber(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// licenseRow matches a module and its SPDX license ID in the table of licensesFile.
var licenseRow = regexp.MustCompile(`(?m)^\| ([a-z]\S*) \| (\S+) \|$`)

// readLicenses returns the SPDX license IDs of the modules in licensesFile.
func readLicenses() (map[string]string, error) {
	text, err := os.ReadFile(licensesFile)
	if err != nil {
		return nil, err
	}
	licenses := make(map[string]string)
	for _, row := range licenseRow.FindAllStringSubmatch(string(text), -1) {
		licenses[row[1]] = row[2]
	}
	return licenses, nil
}
