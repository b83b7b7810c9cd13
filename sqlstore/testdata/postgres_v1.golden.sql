-- Records of retrysafe on PostgreSQL, schema version 1. Times and spans are microseconds, points since the Unix epoch. All text is bytea:
-- no collation and no encoding of a database changes it.
CREATE TABLE "retrysafe_records" (
  id            bytea    NOT NULL PRIMARY KEY CHECK (length(id) = 32), -- SHA-256 of the key's text
  namespace     bytea    NOT NULL,
  layer         bytea    NOT NULL,
  tenant        bytea    NOT NULL,
  operation     bytea    NOT NULL,
  key_id        bytea    NOT NULL,
  state         smallint NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  attempt       bigint   NOT NULL,
  fence         bigint   NOT NULL,
  owner         bytea    NOT NULL CHECK (length(owner) = 16),
  on_doubt      smallint NOT NULL CHECK (on_doubt BETWEEN 1 AND 2), -- refuse, re-execute
  issued        smallint NOT NULL CHECK (issued BETWEEN 0 AND 1),
  fingerprint   bytea,
  binding       bytea,
  lease_end     bigint   NOT NULL, -- 0: not in progress, or given up
  expires       bigint   NOT NULL, -- 0: never
  created       bigint   NOT NULL,
  updated       bigint   NOT NULL,
  not_after     bigint   NOT NULL,
  retention     bigint   NOT NULL,
  cause         bytea    NOT NULL,
  last_error    bytea    NOT NULL,
  worked        bytea, -- earlier attempts that may have worked; docs/formats.md
  answer_codec  bytea    NOT NULL,
  answer_kept   smallint NOT NULL CHECK (answer_kept BETWEEN 0 AND 1),
  answer_size   bigint   NOT NULL,
  answer_digest bytea,
  answer        bytea
);

-- What a sweep removes.
CREATE INDEX "retrysafe_records_expires" ON "retrysafe_records" (expires) WHERE expires <> 0;

-- What people list.
CREATE INDEX "retrysafe_records_parts" ON "retrysafe_records" (namespace, layer, tenant, operation, id);

-- What runs or is in doubt: few, and asked for most. The lease is left out, so that a heartbeat changes no index.
CREATE INDEX "retrysafe_records_in_progress" ON "retrysafe_records" (id) WHERE state = 2;

-- What is counted of tenants that have limits.
CREATE TABLE "retrysafe_records_limits" (
  id        bytea  NOT NULL PRIMARY KEY CHECK (length(id) = 32), -- SHA-256 of the name of the counts
  namespace bytea  NOT NULL,
  tenant    bytea  NOT NULL,
  expires   bigint NOT NULL, -- when nothing counts any more
  counts    bytea  NOT NULL -- packed counts
);

-- What a sweep removes.
CREATE INDEX "retrysafe_records_limits_expires" ON "retrysafe_records_limits" (expires);

-- One row: the version of this schema, and the largest fence of a record that was removed.
CREATE TABLE "retrysafe_records_meta" (
  id          integer NOT NULL PRIMARY KEY CHECK (id = 1),
  version     integer NOT NULL,
  fence_floor bigint  NOT NULL
);

INSERT INTO "retrysafe_records_meta" (id, version, fence_floor) VALUES (1, 1, 0);
