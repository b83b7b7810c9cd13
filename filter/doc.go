// Package filter answers one question before a look-up in a large table: was this id surely never
// seen? "Surely new" spares the SELECT; "maybe seen" goes to the database, which stays the judge.
//
// What a filter may skip is a SELECT that precedes an INSERT under a unique index. It never skips
// the INSERT, nor the claim of a key: then a filter that is wrong, in either direction, costs a
// look-up more or less and changes no effect and no answer. (The engine's own claim is one INSERT
// already, so it has no use for a filter.)
//
// The id goes into the filter before the work: an id whose work fails afterwards costs one look-up,
// and nothing else.
//
//	if !seen.Add(id) {
//		// maybe seen: SELECT, and return what is there
//	}
//	// INSERT … ON CONFLICT DO NOTHING: still the judge
//
// [Bloom] and [HyperLogLog] live in one process and know only what that process has put in: where
// several processes insert into one table, "surely new" is wrong for what the others have inserted.
// [RedisBloom] and [RedisHyperLogLog] are shared by all of them.
//
// A Bloom filter of 1 % false positives takes 9.6 bits for each id and spares 99 % of the look-ups
// for new ids. HyperLogLog takes 12 KiB on Redis (a byte for each register in memory) however many
// ids there are, and recognises ever fewer of the new ones; docs/benchmarks.md has its curve.
package filter
