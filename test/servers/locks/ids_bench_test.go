package locks_test

import (
	"log/slog"
	"testing"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/redisranges"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// BenchmarkSegment makes ids from fixed ranges of 100 000, from real servers, with one goroutine on
// each processor.
func BenchmarkSegment(b *testing.B) {
	postgres, mysql := servers.StartPostgres(b), servers.StartMySQL(b)
	redis := servers.StartRedis(b, "--appendonly", "yes", "--appendfsync", "always")
	quiet := slog.New(slog.DiscardHandler)
	onSQL := func(w sqlWorld) func(b *testing.B) creator {
		return func(b *testing.B) creator {
			b.Helper()
			r, err := sqlranges.New(sqltest.Open(b, w.driver, w.dsn), w.dialect, &sqlranges.Options{Logger: quiet})
			assert.NoError(b, err, "a source")
			assert.NoError(b, r.Migrate(b.Context()), "Migrate")
			return r
		}
	}
	for name, open := range map[string]func(b *testing.B) creator{
		"SQLite":     onSQL(sqlWorld{"sqlite", sqltest.SQLiteDSN(b.TempDir() + "/app.db"), sqlranges.SQLite}),
		"PostgreSQL": onSQL(sqlWorld{"pgx", postgres.URL(), sqlranges.PostgreSQL}),
		"MariaDB":    onSQL(sqlWorld{"mysql", mysql.DSN(), sqlranges.MySQL}),
		"Redis": func(b *testing.B) creator {
			b.Helper()
			r, err := redisranges.New(b.Context(), servers.RueidisTo(b, redis.Addr), &redisranges.Options{Logger: quiet})
			assert.NoError(b, err, "a source")
			return r
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := open(b)
			_, err := r.Create(b.Context(), "order", 1, 100_000)
			assert.NoError(b, err, "Create")
			s, err := idgen.NewSegment(r, "order", &idgen.SegmentOptions{MaxStep: 100_000})
			assert.NoError(b, err, "segment")
			defer s.Close()
			ctx := b.Context()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Next(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mid/s")
		})
	}
}
