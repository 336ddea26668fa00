"""Receives callbacks on port 3000 and verifies them. Requires the package cryptography: python3 receiver.py"""
import base64, calendar, hashlib, hmac, json, os, re, ssl, threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

TLS = ssl.create_default_context(cafile="__CA_FILE__")  # the CA certificate of this sandbox
HOSTS = {'localhost', '127.0.0.1'}  # the hosts of your callback URLs; messages for other hosts are not for you
COVERED = ['(request-target)', 'host', 'date', "__CALLBACK_HEADER__".lower(), 'digest']
SKEW = 5  # seconds
LIMIT = 64 * 1024  # bytes of a body
lock = threading.Lock()  # of seen
seen = {}  # expiry of the accepted signatures; a server should remove expired ones

def fetch_keys():
    """Returns the key set. A server should cache it for as long as Cache-Control says."""
    with urllib.request.urlopen("__JWKS_URL__", context=TLS, timeout=3) as response:
        number = lambda text: int.from_bytes(base64.urlsafe_b64decode(text + '=='), 'big')
        return {key['kid']: rsa.RSAPublicNumbers(number(key['e']), number(key['n'])).public_key() for key in json.load(response)['keys']}

def log(text):
    print(text + '\n', end='', flush=True)  # one write, so that threads do not mix their lines

def check(condition, reason):
    if not condition: raise ValueError(reason)

def verify(target, headers, body, keys):
    """Returns the product and the payload of a valid callback, or raises the reason to reject it."""
    def header(name):
        check(len(headers.get_all(name, [])) == 1, f'the header {name} does not occur exactly once')
        return headers[name]
    parts = re.fullmatch(r'Signature keyId="([^"]+)",algorithm="rsa-sha256",headers="([^"]+)",signature="([^"]+)"', header('authorization'))
    check(parts, 'the authorization is not a signature with rsa-sha256')
    check(parts[2] == ' '.join(COVERED), 'the signature does not cover exactly the required headers')
    check(re.sub(r':\d+$', '', header('host').lower()) in HOSTS, 'the message is for another host')
    date = calendar.timegm(time.strptime(header('date'), '%a, %d %b %Y %H:%M:%S GMT'))
    check(abs(time.time() - date) <= SKEW, 'the date differs from the clock')
    check(parts[1] in keys, 'the key ID is not in the key set')
    text = '\n'.join(f'{name}: ' + (f'post {target}' if name == '(request-target)' else header(name)) for name in COVERED)
    try:
        signature = base64.b64decode(parts[3], validate=True)
        keys[parts[1]].verify(signature, text.encode('latin-1'), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        raise ValueError('the signature does not verify') from None
    digest = hashlib.sha256(body)
    values = ['SHA-256=' + digest.hexdigest(), 'SHA-256=' + base64.b64encode(digest.digest()).decode()]
    check(any(hmac.compare_digest(value.encode(), header('digest').encode('latin-1')) for value in values), 'the digest does not match the body')
    with lock:
        check(seen.get(signature, 0) < time.monotonic(), 'the message was already accepted')
        seen[signature] = time.monotonic() + 2 * SKEW + 1
    return header(COVERED[3]), json.loads(body)

class Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds without a byte

    def do_POST(self):
        status = 400
        try:
            length = self.headers.get('content-length', '')
            check(re.fullmatch('[0-9]{1,9}', length), 'the content length is missing or invalid')
            body = self.rfile.read(min(int(length), 16 * LIMIT))
            status = 413
            check(len(body) <= LIMIT, 'the body is too long')
            status = 503  # the key set is unavailable
            keys = fetch_keys()
            status = 400
            product, payload = verify(self.path, self.headers, body, keys)
            check(isinstance(payload, dict) and isinstance(payload.get('status'), str), 'the payload has no status')
            match = payload.get('match') if payload['status'] == 'COMPLETED' else None  # valid only when COMPLETED
            verdict = 'yes' if match is True else 'no' if match is False else 'unknown'
            log(f'verified: {product} {payload["status"]}, match: {verdict}')
            status = 204
        except Exception as error:
            log(f'rejected: {error}')
        try:
            self.send_response(status)
            self.end_headers()
        except OSError:
            pass  # the client is gone
    log_message = lambda *_: None

server = ThreadingHTTPServer(('127.0.0.1', int(os.environ.get('PORT', 3000))), Handler)
print(f'listening on http://127.0.0.1:{server.server_port}/callbacks', flush=True)
server.serve_forever()
