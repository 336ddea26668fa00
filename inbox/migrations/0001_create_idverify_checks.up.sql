-- One row for each check: the record of the check, and its place in the inbox until the result is
-- processed. Times are microseconds since 1970-01-01 UTC. Booleans are 0 or 1.
CREATE TABLE idverify_checks (
    reference       text PRIMARY KEY,  -- ReferenceID of the check, unique for each Create
    product         text NOT NULL,
    planned_at      bigint NOT NULL,

    check_id        text UNIQUE,       -- NULL until Create has returned
    reconcile_at    bigint,            -- when to read the check next; NULL when it has ended
    give_up_at      bigint NOT NULL,   -- after this time, a check that is not found has ended as UNKNOWN

    status          text,              -- COMPLETED, EXPIRED, ERROR or UNKNOWN; NULL until the check has ended
    is_match        smallint,
    no_sim_change   smallint,
    network_id      text NOT NULL DEFAULT '',
    error_code      text NOT NULL DEFAULT '',
    charge_amount   text NOT NULL DEFAULT '',
    charge_currency text NOT NULL DEFAULT '',
    source          text NOT NULL DEFAULT '', -- callback, record or reconcile
    ended_at        bigint,            -- when the result was stored

    due_at          bigint,            -- when to process the result next; NULL if there is nothing to do
    attempts        integer NOT NULL DEFAULT 0,
    done_at         bigint,            -- when the result was processed
    stopped_at      bigint             -- when the last attempt to process it failed
);

CREATE INDEX idverify_checks_reconcile ON idverify_checks (product, reconcile_at) WHERE reconcile_at IS NOT NULL;
CREATE INDEX idverify_checks_due ON idverify_checks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idverify_checks_done ON idverify_checks (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX idverify_checks_stopped ON idverify_checks (stopped_at) WHERE stopped_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS idverify_schema (version integer NOT NULL);
INSERT INTO idverify_schema (version) VALUES (1);
