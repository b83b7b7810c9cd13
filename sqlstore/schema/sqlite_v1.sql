-- Records of retrysafe on SQLite, schema version 1. Times and spans are microseconds, points since the Unix epoch.
-- The columns of a record stand in the order in which they are read; the answer is last, since what stands behind a long value is slow
-- to reach.
CREATE TABLE "retrysafe_records" (
  id            BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32), -- SHA-256 of the key's text
  namespace     BLOB    NOT NULL,
  layer         BLOB    NOT NULL,
  tenant        BLOB    NOT NULL,
  operation     BLOB    NOT NULL,
  key_id        BLOB    NOT NULL,
  state         INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  attempt       INTEGER NOT NULL,
  fence         INTEGER NOT NULL,
  owner         BLOB    NOT NULL CHECK (length(owner) = 16),
  on_doubt      INTEGER NOT NULL CHECK (on_doubt BETWEEN 1 AND 2), -- refuse, re-execute
  issued        INTEGER NOT NULL CHECK (issued BETWEEN 0 AND 1),
  fingerprint   BLOB,
  binding       BLOB,
  lease_end     INTEGER NOT NULL, -- 0: not in progress, or given up
  expires       INTEGER NOT NULL, -- 0: never
  created       INTEGER NOT NULL,
  updated       INTEGER NOT NULL,
  not_after     INTEGER NOT NULL,
  retention     INTEGER NOT NULL,
  cause         TEXT    NOT NULL,
  last_error    TEXT    NOT NULL,
  worked        BLOB, -- earlier attempts that may have worked; docs/formats.md
  answer_codec  TEXT    NOT NULL,
  answer_kept   INTEGER NOT NULL CHECK (answer_kept BETWEEN 0 AND 1),
  answer_size   INTEGER NOT NULL,
  answer_digest BLOB,
  answer        BLOB
) STRICT;

-- What a sweep removes.
CREATE INDEX "retrysafe_records_expires" ON "retrysafe_records" (expires) WHERE expires <> 0;

-- What people list.
CREATE INDEX "retrysafe_records_parts" ON "retrysafe_records" (namespace, layer, tenant, operation, id);

-- What runs or is in doubt: few, and asked for most.
CREATE INDEX "retrysafe_records_in_progress" ON "retrysafe_records" (id, lease_end) WHERE state = 2;

-- One row: the version of this schema, and the largest fence of a record that was removed.
CREATE TABLE "retrysafe_records_meta" (
  id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  version     INTEGER NOT NULL,
  fence_floor INTEGER NOT NULL
) STRICT;

INSERT INTO "retrysafe_records_meta" (id, version, fence_floor) VALUES (1, 1, 0);
