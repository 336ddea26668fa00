// Package checkflow binds a PhoneCheck to the session that started it: that of a browser ([Web]) or
// of an app ([App]).
//
// A check proves that a device with the number opened the Check URL, not who asked: see "What a
// match proves" in README.md. This package therefore uses version v0.2, in which the device gets a
// code, and exchanges the code only for the session that started the check. Only its verdict may
// sign in a person or attach a number to an account.
//
// A Web creates a check in Start, sends the browser to the Check URL, and gets it back in Return:
//
//	mux.HandleFunc("POST /start", start) // calls web.Start and redirects to the Check URL
//	mux.Handle("/return", web.Return(report))
//
// An App returns the Check URL to the app in Start. The app opens it and passes the code to
// Exchange.
//
// A [Store] contains a [Flow] for each check. A Flow is started, claimed when its owner returns,
// done after the exchange, or revoked if another browser returns first. Callbacks do not change a
// Flow. If anything fails, there is no verdict, and the person starts again.
//
// docs/security.md lists the states, the attacks and the rules.
package checkflow
