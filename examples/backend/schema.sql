-- The shop's own tables. They contain the phone numbers and the addresses of devices; the tables of
-- the inbox and of River contain only references.

CREATE TABLE IF NOT EXISTS signups (
    id           text PRIMARY KEY, -- also the reference of its check
    phone_number text NOT NULL,
    status       text NOT NULL DEFAULT 'pending', -- pending, verified, rejected or failed
    created_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS sessions (
    token        bytea PRIMARY KEY, -- SHA-256 of the token of a browser or an app
    phone_number text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS signins (
    phone_number text NOT NULL,
    address      text NOT NULL, -- of the device
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS signins_phone_number ON signins (phone_number, created_at);

CREATE TABLE IF NOT EXISTS payouts (
    signup_id  text NOT NULL REFERENCES signups (id),
    id         text NOT NULL, -- from the caller, so that a repeated request changes nothing
    reference  text NOT NULL UNIQUE,
    amount     bigint NOT NULL,
    decision   text NOT NULL DEFAULT 'pending', -- pending, allowed, held or unknown
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (signup_id, id)
);

-- The audit log has one row for each processed result. The primary key makes each result take
-- effect once.
CREATE TABLE IF NOT EXISTS decisions (
    reference  text PRIMARY KEY,
    product    text NOT NULL,
    check_id   text NOT NULL,
    decision   text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now()
);
