"""Verifies callbacks and redirects of the service with the package cryptography."""
import base64, hashlib, hmac, json, os, re, threading, time, urllib.parse, urllib.request
from email.utils import parsedate_to_datetime
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

HOSTS = os.environ['HOSTS'].split(',')
KIND = os.environ.get('CALLBACK_HEADER', 'x-service-callback')
CALLBACK = ['(request-target)', 'host', 'date', KIND, 'digest']
REDIRECT = ['(request-target)', 'host', 'date']
SKEW = 5  # seconds
REFETCH = 1  # seconds between two fetches of the key set for unknown key IDs

class VerificationError(Exception):
    """Has the status of the response: 400 if the message is invalid, 503 if it cannot be verified now."""
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status

def check(condition, message):
    if not condition: raise VerificationError(400, message)

class Keys:
    """The key set of the service."""
    def __init__(self, url):
        self.url, self.keys, self.fetched, self.lock = url, {}, 0, threading.Lock()

    def fetch(self):
        number = lambda text: int.from_bytes(base64.urlsafe_b64decode(text + '=='), 'big')
        with urllib.request.urlopen(self.url, timeout=3) as response:
            self.keys = {key['kid']: rsa.RSAPublicNumbers(number(key['e']), number(key['n'])).public_key()
                         for key in json.load(response)['keys'] if key['kty'] == 'RSA'}
        self.fetched = time.monotonic()

    def get(self, key_id):
        """Returns a public key. Fetches the key set if that does not contain the key."""
        with self.lock:
            if key_id in self.keys: return self.keys[key_id]
            if self.fetched and time.monotonic() - self.fetched < REFETCH:
                raise VerificationError(503, 'the key may be new')
            try:
                self.fetch()
            except Exception as error:
                raise VerificationError(503, f'the key set is unavailable: {error}') from None
            check(key_id in self.keys, 'the key ID is not in the key set')
            return self.keys[key_id]

keys = Keys(os.environ['JWKS_URL'])

def verify(authorization, covered, values):
    """Verifies a signature that covers the values and returns its bytes."""
    parts = dict(re.findall(r'([a-zA-Z]+)="([^"]*)"', authorization.removeprefix('Signature ')))
    check(authorization.startswith('Signature '), 'the authorization is not a signature')
    check(parts.get('algorithm') == 'rsa-sha256', 'the algorithm is not rsa-sha256')
    check(parts.get('headers', '').split(' ') == covered, 'the signature does not cover the required headers')
    check(values['host'] in HOSTS, 'the message is for another host')
    try:
        date = parsedate_to_datetime(values['date']).timestamp()
        signature = base64.b64decode(parts.get('signature', ''), validate=True)
    except ValueError:
        raise VerificationError(400, 'date or signature is malformed') from None
    check(abs(time.time() - date) <= SKEW, 'the date differs from the clock')
    key = keys.get(parts.get('keyId'))
    text = '\n'.join(f'{name}: {values[name]}' for name in covered)
    try:
        key.verify(signature, text.encode('latin-1'), padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, UnicodeEncodeError):
        raise VerificationError(400, 'the signature does not verify') from None
    return signature

def verify_callback(method, target, header, body):
    """Verifies a callback and returns its product, its payload and its signature. header returns the
    values of a header."""
    check(method == 'POST', 'the method is not POST')
    values = {'(request-target)': f'post {target}'}
    for name in ['authorization', 'host', 'date', KIND, 'digest']:
        found = header(name)
        check(len(found) == 1, f'the header {name} does not occur exactly once')
        values[name] = found[0]
    signature = verify(values['authorization'], CALLBACK, values)
    digest = 'SHA-256=' + hashlib.sha256(body).hexdigest()
    check(hmac.compare_digest(digest.encode(), values['digest'].encode()), 'the digest does not match the body')
    try:
        return values[KIND], json.loads(body), signature
    except ValueError:
        raise VerificationError(400, 'the body is not JSON') from None

def verify_redirect(method, target, header):
    """Verifies a redirect and returns its parameters."""
    check(method == 'GET', 'the method is not GET')
    path, _, query = target.partition('?')
    segments = query.split('&')
    # The order and the escapes of the other parameters are signed.
    signed = '&'.join(s for s in segments if s.split('=')[0] not in ('authorization', 'date'))
    parameters = urllib.parse.parse_qs(query, keep_blank_values=True)
    try:
        authorization, date = (base64.b64decode(only(parameters, name), validate=True).decode('ascii') for name in ('authorization', 'date'))
    except ValueError:
        raise VerificationError(400, 'the redirect is not signed') from None
    host = header('host')
    check(len(host) == 1, 'the header host does not occur exactly once')
    verify(authorization, REDIRECT, {'(request-target)': f'get {path}?{signed}', 'host': host[0], 'date': date})
    return {'check_id': only(parameters, 'check_id')}

def only(parameters, name):
    values = parameters.get(name, [])
    check(len(values) == 1, f'the parameter {name} does not occur exactly once')
    return values[0]
