-- The locks of retrysafe on PostgreSQL, schema version 1. Times are microseconds since the Unix epoch.
CREATE TABLE IF NOT EXISTS "retrysafe_locks" (
  name  BYTEA  NOT NULL PRIMARY KEY,
  owner BYTEA  NOT NULL, -- empty: released
  fence BIGINT NOT NULL, -- grows with each owner
  until BIGINT NOT NULL  -- the end of the lease, or when it was released
);
CREATE INDEX IF NOT EXISTS "retrysafe_locks_until" ON "retrysafe_locks" (until); -- what is old
