-- The outbox of retrysafe on MySQL and MariaDB, schema version 1. Times are microseconds since the Unix epoch. All text is binary: no collation
-- and no character set changes it. Each statement may be run again.
CREATE TABLE IF NOT EXISTS `retrysafe_outbox` (
  seq          BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY, -- the order of a key
  id           VARBINARY(128) NOT NULL, -- the broker's deduplication id
  part         SMALLINT       NOT NULL, -- the partition of the key
  key_hash     BINARY(16)     NOT NULL, -- of a message without a key: of its id
  state        TINYINT        NOT NULL CHECK (state BETWEEN 0 AND 2), -- pending, dead, published
  due          BIGINT         NOT NULL, -- not before; 0 until it has failed
  attempts     INT            NOT NULL, -- that have failed
  created      BIGINT         NOT NULL,
  changed      BIGINT         NOT NULL, -- when it came into its state, or failed last
  topic        VARBINARY(255) NOT NULL,
  msg_key      VARBINARY(512) NOT NULL,
  content_type VARBINARY(255) NOT NULL,
  headers      BLOB           NOT NULL, -- JSON
  last_error   BLOB           NOT NULL,
  payload      LONGBLOB       NOT NULL,
  failed       TINYINT GENERATED ALWAYS AS (due > 0 AND state < 2) STORED, -- holds up its key, or has done so
  UNIQUE KEY id (id),
  KEY pending (state, part, seq), -- what a relay reads
  KEY failed (key_hash, failed, seq), -- what holds up a key: few
  KEY past (state, changed) -- what is kept after it was published, and what is dead
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Relays that live.
CREATE TABLE IF NOT EXISTS `retrysafe_outbox_relays` (
  owner     BINARY(16) NOT NULL PRIMARY KEY,
  lease_end BIGINT     NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Who publishes which partition. A partition whose owner is no relay that lives is free.
CREATE TABLE IF NOT EXISTS `retrysafe_outbox_parts` (
  part  SMALLINT      NOT NULL PRIMARY KEY,
  owner VARBINARY(16) NOT NULL,
  fence BIGINT        NOT NULL -- grows with each change of the owner
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row: the version of this schema.
CREATE TABLE IF NOT EXISTS `retrysafe_outbox_meta` (
  id      INT NOT NULL PRIMARY KEY CHECK (id = 1),
  version INT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT INTO `retrysafe_outbox_parts` (part, owner, fence) VALUES
  (0, '', 0), (1, '', 0), (2, '', 0), (3, '', 0), (4, '', 0), (5, '', 0), (6, '', 0), (7, '', 0),
  (8, '', 0), (9, '', 0), (10, '', 0), (11, '', 0), (12, '', 0), (13, '', 0), (14, '', 0), (15, '', 0),
  (16, '', 0), (17, '', 0), (18, '', 0), (19, '', 0), (20, '', 0), (21, '', 0), (22, '', 0), (23, '', 0),
  (24, '', 0), (25, '', 0), (26, '', 0), (27, '', 0), (28, '', 0), (29, '', 0), (30, '', 0), (31, '', 0)
  ON DUPLICATE KEY UPDATE fence = fence;

INSERT INTO `retrysafe_outbox_meta` (id, version) VALUES (1, 1) ON DUPLICATE KEY UPDATE id = 1;
