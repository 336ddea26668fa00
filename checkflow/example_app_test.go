package checkflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/sandboxfake"
)

// ExampleApp signs in a person in an app. The app sends the number and opens the Check URL over
// mobile data, and sends the code in the response to the backend. With PhoneIP, a device with
// another address gets no code.
func ExampleApp() {
	service, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithPhoneIPCheck())
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	app, err := checkflow.NewApp(checkflow.Config{
		Client: service.Client(),
		Store:  checkflow.NewMemoryStore(0),
		Allow:  func(*http.Request, string) error { return nil }, // limit checks here
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		from := netip.MustParseAddrPort(r.RemoteAddr).Addr().Unmap() // behind a proxy, use its header
		check, err := app.Start(r, "", checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: r.PostFormValue("number"), PhoneIP: from}})
		if err != nil {
			http.Error(w, "Check the number, or try again later.", checkflow.StatusCode(err))
			return
		}
		json.NewEncoder(w).Encode(check)
	})
	mux.HandleFunc("POST /exchange", func(w http.ResponseWriter, r *http.Request) {
		result := app.Exchange(r, checkflow.ExchangeParams{Token: r.PostFormValue("token"), CheckID: r.PostFormValue("check_id"), Code: r.PostFormValue("code")})
		if result.Verdict != idverify.VerdictYes {
			http.Error(w, string(result.Reason), http.StatusForbidden) // the app verifies in another way
			return
		}
		fmt.Fprintln(w, "signed in:", result.PhoneNumber) // return a new login session
	})
	shop := service.Handle("shop.example.com", mux)

	phone := service.Device()
	var check checkflow.AppCheck
	if err := json.Unmarshal(post(phone, shop+"/start", url.Values{"number": {"+44 7700 900 012"}}), &check); err != nil {
		log.Fatal(err)
	}
	visit, err := phone.Open(context.Background(), check.CheckURL)
	if err != nil {
		log.Fatal(err)
	}
	var opened struct{ Code string }
	if err := json.Unmarshal(visit.Body, &opened); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", post(phone, shop+"/exchange", url.Values{"token": {check.Token}, "check_id": {check.CheckID}, "code": {opened.Code}}))
	// Output: signed in: 447700900012
}

// post sends a form as the app, and returns the body of the response.
func post(phone *sandboxfake.Device, to string, form url.Values) []byte {
	response, err := phone.Client().PostForm(to, form)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	return body
}
