-- Ranges of ids of retrysafe on PostgreSQL, in the layout of Leaf.
CREATE TABLE IF NOT EXISTS "retrysafe_ids" (
  biz_tag     varchar(128) COLLATE "C" NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1, -- the next value that nobody was given
  step        bigint       NOT NULL, -- how many values a range has at least
  description varchar(256),
  update_time timestamptz  NOT NULL DEFAULT now() -- of the last range
);
