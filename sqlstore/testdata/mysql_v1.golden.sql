-- Records of retrysafe on MySQL and MariaDB, schema version 1. Times and spans are microseconds, points since the Unix epoch. All text is
-- binary: no collation and no character set changes it. Each statement may be run again.
CREATE TABLE IF NOT EXISTS `retrysafe_records` (
  id            BINARY(32)     NOT NULL PRIMARY KEY, -- SHA-256 of the key's text
  namespace     VARBINARY(512) NOT NULL,
  layer         VARBINARY(512) NOT NULL,
  tenant        VARBINARY(512) NOT NULL,
  operation     VARBINARY(512) NOT NULL,
  key_id        VARBINARY(512) NOT NULL,
  state         TINYINT        NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  attempt       BIGINT         NOT NULL,
  fence         BIGINT         NOT NULL,
  owner         BINARY(16)     NOT NULL,
  on_doubt      TINYINT        NOT NULL CHECK (on_doubt BETWEEN 1 AND 2), -- refuse, re-execute
  issued        TINYINT        NOT NULL CHECK (issued BETWEEN 0 AND 1),
  fingerprint   BLOB,
  binding       BLOB,
  lease_end     BIGINT         NOT NULL, -- 0: not in progress, or given up
  expires       BIGINT         NOT NULL, -- 0: never
  created       BIGINT         NOT NULL,
  updated       BIGINT         NOT NULL,
  not_after     BIGINT         NOT NULL,
  retention     BIGINT         NOT NULL,
  cause         VARBINARY(255) NOT NULL,
  last_error    BLOB           NOT NULL,
  worked        VARBINARY(255), -- earlier attempts that may have worked; docs/formats.md
  answer_codec  BLOB           NOT NULL,
  answer_kept   TINYINT        NOT NULL CHECK (answer_kept BETWEEN 0 AND 1),
  answer_size   BIGINT         NOT NULL,
  answer_digest BINARY(32),
  answer        LONGBLOB,
  KEY expires (expires), -- what a sweep removes
  KEY parts (namespace, layer, tenant, operation, id), -- what people list
  KEY state (state) -- what runs or is in doubt, by id, which stands in every key of InnoDB; a heartbeat does not change it
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What is counted of tenants that have limits.
CREATE TABLE IF NOT EXISTS `retrysafe_records_limits` (
  id        BINARY(32)     NOT NULL PRIMARY KEY, -- SHA-256 of the name of the counts
  namespace VARBINARY(512) NOT NULL,
  tenant    VARBINARY(512) NOT NULL,
  expires   BIGINT         NOT NULL, -- when nothing counts any more
  counts    LONGBLOB       NOT NULL, -- packed counts
  KEY expires (expires) -- what a sweep removes
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row: the version of this schema, and the largest fence of a record that was removed.
CREATE TABLE IF NOT EXISTS `retrysafe_records_meta` (
  id          INT    NOT NULL PRIMARY KEY CHECK (id = 1),
  version     INT    NOT NULL,
  fence_floor BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `retrysafe_records_meta` (id, version, fence_floor) VALUES (1, 1, 0) ON DUPLICATE KEY UPDATE id = 1;
