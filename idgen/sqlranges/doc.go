// Package sqlranges keeps the ranges of idgen.Segment in a table of PostgreSQL, MySQL, MariaDB or
// SQLite, through database/sql and any driver. The table has the layout of Meituan's Leaf. Name
// your Leaf table in Options.Table to take over its tags, or to work beside its servers.
//
//	ranges, err := sqlranges.New(db, sqlranges.PostgreSQL, nil)
//	err = ranges.Migrate(ctx)
//	_, err = ranges.Create(ctx, "order", 1, 1000)
//	orders, err := idgen.NewSegment(ranges, "order", nil)
//
// Taking a range is one statement that raises max_id and commits by itself. So a process that is
// paused in the middle blocks no other (on SQLite it holds the file's lock until it continues or
// ends). The database must keep what it has confirmed. If an asynchronous replica is promoted, or
// commits are not flushed, ranges can be assigned twice. [Ranges.Migrate] warns of the settings
// that it can see.
package sqlranges
