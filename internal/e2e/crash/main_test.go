// Package crash verifies that package inbox loses nothing and does nothing twice if processes and
// the database are killed at random moments. The test starts itself as the processes of a backend.
package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/killtest"
)

// childVariable contains the config of a backend process, as JSON.
const childVariable = "IDVERIFY_CRASHTEST_BACKEND"

// config configures a backend process.
type config struct {
	Dialect      inbox.Dialect
	Source       string // data source name
	ServiceURL   string
	CA           []byte // PEM
	ClientID     string
	ClientSecret string
	CallbackURL  string
	Control      string // base URL of the test
	Concurrency  int    // sign-ups in progress
}

func TestMain(m *testing.M) {
	killtest.Main(openFlows)
	text, child := os.LookupEnv(childVariable)
	if !child {
		os.Exit(m.Run())
	}
	var c config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = runBackend(context.Background(), c)
	}
	fmt.Fprintln(os.Stderr, "backend:", err)
	os.Exit(1)
}
