-- Ranges of ids of retrysafe on MySQL and MariaDB, in the layout of Leaf.
CREATE TABLE IF NOT EXISTS `retrysafe_ids` (
  biz_tag     VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  max_id      BIGINT       NOT NULL DEFAULT 1, -- the next value that nobody was given
  step        BIGINT       NOT NULL, -- how many values a range has at least
  description VARCHAR(256),
  update_time TIMESTAMP    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP -- of the last range
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
