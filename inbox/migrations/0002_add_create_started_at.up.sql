-- The create methods of Inbox set create_started_at before they create a check, so that no other
-- call creates a second one. It is NULL until then.
ALTER TABLE idverify_checks ADD COLUMN create_started_at bigint;

-- The status of a check that was not found is now LOST.
UPDATE idverify_checks SET status = 'LOST' WHERE status = 'UNKNOWN';

INSERT INTO idverify_schema (version) VALUES (2);
