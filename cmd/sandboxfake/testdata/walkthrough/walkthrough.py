"""A complete PhoneCheck in Python 3.9 or later: get a token, create a check, open its Check URL, verify the callback and the redirect, exchange the code.

It verifies signatures with the package cryptography, and calls the service with requests.

  go run ./cmd/sandboxfake -json > sandbox.json
  REQUESTS_CA_BUNDLE=<ca_file from sandbox.json> python3 walkthrough.py sandbox.json
"""
import base64
import dataclasses
import hashlib
import hmac
import json
import queue
import re
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import requests
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

# What a signature must cover, and the clock skew in seconds.
CALLBACK = {'(request-target)', 'host', 'date', 'x-service-callback', 'digest'}
REDIRECT = {'(request-target)', 'host', 'date'}
CLOCK_SKEW = 5


class Rejected(Exception):
    """The message is invalid: respond with 400."""


def public_keys():
    """Returns the service's public keys by key ID. A server should cache them for as long as Cache-Control says."""
    def number(text):
        return int.from_bytes(base64.urlsafe_b64decode(text + '=='), 'big')
    keys = call('GET', '/.well-known/jwks.json')['keys']
    return {key['kid']: rsa.RSAPublicNumbers(number(key['e']), number(key['n'])).public_key() for key in keys}


@dataclasses.dataclass
class Message:
    method: str
    target: str  # path and query, unchanged
    headers: dict  # lists of values by name in lower case
    authorization: str
    body: bytes = b''


def verify(keys, hosts, message, covered):
    """Returns the signature. Raises Rejected unless the message is for one of hosts, recent, signed by a key of the set, and fully covered by the signature."""
    scheme, _, rest = message.authorization.partition(' ')
    pairs = re.findall(r'(\w+)="([^"]*)"', rest)
    parameters = dict(pairs)
    if scheme.lower() != 'signature' or len(parameters) != len(pairs) or parameters.get('algorithm') != 'rsa-sha256':
        raise Rejected('the authorization is not a signature with rsa-sha256')
    names = parameters.get('headers', '').split(' ')
    if len(set(names)) != len(names) or not covered <= set(names):
        raise Rejected('the signature does not cover all required headers')
    lines = []
    for name in names:
        values = [f'{message.method.lower()} {message.target}'] if name == '(request-target)' else message.headers.get(name, [])
        if len(values) != 1:
            raise Rejected('a signed header does not occur exactly once')
        lines.append(f'{name}: {values[0]}')
    if message.headers['host'][0].lower() not in hosts:  # all customers of the service get messages with the same keys
        raise Rejected('the message is for another host')
    try:
        date = datetime.strptime(message.headers['date'][0], '%a, %d %b %Y %H:%M:%S GMT').replace(tzinfo=timezone.utc)
        signature = base64.b64decode(parameters.get('signature', ''), validate=True)
    except ValueError:
        raise Rejected('the date or the signature is malformed') from None
    if abs(time.time() - date.timestamp()) > CLOCK_SKEW:
        raise Rejected('the date differs from the clock')
    key = keys.get(parameters.get('keyId'))
    if not key:
        raise Rejected('the key ID is not in the key set')
    try:
        key.verify(signature, '\n'.join(lines).encode('latin-1'), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        raise Rejected('the signature does not verify') from None
    return signature


def verify_digest(header, body):
    """The signature covers the digest, not the body. Without this check, anyone could change the body."""
    digest = hashlib.sha256(body)
    expected = ['SHA-256=' + digest.hexdigest(), 'SHA-256=' + base64.b64encode(digest.digest()).decode()]
    if not any(hmac.compare_digest(header.encode('latin-1'), value.encode()) for value in expected):
        raise Rejected('the digest does not match the body')


class Seen:
    """Rejects copies of accepted messages. All processes that serve the same host must share one store, such as a database."""

    def __init__(self):
        self.lock, self.expiry = threading.Lock(), {}

    def claim(self, signature):
        now = time.monotonic()
        with self.lock:
            self.expiry = {old: at for old, at in self.expiry.items() if at > now}
            if signature in self.expiry:
                raise Rejected('the message was already accepted')
            self.expiry[signature] = now + 2 * CLOCK_SKEW + 1


def verify_callback(keys, hosts, seen, message):
    signature = verify(keys, hosts, message, CALLBACK)
    verify_digest(message.headers['digest'][0], message.body)
    seen.claim(signature)
    return json.loads(message.body)


def verify_redirect(keys, hosts, seen, location):
    """Removes authorization and date from the query and leaves every other byte unchanged, because the service signs the rest."""
    url = urlsplit(location)
    taken, rest = {'authorization': [], 'date': []}, []
    for segment in url.query.split('&'):
        name, _, value = segment.partition('=')
        taken.get(name, rest).append(value if name in taken else segment)
    query = '&'.join(rest)
    try:
        (authorization,), (date,) = ([base64.b64decode(unquote(value), validate=True).decode('ascii') for value in taken[name]] for name in taken)
    except ValueError:
        raise Rejected('the authorization or the date is malformed') from None
    message = Message('GET', f'{url.path}?{query}', {'host': [url.netloc], 'date': [date]}, authorization)
    seen.claim(verify(keys, hosts, message, REDIRECT))
    return parse_qs(query)


class Receiver(HTTPServer):
    """Receives callbacks, responds to them, and puts each message with its payload, or with the reason for its rejection, into results."""

    def __init__(self, keys):
        super().__init__(('127.0.0.1', 0), Handler)
        self.keys, self.seen, self.results = keys, Seen(), queue.Queue()
        self.hosts = {f'127.0.0.1:{self.server_port}'}
        self.url = f'http://127.0.0.1:{self.server_port}/callbacks'
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        headers = {name.lower(): self.headers.get_all(name) for name in self.headers}
        body = self.rfile.read(min(int(headers.get('content-length', ['0'])[0]), 1 << 20))
        message = Message(self.command, self.path, headers, headers.get('authorization', [''])[0], body)
        try:
            result = verify_callback(self.server.keys, self.server.hosts, self.server.seen, message)
            self.send_response(204)
        except Rejected as reason:
            result = reason
            self.send_response(400)
        self.end_headers()
        self.server.results.put((message, result))

    def log_message(self, *_):
        pass


def call(method, path, status=200, token=None, **options):
    if token:
        options['headers'] = {'Authorization': f'Bearer {token}', **options.get('headers', {})}
    response = requests.request(method, sandbox['url'] + path, timeout=30, **options)
    assert response.status_code == status, response.text
    return response.json() if response.text else None


def expect_rejection(reason, verification, *arguments):
    try:
        verification(*arguments)
    except Rejected as got:
        assert str(got) == reason, f'rejected because {got}, want {reason}'
    else:
        raise AssertionError(f'accepted, want a rejection because {reason}')


def expect_rejected_copies(receiver, message):
    """Verifies changed copies of an accepted callback."""
    def copy(**headers):
        return dataclasses.replace(message, headers={**message.headers, **{name: [value] for name, value in headers.items()}})
    earlier = datetime.fromtimestamp(time.time() - 60, timezone.utc).strftime('%a, %d %b %Y %H:%M:%S GMT')
    for reason, changed in (
        ('the message was already accepted', message),
        ('the digest does not match the body', dataclasses.replace(message, body=message.body.replace(b'true', b'false'))),
        ('the signature does not cover all required headers', dataclasses.replace(message, authorization=message.authorization.replace(' digest"', '"'))),
        ('the message is for another host', copy(host='shop.example.com')),
        ('the date differs from the clock', copy(date=earlier)),
        ('the signature does not verify', dataclasses.replace(message, target='/other')),
        ('the key ID is not in the key set', dataclasses.replace(message, authorization=message.authorization.replace('keyId="', 'keyId="x'))),
    ):
        expect_rejection(reason, verify_callback, receiver.keys, receiver.hosts, receiver.seen, changed)


def main():
    keys = public_keys()
    project = sandbox['project']
    # Files make requests send the form as multipart/form-data.
    form = {'grant_type': (None, 'client_credentials'), 'scope': (None, 'phone_check')}
    token = call('POST', '/oauth2/v1/token', files=form, auth=(project['client_id'], project['client_secret']))['access_token']

    # A check whose result comes by callback. An even last digit matches.
    receiver = Receiver(keys)
    first = call('POST', '/phone_check/v0.1/checks', 201, token, json={'phone_number': '447700900012', 'callback_url': receiver.url})
    requests.get(first['_links']['check_url']['href'], timeout=30)  # the device does this over its mobile data connection
    message, payload = receiver.results.get(timeout=30)
    assert not isinstance(payload, Rejected), payload
    got = message.headers['x-service-callback'], payload['check_id'], payload['status'], payload['match']
    assert got == (['phone_check'], first['check_id'], 'COMPLETED', True), got
    print('the callback is verified: the number matches')
    expect_rejected_copies(receiver, message)
    print('changed and repeated callbacks are rejected')

    # A check whose device returns with a code. An odd last digit does not match.
    back = 'https://app.example.com/back?cart=a%2fb'
    second = call('POST', '/phone_check/v0.2/checks', 201, token, json={'phone_number': '447700900013', 'redirect_url': back})
    location = requests.get(second['_links']['check_url']['href'], allow_redirects=False, timeout=30).headers['location']
    seen = Seen()
    expect_rejection('the signature does not verify', verify_redirect, keys, {'app.example.com'}, seen, location.replace('a%2fb', 'a%2Fb'))
    query = verify_redirect(keys, {'app.example.com'}, seen, location)
    assert (query['cart'], query['check_id']) == (['a/b'], [second['check_id']]), query
    expect_rejection('the message was already accepted', verify_redirect, keys, {'app.example.com'}, seen, location)
    expect_rejection('the authorization or the date is malformed', verify_redirect, keys, {'app.example.com'}, seen, back)
    patch = json.dumps([{'op': 'add', 'path': '/code', 'value': query['code'][0]}])
    result = call('PATCH', f'/phone_check/v0.2/checks/{second["check_id"]}', 200, token, data=patch, headers={'Content-Type': 'application/json-patch+json'})
    assert (result['status'], result['match']) == ('COMPLETED', False), result
    print('the redirect is verified: the number does not match')

    # A forged callback: the fake signs it with a key that it does not publish.
    fault = {'match': {'operation': 'callback'}, 'faults': [{'wrong_key': True}]}
    call('POST', '/_sandbox/faults', 204, sandbox['control_token'], json=fault)
    third = call('POST', '/phone_check/v0.1/checks', 201, token, json={'phone_number': '447700900012', 'callback_url': receiver.url})
    requests.get(third['_links']['check_url']['href'], timeout=30)
    _, reason = receiver.results.get(timeout=30)
    assert isinstance(reason, Rejected) and str(reason) == 'the signature does not verify', reason
    deliveries = call('GET', f'/_sandbox/deliveries?wait_seconds=10&check_id={third["check_id"]}', 200, sandbox['control_token'])['deliveries']
    assert deliveries[0]['attempts'][0]['status'] == 400, deliveries
    print('the forged callback is rejected')


if __name__ == '__main__':
    with open(sys.argv[1] if len(sys.argv) > 1 else 0, encoding='utf-8') as file:
        sandbox = json.load(file)
    main()
