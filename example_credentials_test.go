package idverify_test

import (
	"context"
	"fmt"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Rotates the credentials of a project while a client uses them.
func ExampleCredentialsFunc() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	console, ctx := service.Console(), context.Background()
	project := service.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox})

	// In production, the source reads a file or a secret store.
	stored := project.Credentials
	source := idverify.CredentialsFunc(func(context.Context) (idverify.Credentials, error) { return stored, nil })
	client, err := idverify.NewClient(service.URL(), source, idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		fmt.Println(err)
		return
	}
	params := idverify.SIMCheckParams{PhoneNumber: "447700900012"}
	before, err := client.SIMChecks.Create(ctx, params)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before:", before.Status)

	// Create, deploy, delete.
	issued, err := console.ProjectCredentials.Create(ctx, project.ProjectID)
	if err != nil {
		fmt.Println(err)
		return
	}
	stored = issued.Credentials
	err = console.ProjectCredentials.Delete(ctx, project.ProjectID, project.Credentials.ClientID)
	if err != nil {
		fmt.Println(err)
		return
	}

	after, err := client.SIMChecks.Create(ctx, params)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after:", after.Status)
	// Output:
	// before: COMPLETED
	// after: COMPLETED
}
