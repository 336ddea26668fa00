"""A backend that receives callbacks and redirects with http.server."""
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import store
from verify import VerificationError, verify_callback, verify_redirect

LIMIT = 64 * 1024  # bytes of a body

class Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds without a byte

    def header(self, name): return self.headers.get_all(name, [])

    def body(self):
        length = int(self.headers.get('content-length', 0))
        if length > LIMIT: raise VerificationError(413, 'the body is too long')
        return self.rfile.read(length)

    def callback(self):
        product, payload, signature = verify_callback(self.command, self.path, self.header, self.body())
        if not store.first(signature): raise VerificationError(400, 'the message was already accepted')
        store.record(product, payload)
        self.respond(204)

    def redirect(self):
        parameters = verify_redirect(self.command, self.path, self.header)
        own = store.sign_in(self.headers.get('cookie'), parameters)
        self.respond(303 if own else 403, location='/')

    def probe(self):
        query = urllib.parse.urlsplit(self.path).query
        status, body = store.probe(self.command, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        self.respond(status, body.encode())

    def respond(self, status, body=b'', location=None):
        self.send_response(status)
        if location: self.send_header('Location', location)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self):
        try:
            name = self.path.partition('?')[0].split('/')[1]
            route = {'callbacks': self.callback, 'redirect': self.redirect, 'probe': self.probe}.get(name)
            if not route: return self.respond(404)
            route()
        except VerificationError as error:
            self.respond(error.status)
        except OSError:  # TimeoutError, or the client is gone
            self.respond(503)

    do_GET = do_POST = do_PUT = do_HEAD = handle_request
    log_message = lambda *_: None

server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(f'http://127.0.0.1:{server.server_port}', flush=True)
server.serve_forever()
