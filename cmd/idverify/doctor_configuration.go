package main

import (
	"context"
	"encoding/pem"
	"os"
	"strings"
)

// configurationChecks returns the checks of the environment variables.
func (d *doctorRun) configurationChecks() []doctorCheck {
	return []doctorCheck{
		{name: "config-base-url", run: d.checkBaseURL},
		{name: "config-credentials", run: d.checkCredentials},
		{name: "config-ca-file", run: d.checkCAFile},
	}
}

func (d *doctorRun) checkBaseURL(context.Context) diagnosis {
	if d.getenv(baseURLVariable) == "" {
		return sick("missing", "%s is not set", baseURLVariable)
	}
	baseURL, err := d.baseURL()
	if err != nil {
		return sick("invalid", "%v", err)
	}
	return healthy("%s", strings.TrimSuffix(baseURL, "/"))
}

func (d *doctorRun) checkCredentials(context.Context) diagnosis {
	file := d.getenv(credentialsFileVariable)
	id, secret := d.getenv(clientIDVariable) != "", d.getenv(clientSecretVariable) != ""
	switch {
	case file == "" && id != secret:
		name := clientIDVariable
		if id {
			name = clientSecretVariable
		}
		return sick("missing", "%s is not set", name)
	case file == "" && !id && !secret:
		return sick("missing", "neither %s and %s nor %s is set", clientIDVariable, clientSecretVariable, credentialsFileVariable)
	case file != "" && (id || secret):
		return sick("ambiguous", "both %s and %s or %s are set", credentialsFileVariable, clientIDVariable, clientSecretVariable)
	}
	credentials, err := d.program.credentials()
	if err != nil {
		return sick("invalid", "%v", err)
	}
	d.secrets = append(d.secrets, credentials.ClientSecret.Reveal())
	if file == "" {
		return healthy("client ID and secret in the environment")
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return sick("readable", "the credentials file has the permissions %#o", info.Mode().Perm())
	}
	return healthy("client ID and secret in a file")
}

func (d *doctorRun) checkCAFile(context.Context) diagnosis {
	path := d.getenv(caFileVariable)
	if path == "" {
		return healthy("not set: the certificates of the system are used")
	}
	if _, err := d.httpClient(); err != nil {
		return sick("invalid", "%v", err)
	}
	text, _ := readFile(caFileVariable, path)
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		n++
	}
	return healthy("%s, in addition to those of the system", plural(n, "certificate"))
}
