-- One row for each flow of package checkflow, until it expires: see Inbox.Flows. Times are
-- microseconds since 1970-01-01 UTC.
CREATE TABLE idverify_flows (
    check_id        text PRIMARY KEY,
    owner           bytea NOT NULL,    -- SHA-256 of the token of the session that started the check
    state           text NOT NULL,     -- started, claimed, done or revoked
    phone_number    text NOT NULL,
    account         bytea NOT NULL,
    data            bytea NOT NULL,    -- of the caller of Start
    expires_at      bigint NOT NULL
);

CREATE INDEX idverify_flows_expires ON idverify_flows (expires_at);

INSERT INTO idverify_schema (version) VALUES (3);
