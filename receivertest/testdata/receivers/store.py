"""The database of the receivers, in memory."""
import json, re, secrets, threading, time

TIMEOUT = 0.5  # seconds; less than the timeout of the service

lock = threading.Lock()  # of the variables below
checks = {}  # the checks that the backend created: product by check ID
results = {}  # number of effects by check ID
sessions = {}  # check ID by cookie
accepted = set()  # signatures of accepted messages; a server should remove them when their date has expired
slow = False

def ready():
    """Waits for the database, or raises an error."""
    if slow:
        time.sleep(TIMEOUT)
        raise TimeoutError('the database is unavailable')

def act(check_id): results[check_id] = results.get(check_id, 0) + 1

def record(product, payload):
    """Acts on the result of a check of ours, once."""
    ready()
    with lock:
        check_id = payload['check_id']
        if checks.get(check_id) != product: return
        if check_id in results: return
        act(check_id)

def first(signature):
    """Reports whether a message is accepted for the first time."""
    with lock:
        if signature in accepted: return False
        accepted.add(signature)
        return True

def sign_in(cookie, parameters):
    """Signs the browser in with the code of a redirect, and reports whether its session started the check."""
    ready()
    with lock:
        check_id = parameters['check_id']
        session = re.search(r'(?:^|; )session=([^;]+)', cookie or '')
        if not session or sessions.get(session[1]) != check_id: return False
        if check_id not in results: act(check_id)  # the code works once
        return True

def probe(method, query):
    """Serves the probe of an examination and returns the status and the body of the response. query
    contains the parameters."""
    global slow
    check_id = query.get('check_id')
    with lock:
        if method == 'GET' and check_id: return 200, str(results.get(check_id, 0))
        if method == 'PUT' and check_id:
            checks[check_id] = query['product']
            return 204, ''
        if method == 'POST' and 'store' in query:
            slow = query['store'] == 'slow'
            return 204, ''
        if method == 'POST' and 'session' in query:
            check_id, session = secrets.token_hex(16), secrets.token_hex(16)
            sessions[session] = check_id
            return 200, json.dumps({'check_id': check_id, 'header': {'Cookie': f'session={session}'}})
    return 405, ''
