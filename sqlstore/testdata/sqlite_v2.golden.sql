-- From schema version 1 to 2: what is counted of tenants that have limits. Points of time are microseconds since the Unix epoch.
CREATE TABLE "retrysafe_records_limits" (
  id        BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32), -- SHA-256 of the name of the counts
  namespace BLOB    NOT NULL,
  tenant    BLOB    NOT NULL,
  expires   INTEGER NOT NULL, -- when nothing counts any more
  counts    BLOB    NOT NULL -- packed counts
) STRICT;

-- What a sweep removes.
CREATE INDEX "retrysafe_records_limits_expires" ON "retrysafe_records_limits" (expires);

UPDATE "retrysafe_records_meta" SET version = 2 WHERE id = 1;
