-- Records of retrysafe on MySQL and MariaDB, schema version 1. Times are microseconds since the Unix
-- epoch. All text is binary: no collation and no character set changes it. Each statement may be
-- run again.
CREATE TABLE IF NOT EXISTS `retrysafe_records` (
  id        BINARY(16)      NOT NULL PRIMARY KEY, -- half of the SHA-256 of the key's text
  parts     VARBINARY(2570) NOT NULL, -- namespace, layer, tenant, operation and id of the key; docs/formats.md
  state     TINYINT         NOT NULL CHECK (state BETWEEN 1 AND 5), -- issued, in progress, completed, failed, released
  owner     BINARY(16)      NOT NULL,
  fence     BIGINT          NOT NULL,
  lease_end BIGINT          NOT NULL, -- 0: not in progress, or given up
  expires   BIGINT          NOT NULL, -- 0: never
  updated   BIGINT          NOT NULL,
  data      BLOB            NOT NULL, -- the other fields, packed; docs/formats.md
  answer    LONGBLOB,
  KEY expires (expires), -- records that a sweep removes
  KEY state (state) -- records that are unfinished or in doubt, by id; a heartbeat does not change it
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Counts of tenants that have limits.
CREATE TABLE IF NOT EXISTS `retrysafe_records_limits` (
  id        BINARY(16)     NOT NULL PRIMARY KEY, -- half of the SHA-256 of the counts' name
  namespace VARBINARY(512) NOT NULL,
  tenant    VARBINARY(512) NOT NULL,
  expires   BIGINT         NOT NULL, -- when all counts are over
  counts    LONGBLOB       NOT NULL, -- packed counts
  KEY expires (expires) -- counts that a sweep removes
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row: the version of this schema, and the largest fence of a removed record.
CREATE TABLE IF NOT EXISTS `retrysafe_records_meta` (
  id          INT    NOT NULL PRIMARY KEY CHECK (id = 1),
  version     INT    NOT NULL,
  fence_floor BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `retrysafe_records_meta` (id, version, fence_floor) VALUES (1, 1, 0) ON DUPLICATE KEY UPDATE id = 1;
