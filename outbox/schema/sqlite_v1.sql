-- The outbox of retrysafe on SQLite, schema version 1. Times are microseconds since the Unix epoch.
CREATE TABLE "retrysafe_outbox" (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of a key
  id           BLOB    NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 128), -- the broker's deduplication id
  part         INTEGER NOT NULL, -- the partition of the key
  key_hash     BLOB    NOT NULL CHECK (length(key_hash) = 16), -- of a message without a key: of its id
  state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2), -- pending, dead, published
  due          INTEGER NOT NULL, -- not before; 0 until it has failed
  attempts     INTEGER NOT NULL, -- that have failed
  created      INTEGER NOT NULL,
  changed      INTEGER NOT NULL, -- when it came into its state, or failed last
  topic        BLOB    NOT NULL,
  msg_key      BLOB    NOT NULL,
  content_type BLOB    NOT NULL,
  headers      BLOB    NOT NULL, -- JSON
  last_error   BLOB    NOT NULL,
  payload      BLOB    NOT NULL
) STRICT;

-- What a relay reads.
CREATE INDEX "retrysafe_outbox_pending" ON "retrysafe_outbox" (part, seq) WHERE state = 0;

-- What holds up a key: few.
CREATE INDEX "retrysafe_outbox_failed" ON "retrysafe_outbox" (key_hash, seq) WHERE due > 0 AND state < 2;

-- What is kept after it was published, and what is dead.
CREATE INDEX "retrysafe_outbox_past" ON "retrysafe_outbox" (state, changed) WHERE state > 0;

-- Relays that live.
CREATE TABLE "retrysafe_outbox_relays" (
  owner     BLOB    NOT NULL PRIMARY KEY CHECK (length(owner) = 16),
  lease_end INTEGER NOT NULL
) STRICT;

-- Who publishes which partition. A partition whose owner is no relay that lives is free.
CREATE TABLE "retrysafe_outbox_parts" (
  part  INTEGER NOT NULL PRIMARY KEY,
  owner BLOB    NOT NULL,
  fence INTEGER NOT NULL -- grows with each change of the owner
) STRICT;

-- One row: the version of this schema.
CREATE TABLE "retrysafe_outbox_meta" (
  id      INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  version INTEGER NOT NULL
) STRICT;

INSERT INTO "retrysafe_outbox_parts" (part, owner, fence)
  WITH RECURSIVE p (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM p WHERE n < 31) SELECT n, x'', 0 FROM p;

INSERT INTO "retrysafe_outbox_meta" (id, version) VALUES (1, 1);
