-- The outbox of retrysafe on PostgreSQL, schema version 1. Times are microseconds since the Unix epoch. All text is bytea: no collation and no
-- encoding of a database changes it.
CREATE TABLE "retrysafe_outbox" (
  seq          bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order of a key
  id           bytea    NOT NULL CHECK (length(id) BETWEEN 1 AND 128), -- the broker's deduplication id
  part         smallint NOT NULL, -- the partition of the key
  key_hash     bytea    NOT NULL CHECK (length(key_hash) = 16), -- of a message without a key: of its id
  state        smallint NOT NULL CHECK (state BETWEEN 0 AND 2), -- pending, dead, published
  due          bigint   NOT NULL, -- not before; 0 until it has failed
  attempts     integer  NOT NULL, -- that have failed
  created      bigint   NOT NULL,
  changed      bigint   NOT NULL, -- when it came into its state, or failed last
  topic        bytea    NOT NULL,
  msg_key      bytea    NOT NULL,
  content_type bytea    NOT NULL,
  headers      bytea    NOT NULL, -- JSON
  last_error   bytea    NOT NULL,
  payload      bytea    NOT NULL,
  CONSTRAINT "retrysafe_outbox_id" UNIQUE (id)
);

-- What a relay reads.
CREATE INDEX "retrysafe_outbox_pending" ON "retrysafe_outbox" (part, seq) WHERE state = 0;

-- What comes first of a key, if its transaction has committed late.
CREATE INDEX "retrysafe_outbox_key" ON "retrysafe_outbox" (key_hash, seq) WHERE state = 0;

-- What holds up a key: few.
CREATE INDEX "retrysafe_outbox_failed" ON "retrysafe_outbox" (key_hash, seq) WHERE due > 0 AND state < 2;

-- What is kept after it was published, and what is dead.
CREATE INDEX "retrysafe_outbox_past" ON "retrysafe_outbox" (state, changed) WHERE state > 0;

-- Relays that live.
CREATE TABLE "retrysafe_outbox_relays" (
  owner     bytea  NOT NULL PRIMARY KEY CHECK (length(owner) = 16),
  lease_end bigint NOT NULL
);

-- Who publishes which partition. A partition whose owner is no relay that lives is free.
CREATE TABLE "retrysafe_outbox_parts" (
  part  smallint NOT NULL PRIMARY KEY,
  owner bytea    NOT NULL,
  fence bigint   NOT NULL -- grows with each change of the owner
);

-- One row: the version of this schema.
CREATE TABLE "retrysafe_outbox_meta" (
  id      integer NOT NULL PRIMARY KEY CHECK (id = 1),
  version integer NOT NULL
);

INSERT INTO "retrysafe_outbox_parts" (part, owner, fence) SELECT n, '', 0 FROM generate_series(0, 31) AS n;

INSERT INTO "retrysafe_outbox_meta" (id, version) VALUES (1, 1);
