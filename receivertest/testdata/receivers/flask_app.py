"""A backend that receives callbacks and redirects with Flask. It has no list of accepted messages: it
acts on each check once."""
import logging
from flask import Flask, redirect, request
from werkzeug.serving import make_server
import store
from verify import VerificationError, verify_callback, verify_redirect

LIMIT = 64 * 1024  # bytes of a body
app = Flask(__name__)

def target(): return request.environ['REQUEST_URI']  # as sent, other than request.full_path

def body():
    # In Werkzeug before 2.3, MAX_CONTENT_LENGTH limits only forms.
    if request.content_length is None or request.content_length > LIMIT: raise VerificationError(413, 'the body is too long')
    return request.get_data()

@app.post('/callbacks/<shop>')
def callbacks(shop):
    product, payload, _ = verify_callback(request.method, target(), request.headers.getlist, body())
    store.record(product, payload)
    return '', 204

@app.get('/redirect/<shop>')
def redirected(shop):
    parameters = verify_redirect(request.method, target(), request.headers.getlist)
    if not store.sign_in(request.headers.get('cookie'), parameters): return '', 403
    return redirect('/', 303)

@app.route('/probe', methods=['GET', 'PUT', 'POST'])
def probe():
    status, body = store.probe(request.method, request.args)
    return body, status

@app.errorhandler(VerificationError)
def rejected(error): return '', error.status

@app.errorhandler(TimeoutError)
def unavailable(_): return '', 503

logging.getLogger('werkzeug').setLevel(logging.ERROR)
server = make_server('127.0.0.1', 0, app, threaded=True)
print(f'http://127.0.0.1:{server.server_port}', flush=True)
server.serve_forever()
