-- The locks of retrysafe on MySQL and MariaDB, schema version 1. Times are microseconds since the Unix epoch.
CREATE TABLE IF NOT EXISTS `retrysafe_locks` (
  name    VARBINARY(200) NOT NULL PRIMARY KEY,
  owner   VARBINARY(16)  NOT NULL, -- empty: released
  fence   BIGINT         NOT NULL, -- grows with each owner
  `until` BIGINT         NOT NULL, -- the end of the lease, or when it was released
  KEY past (`until`) -- what is old
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
