package sandboxfake_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// The server runs behind a tunnel that forwards https://sandbox.example.com to it.
func ExampleWithPublicURL() {
	srv, err := sandboxfake.Start(sandboxfake.WithFreshKeys(), sandboxfake.WithPublicURL("https://sandbox.example.com"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	check, err := srv.Client().PhoneChecks.Create(context.Background(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	fmt.Println(strings.HasPrefix(check.CheckURL, "https://sandbox.example.com/"), err)
	// Output: true <nil>
}

// The certificate is valid for sandbox.example.com.
func ExampleWithCertificate() {
	certificate, err := tls.LoadX509KeyPair("sandbox.pem", "sandbox-key.pem")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := sandboxfake.Start(sandboxfake.WithAddr(":8443"), sandboxfake.WithPublicURL("https://sandbox.example.com:8443"), sandboxfake.WithCertificate(certificate))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Println(srv.PublicURL())
}
