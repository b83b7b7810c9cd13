// Package sqlranges keeps the ranges of idgen.Segment in a table of PostgreSQL, MySQL, MariaDB or
// SQLite, through database/sql and whichever driver you use. The table has the layout of Meituan's
// Leaf: name yours (Options.Table) to take over its tags, or to work beside its servers.
//
//	ranges, err := sqlranges.New(db, sqlranges.PostgreSQL, nil)
//	err = ranges.Migrate(ctx)
//	_, err = ranges.Create(ctx, "order", 1, 1000)
//	orders, err := idgen.NewSegment(ranges, "order", nil)
//
// A range is one statement that raises max_id and is committed by itself, so that a process that is
// stopped in the middle holds up nobody (on SQLite it holds the file's lock until it goes on or
// ends). What the database has confirmed has to stay: with an asynchronous replica that is
// promoted, or commits that are not flushed, ranges are given twice. [Ranges.Migrate] warns of the
// settings that it can see.
package sqlranges
