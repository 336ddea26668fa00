package sandboxfake

import "net/http"

// Serve answers a request as from the remote address that it names, which a test cannot choose over a connection.
func Serve(s *Server, w http.ResponseWriter, r *http.Request) { s.serve(w, r) }
