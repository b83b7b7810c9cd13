-- Records of retrysafe on PostgreSQL, schema version 1. Times are microseconds since the Unix epoch.
-- All text is bytea: no collation and no encoding of a database changes it.
CREATE TABLE "retrysafe_records" (
  lease_end bigint   NOT NULL, -- 0: not in progress, or given up
  expires   bigint   NOT NULL, -- 0: never
  updated   bigint   NOT NULL,
  fence     bigint   NOT NULL,
  state     smallint NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  id        bytea    NOT NULL PRIMARY KEY CHECK (length(id) = 16), -- half of the SHA-256 of the key's text
  owner     bytea    NOT NULL CHECK (length(owner) = 16),
  parts     bytea    NOT NULL, -- namespace, layer, tenant, operation and id of the key; docs/formats.md
  data      bytea    NOT NULL, -- the other fields, packed; docs/formats.md
  answer    bytea
);

-- Records that a sweep removes.
CREATE INDEX "retrysafe_records_expires" ON "retrysafe_records" (expires) WHERE expires <> 0;

-- Records that are unfinished or in doubt: few, and looked for most. The lease is left out, so that
-- a heartbeat changes no index.
CREATE INDEX "retrysafe_records_unfinished" ON "retrysafe_records" (id) WHERE state IN (2, 5);

-- Counts of tenants that have limits.
CREATE TABLE "retrysafe_records_limits" (
  id        bytea  NOT NULL PRIMARY KEY CHECK (length(id) = 16), -- half of the SHA-256 of the counts' name
  namespace bytea  NOT NULL,
  tenant    bytea  NOT NULL,
  expires   bigint NOT NULL, -- when all counts are over
  counts    bytea  NOT NULL -- packed counts
);

-- Counts that a sweep removes.
CREATE INDEX "retrysafe_records_limits_expires" ON "retrysafe_records_limits" (expires);

-- One row: the version of this schema, and the largest fence of a removed record.
CREATE TABLE "retrysafe_records_meta" (
  id          integer NOT NULL PRIMARY KEY CHECK (id = 1),
  version     integer NOT NULL,
  fence_floor bigint  NOT NULL
);

INSERT INTO "retrysafe_records_meta" (id, version, fence_floor) VALUES (1, 1, 0);
