-- Records of retrysafe on SQLite, schema version 1. Times are microseconds since the Unix epoch.
-- The answer is the last column, since what follows a long value is slow to reach.
CREATE TABLE "retrysafe_records" (
  id        BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16), -- half of the SHA-256 of the key's text
  parts     BLOB    NOT NULL, -- namespace, layer, tenant, operation and id of the key; docs/formats.md
  state     INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  owner     BLOB    NOT NULL CHECK (length(owner) = 16),
  fence     INTEGER NOT NULL,
  lease_end INTEGER NOT NULL, -- 0: not in progress, or given up
  expires   INTEGER NOT NULL, -- 0: never
  updated   INTEGER NOT NULL,
  data      BLOB    NOT NULL, -- the other fields, packed; docs/formats.md
  answer    BLOB
) STRICT;

-- Records that a sweep removes.
CREATE INDEX "retrysafe_records_expires" ON "retrysafe_records" (expires) WHERE expires <> 0;

-- Records that are unfinished or in doubt: few, and looked for most.
CREATE INDEX "retrysafe_records_unfinished" ON "retrysafe_records" (id) WHERE state IN (2, 5);

-- Counts of tenants that have limits.
CREATE TABLE "retrysafe_records_limits" (
  id        BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16), -- half of the SHA-256 of the counts' name
  namespace BLOB    NOT NULL,
  tenant    BLOB    NOT NULL,
  expires   INTEGER NOT NULL, -- when all counts are over
  counts    BLOB    NOT NULL -- packed counts
) STRICT;

-- Counts that a sweep removes.
CREATE INDEX "retrysafe_records_limits_expires" ON "retrysafe_records_limits" (expires);

-- One row: the version of this schema, and the largest fence of a removed record.
CREATE TABLE "retrysafe_records_meta" (
  id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  version     INTEGER NOT NULL,
  fence_floor INTEGER NOT NULL
) STRICT;

INSERT INTO "retrysafe_records_meta" (id, version, fence_floor) VALUES (1, 1, 0);
