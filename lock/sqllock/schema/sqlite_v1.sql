-- The locks of retrysafe on SQLite, schema version 1. Times are microseconds since the Unix epoch.
CREATE TABLE IF NOT EXISTS "retrysafe_locks" (
  name  BLOB    NOT NULL PRIMARY KEY,
  owner BLOB    NOT NULL, -- empty: released
  fence INTEGER NOT NULL, -- grows with each owner
  until INTEGER NOT NULL  -- the end of the lease, or when it was released
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS "retrysafe_locks_until" ON "retrysafe_locks" (until); -- what is old
