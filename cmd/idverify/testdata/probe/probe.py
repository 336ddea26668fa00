"""A backend with the probe of docs/tools.md."""
import logging
from flask import Flask, request
from werkzeug.serving import make_server

class backend:
    slow, created = False, {}
    def effects(id): return int(id in backend.created and not backend.slow)
    def create(id, product): backend.created[id] = product

app = Flask(__name__)

@app.route('/probe', methods=['GET', 'PUT', 'POST'])  # in test builds only
def probe():
    args = request.args
    if request.method == 'GET': return str(backend.effects(args['check_id']))
    if request.method == 'PUT': backend.create(args['check_id'], args['product'])
    elif 'store' in args: backend.slow = args['store'] == 'slow'
    else: return '', 501  # not supported
    return ''

logging.getLogger('werkzeug').setLevel(logging.ERROR)
server = make_server('127.0.0.1', 0, app)
print(f'http://127.0.0.1:{server.server_port}', flush=True)
server.serve_forever()
