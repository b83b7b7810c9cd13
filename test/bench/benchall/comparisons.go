package main

// comparisons are the tables of docs/benchmarks.md, in its order.
var comparisons = []comparison{
	{
		name: "engine", ours: "`Do`, codec raw, memstore",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "Engine", time: "300000x", quick: "100x"}},
		rows: []row{
			{text: "a replay", ours: "EngineReplay ns/op", unit: "ns"},
			{text: "allocations", ours: "EngineReplay allocs/op", unit: "-", goal: goal{most: 1}},
			{text: "a first run (acquire and complete)", ours: "EngineFirstRun ns/op", unit: "ns"},
			{text: "allocations", ours: "EngineFirstRun allocs/op", unit: "-", goal: goal{most: 6}},
		},
	},
	{
		name: "middleware", ours: "handler alone",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "Handler", time: "200000x", quick: "100x"}},
		rows: []row{
			{text: "bare handler", ours: "HandlerBare ns/op", unit: "ns"},
			{text: "not guarded", ours: "HandlerNotGuarded ns/op", unit: "ns"},
			{text: "first run", ours: "HandlerFirstRun ns/op", unit: "ns"},
			{text: "allocations", ours: "HandlerFirstRun allocs/op", unit: "-", goal: goal{most: 20}},
			{text: "replay", ours: "HandlerReplay ns/op", unit: "ns", goal: goal{most: 2000}},
		},
	},
	{
		name: "server", ours: "replay", rival: "empty handler",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "ServerEmpty|ServerReplay", time: "200000x", quick: "200x"}},
		rows:     []row{{text: "processor time a request, client and server", ours: "ServerReplay cpu-µs/req", rival: "ServerEmpty cpu-µs/req", unit: "µs"}},
	},
	{
		name: "rival", ours: "requests per second of processor time, over fiber's", inner: 9,
		programs: []program{{dir: "test/bench", pkg: ".", bench: "Rival", time: "60000x", quick: "200x"}},
		rows: []row{
			{text: "replay through the middleware", ours: "Rival retrysafe-ratio", unit: "-", goal: goal{least: 0.62}},
			{text: "empty handler of net/http", ours: "Rival net/http-ratio", unit: "-"},
		},
	},
	{
		name: "gateway", ours: "retrysafe", rival: "nginx, Lua", inner: 5,
		programs: []program{{dir: "test/bench", pkg: "./gatewaybench", command: "two/", args: []string{"-rounds", "5", "-n", "30000"}}, {dir: "test/bench", pkg: "./gatewaybench", command: "one/", args: []string{"-rounds", "5", "-n", "30000", "-workers", "1"}}},
		rows:     gatewayRows(),
	},
	{
		name: "idle", ours: "retrysafe", rival: "nginx, Lua", inner: 3,
		programs: []program{{dir: "test/bench", pkg: "./gatewaybench", command: "two/", args: []string{"-rounds", "3", "-idle", "15000"}}},
		rows:     []row{{text: "memory of an idle connection, of 15 000", ours: "two/idle/retrysafe KB", rival: "two/idle/nginx KB", unit: "KB"}},
	},
	{
		name: "redis-do", ours: "`Do` over two bare scripts", inner: 5,
		programs: []program{{dir: "test/servers", pkg: "./redis", bench: "RedisDo", time: "30000x", quick: "100x"}},
		rows: []row{
			{text: "one caller, scripts through rueidis alone", ours: "RedisDo/callers_1 ratio", unit: "-", goal: goal{least: 0.85}},
			{text: "one caller, scripts through the store's client", ours: "RedisDo/callers_1 ratio_same_client", unit: "-"},
			{text: "64 callers, scripts through rueidis alone", ours: "RedisDo/callers_64 ratio", unit: "-", goal: goal{least: 0.85}},
			{text: "64 callers, scripts through the store's client", ours: "RedisDo/callers_64 ratio_same_client", unit: "-"},
			{text: "64 callers, calls a second", ours: "RedisDo/callers_64 calls/s", unit: "-"},
		},
	},
	{
		name: "group", ours: "together", rival: "each separately",
		programs: []program{{dir: "test/servers", pkg: "./sql", bench: "GroupCommit", time: "20000x", quick: "100x"}},
		rows: []row{
			{text: "SQLite, new keys", ours: "GroupCommit/SQLite together-keys/s", rival: "GroupCommit/SQLite separate-keys/s", unit: "/s", goal: goal{least: 10}},
			{text: "PostgreSQL, new keys", ours: "GroupCommit/PostgreSQL together-keys/s", rival: "GroupCommit/PostgreSQL separate-keys/s", unit: "/s", goal: goal{least: 2.5}},
			{text: "MariaDB, new keys", ours: "GroupCommit/MariaDB together-keys/s", rival: "GroupCommit/MariaDB separate-keys/s", unit: "/s", goal: goal{least: 4}},
			{text: "SQLite, replays", ours: "GroupCommit/SQLite together-replays/s", rival: "GroupCommit/SQLite separate-replays/s", unit: "/s"},
			{text: "PostgreSQL, replays", ours: "GroupCommit/PostgreSQL together-replays/s", rival: "GroupCommit/PostgreSQL separate-replays/s", unit: "/s"},
			{text: "MariaDB, replays", ours: "GroupCommit/MariaDB together-replays/s", rival: "GroupCommit/MariaDB separate-replays/s", unit: "/s"},
		},
	},
	{
		name: "dotx", ours: "DoTx", rival: "bare",
		programs: []program{{dir: "test/servers", pkg: "./tx", bench: "BenchmarkTx", time: "1000x", quick: "10x"}},
		rows:     txRows("bare-µs", 1.4, 1.3, 1.6, 1.5),
	},
	{
		name: "dotx-hand", ours: "DoTx", rival: "by hand",
		programs: []program{{dir: "test/servers", pkg: "./tx", bench: "BenchmarkTx", time: "1000x", quick: "10x"}},
		rows:     txRows("hand-µs", 1.15, 1.15, 1.15, 1.15),
	},
	{
		name: "growth", ours: "full", rival: "empty", inner: 5,
		programs: growthPrograms(),
		rows:     growthRows(), picture: growthChart(),
	},
	{
		name: "callers", ours: "one caller", rounds: 3,
		programs: []program{{dir: "test/servers", pkg: "./sql", bench: "BenchmarkSQLite|BenchmarkPostgres|BenchmarkMySQL", time: "1000x", quick: "10x"}},
		rows:     callerRows(),
	},
	{
		name: "outbox", ours: "messages a second", rounds: 3,
		programs: []program{{dir: "test/servers", pkg: "./tx", bench: "OutboxRelay", time: "20000x", quick: "200x"}},
		rows: []row{
			{text: "PostgreSQL, 10 000 keys", ours: "OutboxRelay/PostgreSQL/keys=10000 messages/s", unit: "-"},
			{text: "PostgreSQL, one key", ours: "OutboxRelay/PostgreSQL/keys=1 messages/s", unit: "-"},
			{text: "MariaDB, 10 000 keys", ours: "OutboxRelay/MariaDB/keys=10000 messages/s", unit: "-"},
			{text: "MariaDB, one key", ours: "OutboxRelay/MariaDB/keys=1 messages/s", unit: "-"},
			{text: "SQLite, 10 000 keys", ours: "OutboxRelay/SQLite/keys=10000 messages/s", unit: "-"},
			{text: "SQLite, one key", ours: "OutboxRelay/SQLite/keys=1 messages/s", unit: "-"},
		},
	},
	{
		name: "fingerprint", ours: "`fingerprint`", rival: "gowebpki/jcs and SHA-256",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "Fingerprint", time: "20000x", quick: "10x"}},
		rows: []row{
			{text: "an order of 960 bytes, all fields", ours: "Fingerprint/retrysafe_everything ns/op", rival: "Fingerprint/jcs_and_SHA-256 ns/op", unit: "µs", scale: 0.001, goal: goal{most: 0.5}},
			{text: "allocations", ours: "Fingerprint/retrysafe_everything allocs/op", rival: "Fingerprint/jcs_and_SHA-256 allocs/op", unit: "-"},
		},
	},
	{
		name: "signature", ours: "verify, without the store",
		programs: []program{{dir: "httpidem/httpsig", pkg: ".", bench: "Accept|Sign", time: "3000x", quick: "10x"}},
		rows: []row{
			{text: "hmac-sha256", ours: "Accept/hmac-sha256 ns/op", unit: "µs", scale: 0.001, goal: goal{most: 30}},
			{text: "ed25519", ours: "Accept/ed25519 ns/op", unit: "µs", scale: 0.001},
			{text: "ecdsa-p256-sha256", ours: "Accept/ecdsa-p256-sha256 ns/op", unit: "µs", scale: 0.001},
		},
	},
	{
		name: "guards", ours: "added by the guard",
		programs: []program{{dir: ".", pkg: "./guard", bench: "Guards", time: "30000x", quick: "10x"}},
		rows:     guardRows(),
	},
	{
		name: "filter", ours: "`Bloom`", rival: "bits-and-blooms under a lock", rounds: 3,
		programs: []program{{dir: "filter", pkg: ".", bench: "Bloom", time: "2000000x", quick: "2000x"}},
		rows: []row{
			{text: "new ids among 100 million, one goroutine", ours: "BloomRival/1 ours-ns", rival: "BloomRival/1 rival-ns", unit: "ns", goal: goal{most: 0.5}},
			{text: "the same, eight", ours: "BloomRival/8 ours-ns", rival: "BloomRival/8 rival-ns", unit: "ns", goal: goal{most: 0.5}},
			{text: "`MaybeSeenBatch`, each id", ours: "Bloom/MaybeSeenBatch/new/1 ns/op", unit: "ns"},
			{text: "`Add`, new ids", ours: "Bloom/Add/new/1 ns/op", unit: "ns"},
			{text: "`Add`, known ids", ours: "Bloom/Add/seen/1 ns/op", unit: "ns"},
			{text: "`MaybeSeen` in the caches (100 000 ids)", ours: "BloomSmall/new ns/op", unit: "ns"},
			{text: "new ids that are maybe seen", ours: "Bloom/MaybeSeen/new/1 maybe", unit: "%", scale: 100, goal: goal{most: 1.05}},
			{text: "bits for each id", ours: "Bloom/MaybeSeen/new/1 bits/id", unit: "-"},
		},
	},
	{
		name: "locks", ours: "ours", rival: "rival", inner: 7,
		programs: []program{{dir: "test/servers", pkg: "./locks", bench: "RedisLock$", time: "30000x", quick: "100x"}},
		rows: []row{
			{text: "one caller, rueidis, beside bsm/redislock", ours: "RedisLock/callers_1 µs/ours_rueidis", rival: "RedisLock/callers_1 µs/bsm/redislock", unit: "µs", goal: goal{most: 1}},
			{text: "one caller, go-redis, beside bsm/redislock", ours: "RedisLock/callers_1 µs/ours_go-redis", rival: "RedisLock/callers_1 µs/bsm/redislock", unit: "µs", goal: goal{most: 1}},
			{text: "one caller, rueidis, beside bare scripts through it", ours: "RedisLock/callers_1 µs/ours_rueidis", rival: "RedisLock/callers_1 µs/bare_scripts", unit: "µs", goal: goal{most: 1.15}},
			{text: "64 that want one lock, beside bsm/redislock", ours: "RedisLock/callers_64 µs/ours_rueidis", rival: "RedisLock/callers_64 µs/bsm/redislock", unit: "µs", goal: goal{most: 0.43}},
			{text: "64 that want one lock, beside redsync", ours: "RedisLock/callers_64 µs/ours_rueidis", rival: "RedisLock/callers_64 µs/redsync", unit: "µs"},
		},
	},
	{
		name: "ids", ours: "ours", rival: "rival",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "BenchmarkIDs", time: "200000x", quick: "100x"}},
		rows: []row{
			{text: "layout Twitter, `Snowflake`, beside bwmarrin", ours: "IDs/retrysafe/Twitter/Snowflake ns/op", rival: "IDs/bwmarrin/Twitter ns/op", unit: "ns"},
			{text: "layout Fast, `Snowflake`, beside bwmarrin", ours: "IDs/retrysafe/Fast/Snowflake ns/op", rival: "IDs/bwmarrin/Fast ns/op", unit: "ns"},
			{text: "layout Fast, `Buffered`, beside bwmarrin", ours: "IDs/retrysafe/Fast/Buffered ns/op", rival: "IDs/bwmarrin/Fast ns/op", unit: "ns", goal: goal{most: 1}},
			{text: "`Segment`", ours: "IDs/retrysafe/Segment ns/op", unit: "ns"},
		},
	},
	{
		name: "ids-serve", ours: "`ids serve`", rival: "handler of net/http that does nothing", rounds: 3,
		programs: []program{{dir: "cmd/retrysafe", pkg: ".", bench: "IDsServe", time: "60000x", quick: "20000x"}},
		rows: []row{
			{text: "snowflake, 16 connections", ours: "IDsServe/snowflake/16 req/s", rival: "IDsServe/net_http/16 req/s", unit: "/s"},
			{text: "snowflake, 128 connections", ours: "IDsServe/snowflake/128 req/s", rival: "IDsServe/net_http/128 req/s", unit: "/s"},
			{text: "segment, 128 connections", ours: "IDsServe/segment/128 req/s", rival: "IDsServe/net_http/128 req/s", unit: "/s"},
			{text: "processor time of the server, snowflake, 128", ours: "IDsServe/snowflake/128 µs-server-cpu", rival: "IDsServe/net_http/128 µs-server-cpu", unit: "µs"},
		},
	},
	{
		name: "messages", ours: "retrysafe", rival: "plain consumer, manual acks",
		programs: []program{{dir: "test/bench", pkg: ".", bench: "Messages", time: "15000x", quick: "200x"}},
		rows: []row{
			{text: "`Once`, memory", ours: "MessagesMemory ns/op", rival: "MessagesPlain ns/op", unit: "µs", scale: 0.001, inverse: true, goal: goal{least: 0.9}},
			{text: "`OnceBatch` of 100, memory", ours: "MessagesMemoryBatch ns/op", rival: "MessagesPlain ns/op", unit: "µs", scale: 0.001, inverse: true},
			{text: "`Once`, Redis", ours: "MessagesRedis ns/op", rival: "MessagesPlain ns/op", unit: "µs", scale: 0.001, inverse: true, goal: goal{least: 0.8}},
			{text: "`OnceBatch` of 100, Redis", ours: "MessagesRedisBatch ns/op", rival: "MessagesPlain ns/op", unit: "µs", scale: 0.001, inverse: true, goal: goal{least: 0.85}},
			{text: "Watermill with its Deduplicator", ours: "MessagesWatermill ns/op", rival: "MessagesPlain ns/op", unit: "µs", scale: 0.001, inverse: true},
		},
	},
	{
		name: "rivals", ours: "retrysafe", rival: "rival", rounds: 3,
		programs: []program{
			{dir: "test/bench", pkg: ".", bench: "Rival", time: "60000x", quick: "200x"},
			{dir: "test/bench", pkg: ".", bench: "MessagesMemory$|MessagesRedis$|MessagesWatermill$", time: "15000x", quick: "200x"},
			{dir: "test/bench", pkg: ".", bench: "Enqueue", time: "5000x", quick: "50x"},
			{dir: "test/bench", pkg: ".", bench: "Outbox", time: "5000x", quick: "50x"},
			{dir: "test/servers", pkg: "./locks", bench: "RedisLock$", time: "30000x", quick: "100x"},
			{dir: "test/servers", pkg: "./locks", bench: "ZooKeeperLock", time: "5000x", quick: "50x"},
			{dir: "test/bench", pkg: ".", bench: "BenchmarkIDs/.*/Fast", time: "20000000x", quick: "100x"},
		},
		rows: []row{
			{text: "fiber's idempotency: replays in a second of processor time", ours: "Rival retrysafe-req/cpu-s", rival: "Rival fiber-req/cpu-s", unit: "/s"},
			{text: "Watermill's Deduplicator, beside `Once` in memory: a message", ours: "MessagesMemory ns/op", rival: "MessagesWatermill ns/op", unit: "µs", scale: 0.001},
			{text: "the same, beside `Once` on Redis", ours: "MessagesRedis ns/op", rival: "MessagesWatermill ns/op", unit: "µs", scale: 0.001},
			{text: "River's unique jobs, beside `DoTx` and the outbox: a new one", ours: "Enqueue retrysafe-new-µs", rival: "Enqueue river-new-µs", unit: "µs"},
			{text: "the same: a duplicate", ours: "Enqueue retrysafe-duplicate-µs", rival: "Enqueue river-duplicate-µs", unit: "µs"},
			{text: "Watermill's outbox (forwarder): a message added", ours: "Outbox/retrysafe add-µs", rival: "Outbox/watermill add-µs", unit: "µs"},
			{text: "the same: messages published", ours: "Outbox/retrysafe messages/s", rival: "Outbox/watermill messages/s", unit: "/s"},
			{text: "bsm/redislock, beside ours through rueidis: a lock", ours: "RedisLock/callers_1 µs/ours_rueidis", rival: "RedisLock/callers_1 µs/bsm/redislock", unit: "µs"},
			{text: "redsync: a lock", ours: "RedisLock/callers_1 µs/ours_rueidis", rival: "RedisLock/callers_1 µs/redsync", unit: "µs"},
			{text: "the lock of go-zookeeper, beside `zklock`: a lock", ours: "ZooKeeperLock µs/ours", rival: "ZooKeeperLock µs/go-zookeeper", unit: "µs"},
			{text: "bwmarrin/snowflake, beside `Buffered`: an id", ours: "IDs/retrysafe/Fast/Buffered ns/op", rival: "IDs/bwmarrin/Fast ns/op", unit: "ns"},
			{text: "sony/sonyflake, at the same widths: an id", ours: "IDs/retrysafe/Fast/Buffered ns/op", rival: "IDs/sonyflake/Fast ns/op", unit: "ns"},
		},
	},
}
