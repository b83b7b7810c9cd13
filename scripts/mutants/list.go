package main

// mutants are mistakes that were in the code once, or would be easy to make.
var mutants = []mutant{
	{
		"a sealed answer is not bound to its key", "stores/sealstore/format.go",
		`b, _ = key.AppendText(append(b, '\n')) // never fails`, "_ = key",
		".", "./stores/sealstore TestSwapped",
	},
	{
		"a sealed refusal is opened as an answer", "stores/sealstore/format.go",
		`kind...)
	b, _ = key`, `"x"...)
	b, _ = key`,
		".", "./stores/sealstore TestSwapped",
	},
	{
		"a nonce and its key are used twice", "stores/sealstore/box.go",
		"_, _ = rand.Read(salt[:]) // never fails", "_, _ = rand.Read(salt[:0])",
		".", "./stores/sealstore TestNoNonceTwice",
	},
	{
		"a data key is any tenant's", "stores/sealstore/data_key.go",
		"b, _ := t.recordKey().AppendText([]byte(\"retrysafe data key 1\\n\")) // never fails", "b := []byte(\"retrysafe data key 1\\n\")",
		".", "./stores/sealstore TestDataKeyIsOneTenants",
	},
	{
		"a claim without a data key is granted", "stores/sealstore/calls.go",
		"if noKey != nil && got.Status == storeapi.StatusAcquired {", "if false {",
		".", "./stores/sealstore TestExpiresWithoutKey",
	},
	{
		"a replaced data key stays on disk", "stores/sealstore/keys_dir.go",
		"err = os.Truncate(path, 0)", "err = nil",
		".", "./stores/sealstore TestDirAfterACrash",
	},
	{
		"what is never kept is kept", "httpidem/answer.go",
		"if c.m.o.Answer.Keep == KeepNever {", "if false {",
		".", "./httpidem TestKeepNever",
	},
	{
		"a question is about the last asker", "reconcile.go",
		"doubt.Attempt, doubt.Fence = last.Attempt, last.Fence", "_ = last",
		".", ". TestEveryQuestionIsAboutTheWork",
	},
	{
		"work after a question begins unconfirmed", "reconcile.go",
		"if err = v.attempt.extendUntilAnswered(ctx, storeapi.ExtendRequest{Works: true}); err == nil {", "if err = v.attempt.extendUntilAnswered(ctx, storeapi.ExtendRequest{Works: true}); err == nil || err != nil {",
		".", ". TestNothingRunsUnconfirmed",
	},
	{
		"a mark speaks for errors beside it", "error_class.go",
		"			all.inPart = true\n", "",
		".", ". TestOutcomeOfJoined",
	},
	{
		"a verdict has the asker's retention", "reconcile.go",
		"	a.retention = 0 ", "	_ = a.retention ",
		".", ". TestVerdictKeepsTheRetention",
	},
	{
		"a light record has no retention", "stores/redisstore/lua/head.lua",
		"made, made, 0, left)", "made, made, 0, string.rep('\\0', 8))",
		"test/servers", "./redis TestRedisLightStore",
	},
	{
		"a worker runs what its caller was told", "worker.go",
		"return rec.State == StateReleased && told && r.refusesReexecution(rec)", "return rec.State == StateReleased && told && r.refusesReexecution(rec) && false",
		".", ". TestWorkerLeavesWhatCallersWereTold",
	},
	{
		"each lost claim is looked after by itself", "internal/claim/lost_claims.go",
		"if !g.life.Sleep(away/2 + rand.N(away)) {", "if !g.life.Sleep(time.Microsecond + rand.N(away)/1e6) {",
		".", ". TestOutageLeavesOneCaller",
	},
	{
		"a caller that hangs up ends the work", "attempt.go",
		"if o.detached || o.outlives && !o.attached && !o.policy.Attached {", "if o.detached {",
		".", ". TestCallerThatLeaves",
	},
	{
		"released records are kept for a day", "finish.go",
		"return min(a.retention, a.policy.ReleasedFor)", "return a.retention",
		".", ". TestReleasedFor",
	},
	{
		"steps are dropped with a released record", "finish.go",
		"a.retention == 0 || a.outlivesRelease || a.steps.Load() != nil", "a.retention == 0 || a.outlivesRelease",
		".", ". TestReleasedFor",
	},
	{
		"strangers are one caller", "httpidem/caller.go",
		`return []byte("anonymous\n" + strings.Join(shown, "\n"))`, `return []byte("anonymous\n")`,
		"gateway", ". TestBlackBox",
	},
	{
		"a name pays", "httpidem/middleware.go",
		"		x.addOption(retrysafe.WithAccount(m.account(r)))\n", "",
		"gateway", "./attacks TestLimitsOfAVictim",
	},
	{
		"bodies have no bound", "gateway/gateway.go",
		"		o.Limit.Bodies = g.bodies\n", "		_ = g.bodies\n",
		"gateway", "./attacks TestHalfSentBodies",
	},
	{
		"connections have no bound", "gateway/server.go",
		"b.open.Add(1) <= b.most", "b.open.Add(1) > 0",
		"gateway", ". TestConnections",
	},
	{
		"a body that no answer needs holds its connection", "gateway/server.go",
		"	if r.ProtoMajor == 1 && r.Body != http.NoBody {", "	if r.ProtoMajor == 0 {",
		"gateway", ". TestBodiesThatNeverCome",
	},
	{
		"the rest of a body is the next request", "gateway/slow_peer.go",
		"	if p.body.ReadCloser.Close() != nil {", "	if p.body.ReadCloser.Close() == http.ErrAbortHandler {",
		"gateway", ". TestRestsOfBodies",
	},
	{
		"a byte at the end of an exchange takes its deadline away", "gateway/slow_peer.go",
		"	if !p.over && p.cause == nil {", "	if !p.over {",
		"gateway", ". TestByteAtTheEnd",
	},
	{
		"a request without a body is sent twice", "gateway/internal/once/transport.go",
		"sent && !answered && changesNothing(r.Method)", "sent && !answered",
		"gateway", "./internal/once TestRequestsThatAreSentAgain",
	},
	{
		"a request of HTTP/2 without a body is sent twice", "gateway/internal/once/http2.go",
		"		if hasNoBody(r) {", "		if false {",
		"test/servers", "./http TestHTTP2Upstream",
	},
	{
		"what came before a request is taken for its answer", "gateway/internal/once/wire.go",
		"!w.record.isComplete() || w.hasUnread()", "!w.record.isComplete()",
		"gateway", "./internal/once TestUnaskedBeforeWrite",
	},
	{
		"what came before the body of a request is taken for its answer", "gateway/internal/once/wire.go",
		"	case first && w.hasUnasked():", "	case false:",
		"gateway", "./internal/once TestUnaskedBeforeBody",
	},
	{
		"what TLS has read after an answer is taken for the next one", "gateway/internal/once/conn.go",
		"	return !errors.Is(err, os.ErrDeadlineExceeded)", "	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)",
		"gateway", "./internal/once TestWordsAfterAnAnswerOverTLS",
	},
	{
		"a part of a record is taken for the end of one", "gateway/internal/once/wire.go",
		"return r.header == 0 && r.left == 0", "return r.left == 0",
		"gateway", "./internal/once TestRecordInPart",
	},
	{
		"a connection with more than an answer is kept", "gateway/internal/once/conn.go",
		"	if c.in.Buffered() > 0 ||", "	if false ||",
		"gateway", ". TestWordsNobodyAskedFor",
	},
	{
		"a sent request counts as not sent", "gateway/internal/once/wire.go",
		"	case first && n == 0 && err != nil:", "	case n == 0 && err != nil:",
		"gateway", "./internal/once TestSentStaysSent",
	},
	{
		"a request is written after its context has ended", "gateway/internal/once/conn.go",
		"	case ctx.Err() != nil:", "	case false:",
		"gateway", "./internal/once TestEndOfAContext",
	},
	{
		"a connection is used again before its request was read", "gateway/internal/once/conn.go",
		"a.keep && a.written.succeedsSoon()", "a.keep",
		"gateway", "./internal/once TestEarlyAnswer",
	},
	{
		"a body is read after its call has failed", "gateway/internal/once/conn.go",
		"		return nil, errors.Join(written.wait(), err)", "		return nil, err",
		"gateway", "./internal/once TestBodyIsReadNoMore",
	},
	{
		"a request without a body gets one that cannot be read", "gateway/internal/once/conn.go",
		"	if !hasNoBody(r) { // a large head", "	if body != nil {",
		"gateway", "./internal/once TestLargeHeadWithoutBody",
	},
	{
		"the rest of a body is the next request after its exchange was ended", "gateway/slow_peer.go",
		"	if ended {", "	if ended && closes {",
		"gateway", ". TestAnswerOfAnEndedExchange",
	},
	{
		"the service waits for a body that has failed", "gateway/internal/once/conn.go",
		"		if err != nil && !c.wire.hasFailed() {", "		if false {",
		"gateway", "./internal/once TestBodyThatIsTooShort",
	},
	{
		"another spelling goes around a guard", "gateway/internal/route/spelling.go",
		"if e.Guards && e.servesMethod", "if false && e.Guards && e.servesMethod",
		"gateway", "./attacks TestOtherSpellings",
	},
	{
		"other shards than before are accepted", "stores/shardstore/shard_list.go",
		"case l != nil && !l.equal(mine):", "case l != nil && !l.equal(mine) && false:",
		".", "./stores/shardstore TestOtherList",
	},
	{
		"a list changes while records would be lost", "stores/shardstore/shard_list.go",
		"		if home == name && slices", "		if home != \"\" || home == name && slices",
		".", "./stores/shardstore TestChangeList",
	},
	{
		"a transaction runs on another shard than its record", "stores/shardstore/tx.go",
		"	return t.shards[name].RunTx", "	return t.shards[t.store.names[0]].RunTx",
		"test/servers", "./sql TestShardsTx",
	},
	{
		"a lock on what is not there", "stores/sqlstore/tx_record.go",
		"		won, err = j.insertFirst(ctx)\n", "		won, err = j.lookAndInsert(ctx)\n",
		"test/servers", "./tx TestTxJoinedManyKeys",
	},
	{
		"a pass goes on past what has failed", "outbox/partition_pass.go",
		"if last || !whole {", "if last {",
		".", "./outbox TestOrderWhileKeysAreHeldUp",
	},
	{
		"a message that is put back gets an id", "adapters/natsidem/deadletters.go",
		"	h[mqidem.HeaderID] = []string{m.ID}\n", "",
		"adapters/natsidem", ". TestSuite",
	},
	{
		"an ack goes past a tag that is open", "adapters/amqpidem/acks.go",
		"below, _ = slices.BinarySearch(tags, w.held[firstOpen].tag)", "below = len(tags)",
		"adapters/amqpidem", ". TestAcksModel",
	},
	{
		"keys that a proxy spreads over servers are one run", "stores/redisstore/one_server.go",
		"return r.Err == nil && found == probes", "return r.Err == nil && found > 0",
		"test/servers", "./redis TestRedisJoinedNotThroughSpreading",
	},
	{
		"a claim of a joined run is not in the index", "stores/redisstore/scripts.go",
		"if #later > 2 then redis.call('ZADD'", "if #later > 999 then redis.call('ZADD'",
		"test/servers", "./redis TestRedisUnfinishedStaysSmall",
	},
	{
		"a released record stays in the index", "stores/redisstore/lua/release.lua",
		"open(doubt)", "open(true)",
		"test/servers", "./redis TestRedisUnfinishedStaysSmall",
	},
	{
		"a list takes running work out of the index", "stores/redisstore/lua/unfinished_set.lua",
		"state == 2", "state == 9",
		"test/servers", "./redis TestRedisUnfinishedBefore",
	},
	{
		"a list believes an index that is not complete", "stores/redisstore/unfinished_list.go",
		"return mark == 1, names, nil", "return mark >= 0, names, nil",
		"test/servers", "./redis TestRedisUnfinishedBefore",
	},
	{
		"a claim that the index refuses is written", "stores/redisstore/lua/acquire_first.lua",
		"if not later or #later == 0 then redis.call", "if not later or #later == 0 then redis.pcall",
		"test/servers", "./redis TestRedisUnfinishedForbidden",
	},
	{
		"a failed key ends the run of the others", "redisclient/joined.lua",
		"local ok, r = pcall(one, key, args)", "local ok, r = true, one(key, args)",
		"test/servers", "./redis TestRedisJoinedErrors",
	},
	{
		"calls after the end of a joined run are lost", "redisclient/join.go",
		"return j.places[min(len(answers), len(j.places)):]", "return nil",
		".", "./redisclient TestSendManySplits",
	},
	{
		"a goroutine that a handler has ended is used again", "mqidem/handler_goroutines.go",
		"	if !r.exited {\n", "	if true {\n",
		".", "./mqidem TestHandlerGoexit",
	},
	{
		"a dead letter is written again with each try of its ack", "mqidem/settlement.go",
		"if steps.Write != nil && !s.written {", "if steps.Write != nil {",
		".", "./mqidem TestSettlement",
	},
	{
		"a delivery that was given back is settled", "mqidem/settlement.go",
		"	s.returned = true\n", "",
		".", "./mqidem TestSettlementGivesBack",
	},
	{
		"a closed source hands out what it has returned", "mqidem/prefetch.go",
		"	if err := p.Err(); err != nil { // messages that were ready are returned to the broker\n		return nil, err\n	}\n", "",
		".", "./mqidem TestPrefetchEnd",
	},
	{
		"a later result hides that a message is dead", "mqidem/handling.go",
		"r.kind >= h.result.kind", "r.kind > 0",
		".", "./mqidem TestHandlerOfHandlers",
	},
	{
		"poison that is too large is held for ever", "mqidem/fit_message.go",
		"	if err == nil || !tooLarge(err) {\n		return err\n	}\n	forms", "	if err != nil || !tooLarge(err) {\n		return err\n	}\n	forms",
		".", "./mqidem TestFit",
	},
	{
		"an empty cookie hides its caller", "httpidem/caller.go",
		`return plainCookie(v) != "" })`, `return true })`,
		".", "./httpidem TestCookieWithoutAValue",
	},
	{
		"a made-up credential hides the session", "httpidem/caller.go",
		"header != \"\" && (c.Cookie", "header == \"?\" && (c.Cookie",
		".", "./httpidem TestFieldsTakeTheConfiguredCredential",
	},
	{
		"what may have worked is forgotten in minutes", "finish.go",
		"|| a.steps.Load() != nil || mayHaveWorked {", "|| a.steps.Load() != nil || mayHaveWorked && false {",
		".", ". TestKeyForAfterAReleaseThatMayHaveWorked",
	},
	{
		"a late message is passed by", "outbox/dialect.go",
		"if after > 0 && t.d != SQLite {", "if after < 0 && t.d != SQLite {",
		"test/servers", "./tx TestOutboxOrderOfALateCommit",
	},
	{
		"a part that is away holds up the others", "internal/claim/lost_claims.go",
		"if last := len(g.ready) - 1; last >= 0 && (!failedIsDue || !g.failedNext) {", "if last := len(g.ready) - 1; last >= 0 && len(g.failed) == 0 {",
		".", ". TestPartThatIsAwayHoldsUpNoOther",
	},
	{
		"a contract runs work again under Refuse", "httpidem/dialect.go",
		"	case reruns && given.Answer.After5xx == 0:\n", "	case reruns && given.Answer.After5xx == 0: // nothing\n		return\n	case reruns && c == nil:\n",
		".", "./httpidem TestContractsThatCannotBeKept",
	},
	{
		"the origin says what is a replay", "httpidem/replay.go",
		"	msg.setHeader(h)\n	h[m.dialect.replayed] = trueValue\n", "	h[m.dialect.replayed] = trueValue\n	msg.setHeader(h)\n",
		".", "./httpidem TestBlackBox",
	},
	{
		"a trace links a transaction to itself", "tx.go",
		"	if call.noteRecord(&rec); mine && call != nil {", "	if call.noteRecord(&rec); mine && call != nil && false {",
		".", ". TestOriginOfTransactions",
	},
	{
		"a trace stays in the codec", "engine.go",
		"	takeOrigin(&rec.Answer)\n", "",
		".", ". TestOrigin",
	},
	{
		"a trace of the client stays beside the gateway's", "gateway/outgoing_request.go",
		"if _, ours := traced[name]; ours || unforwardedFields[name]", "if unforwardedFields[name]",
		"gateway", ". TestPropagate",
	},
	{
		"a step that was begun has another name in the record", "internal/journal/format.go",
		"`json:\"begun,omitempty\"`", "`json:\"started,omitempty\"`",
		".", "./internal/journal TestProgressFormat",
	},
	{
		"the parts of a key change their places", "stores/sqlstore/internal/table/rows.go",
		"{k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID}", "{k.Layer, k.Namespace, k.Tenant, k.Operation, k.ID}",
		".", "./stores/sqlstore/internal/table TestKeysAreFrozen",
	},
	{
		"clients look for another field", "httpidem/middleware.go",
		`"Idempotency-Stored"`, `"Idempotency-Kept"`,
		".", "./internal/doctest TestWordsOfTheWire",
	},
	{
		"the first caller gets the value itself", "codec.go",
		"	*v = first\n", "	_ = first\n",
		".", ". TestGoValues",
	},
	{
		"bytes that are no UTF-8 are taken as kept", "codec.go",
		"return jsonTypeOf(t).exact && !hasReplacedText(b)", "return jsonTypeOf(t).exact",
		".", ". TestGoValues",
	},
	{
		"a type that nobody can read is not refused", "codec.go",
		"return exact.Accepts(reflect.TypeFor[T]())", "_ = exact",
		".", ". TestGoValues",
	},
	{
		"a large number in an interface is rounded", "codec.go",
		"		if n, ok := v.Interface().(json.Number); !ok {", "		if n, ok := v.Interface().(json.Number); ok {\n			f, _ := n.Float64()\n			v.Set(reflect.ValueOf(f))\n		} else if !ok {",
		".", ". TestNumbersInInterfaces",
	},
	{
		"a refusal is the first caller's own", "error_class.go",
		"	if utf8.ValidString(f.Code) &&", "	if utf8.ValidString(f.Code) || true ||",
		".", ". TestGoValues",
	},
	{
		"an unknown error says that nothing was done", "code.go",
		"	return CodeOutcomeUnknown\n}", "	return CodeStoreUnavailable\n}",
		".", "./httpidem TestUnknownError",
	},
	{
		"a conflict is taken for nothing done", "internal/notrun/notrun.go",
		"	{Status: 407,", "	{Status: 409},\n	{Status: 407,",
		".", "./httpidem TestBlackBox",
	},
	{
		"a redirect that keeps the method is an outcome", "internal/notrun/notrun.go",
		"		Status: 307,", "		Status: 305,",
		".", "./httpidem TestBlackBox",
	},
	{
		"an aborted call is taken for nothing done", "internal/notrun/notrun.go",
		"		Codes: []uint32{unimplemented},", "		Codes: []uint32{unimplemented, aborted},",
		".", "./rpcidem TestOutcomesOfThePage",
	},
	{
		"a redirect leads past the gateway", "gateway/answer.go",
		"g.inside.Hide(resp.Header, inside.Client{Scheme: scheme, Host: host})", "_ = inside.Client{Scheme: scheme, Host: host}",
		"gateway", ". TestAnswersNameNoUpstream",
	},
	{
		"a redirect leads to a third host", "gateway/internal/inside/inside.go",
		`return "/." + path //`, "return path //",
		"gateway", "./internal/inside TestReferences",
	},
	{
		"a redirect to a page that says thanks releases the key", "httpidem/outcome.go",
		"		return samePath(c.r, c.header.Get(\"Location\"))", "		return true",
		"gateway", ". TestRedirectAfterTheEffect",
	},
	{
		"advise takes the column of another row for one of its own", "advise/schema.go",
		"	case table != \"\":\n		return table\n", "	case table != \"\" && table == \"?\":\n		return table\n",
		"test/servers", "./guards TestAdviseTwice",
	},
	{
		"advise tells literals apart by their spelling", "advise/values.go",
		"if a.lit != b.lit || !plainlyDiffer(a, b, t) {", "if a.lit != b.lit && !plainlyDiffer(a, b, t) && a.lit == 200 {",
		"test/servers", "./guards TestAdviseTwice",
	},
	{
		"advise lets an upsert set what the insert did not", "advise/rules_insert.go",
		"			fixed = append(fixed, a.column)\n", "			_ = fixed\n",
		"advise", ". TestRules",
	},
	{
		"advise looks for no functions in RETURNING", "advise/rules.go",
		"adviseAlone(st, s).withCalls(st)", "adviseAlone(st, s)",
		"advise", ". TestRules",
	},
	{
		"a transaction that the work has left is told to have done nothing", "stores/sqlstore/tx.go",
		"	return &txEndedError{cause: failed, statementsFollowed: true}\n", "	return nil\n",
		"test/servers", "./tx TestTxLoose",
	},
	{
		"a session finds tables by its own search_path", "stores/sqlstore/calls.go",
		"	case schema != \"\":\n		s.db.UseSchema(schema)\n", "",
		"test/servers", "./tx TestServerTablesStay",
	},
	{
		"a lock is passed again after its release", "lock/redislock/lua/pass.lua",
		"ends == 0 or ", "",
		"test/servers", "./locks TestRedisLock",
	},
	{
		"a lock that may have been passed is left", "lock/locker.go",
		"return turn{requestedAt: began}, unlockError(err, n)", "return turn{}, unlockError(err, n)",
		".", "./lock TestPassWithoutAnAnswer",
	},
	{
		"a lock is passed to a caller that has gone", "lock/locker.go",
		"	if !l.queues.giveTurn(next, got) {\n		l.abandonTry(next.req)", "	if !l.queues.giveTurn(next, got) {\n		l.queues.passTurn(req.Name)",
		".", "./lock TestCallerLeavesDuringAPass",
	},
	{
		"a lock is passed within a process for ever", "lock/name_queues.go",
		"if now.passes == maxPasses || time.Since(now.passing) > passTime {", "if false {",
		".", "./lock TestLockIsPassed",
	},
	{
		"a killed PostgreSQL leaves its shared memory", "test/servers/internal/servers/postgres.go",
		"	servertest.RemovePostgresMemory(s.server.dir)\n", "",
		"test/servers", "./internal/servers TestPostgresLeavesNoMemory",
	},
}
