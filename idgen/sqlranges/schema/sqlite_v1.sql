-- Ranges of ids of retrysafe on SQLite, in the layout of Leaf.
CREATE TABLE IF NOT EXISTS "retrysafe_ids" (
  biz_tag     TEXT    NOT NULL PRIMARY KEY,
  max_id      INTEGER NOT NULL DEFAULT 1, -- the next value that nobody was given
  step        INTEGER NOT NULL, -- how many values a range has at least
  description TEXT,
  update_time TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP -- of the last range
);
