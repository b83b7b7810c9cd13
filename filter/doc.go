// Package filter answers one question before a lookup in a large table: was this id surely never
// seen? "Surely new" saves the SELECT. After "maybe seen" the database decides.
//
// A filter may only replace a SELECT before an INSERT under a unique index. It never replaces the
// INSERT, or the claim of a key. So a wrong answer of a filter, in either direction, costs or saves
// a lookup and changes no effect and no answer. (The engine's own claim is a single INSERT, so it
// does not need a filter.)
//
// Add the id before the work. If the work fails afterwards, that costs one lookup and nothing else.
//
//	// seen, err := filter.NewBloom(&filter.Options{Items: 1_000_000}), and a Rebuild from the table
//	func place(ctx context.Context, db *sql.DB, seen *filter.Bloom, id string) (total int64, err error) {
//		if !seen.Add([]byte(id)) { // maybe seen: look it up
//			err = db.QueryRowContext(ctx, "SELECT total FROM orders WHERE id = $1", id).Scan(&total)
//			if !errors.Is(err, sql.ErrNoRows) {
//				return total, err // the order that is there, or what failed
//			}
//		}
//		// the unique index decides, also about an id that the filter calls new
//		_, err = db.ExecContext(ctx, "INSERT INTO orders (id, total) VALUES ($1, 500) ON CONFLICT DO NOTHING", id)
//		return 500, err
//	}
//
// [Bloom] and [HyperLogLog] are in one process and know only the ids of that process. If several
// processes insert into one table, "surely new" is wrong for the ids of the others. [RedisBloom]
// and [RedisHyperLogLog] are shared by all processes.
//
// A Bloom filter with 1 % false positives takes 9.6 bits for each id and saves 99 % of the lookups
// for new ids. A HyperLogLog takes 12 KiB on Redis (one byte for each register in memory), whatever
// the number of ids. The more ids there are, the fewer of the new ones it recognises;
// docs/benchmarks.md has its curve.
package filter
