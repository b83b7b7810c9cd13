package main

// mutants are mistakes that were in the code once, or would be easy to make.
var mutants = []mutant{
	{
		"a question is about the last asker", "reconcile.go",
		"doubt.Attempt, doubt.Fence = last.Attempt, last.Fence", "_ = last",
		".", ". TestEveryQuestionIsAboutTheWork",
	},
	{
		"work after a question begins unconfirmed", "reconcile.go",
		"if err = v.attempt.keep(ctx, storeapi.ExtendRequest{Works: true}); err == nil {", "if err = v.attempt.keep(ctx, storeapi.ExtendRequest{Works: true}); err == nil || err != nil {",
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
		"a light record has no retention", "redisstore/lua/head.lua",
		"made, made, 0, left)", "made, made, 0, string.rep('\\0', 8))",
		"integration", "./redis TestRedisLightStore",
	},
	{
		"a worker runs what its caller was told", "worker.go",
		"return rec.State == StateReleased && told && r.refuses(rec)", "return rec.State == StateReleased && told && r.refuses(rec) && false",
		".", ". TestWorkerLeavesWhatCallersWereTold",
	},
	{
		"each lost claim is looked after by itself", "giveback.go",
		"if !g.rt.sleep(away/2 + rand.N(away)) {", "if !g.rt.sleep(time.Microsecond + rand.N(away)/1e6) {",
		".", ". TestOutageLeavesOneCaller",
	},
	{
		"a caller that hangs up ends the work", "attempt_start.go",
		"if o.detached || o.outlives && !o.attached && !o.policy.Attached {", "if o.detached {",
		".", ". TestCallerThatLeaves",
	},
	{
		"released records are kept for a day", "attempt.go",
		"return min(a.retention, a.policy.ReleasedFor)", "return a.retention",
		".", ". TestReleasedFor",
	},
	{
		"steps are dropped with a released record", "attempt.go",
		"a.retention == 0 || a.outlivesRelease || a.steps.Load() != nil", "a.retention == 0 || a.outlivesRelease",
		".", ". TestReleasedFor",
	},
	{
		"strangers are one caller", "httpidem/credentials.go",
		`return []byte("anonymous\n" + strings.Join(shown, "\n"))`, `return []byte("anonymous\n")`,
		"gateway", ". TestBlackBox",
	},
	{
		"a name pays", "httpidem/guard.go",
		"		x.call.Account = m.account(r)\n", "",
		"gateway", "./attacks TestLimitsOfAVictim",
	},
	{
		"bodies have no bound", "gateway/gateway.go",
		"		o.Bodies = g.bodies\n", "		_ = g.bodies\n",
		"gateway", "./attacks TestHalfSentBodies",
	},
	{
		"another spelling goes around a guard", "gateway/internal/route/spelling.go",
		"if e.Guards && e.takes", "if false && e.Guards && e.takes",
		"gateway", "./attacks TestOtherSpellings",
	},
	{
		"a win that is seen late is believed", "shardstore/acquire.go",
		"case got.Status == storeapi.Won && s.old(p):", "case got.Status == storeapi.Won && s.old(p) && false:",
		".", "./shardstore TestModel",
	},
	{
		"a transaction commits where its key was", "sqlstore/gate.go",
		"	if gate == nil {", "	if gate == nil || c.worked {",
		"integration", "./sql TestShardsChangeTx",
	},
	{
		"a change does not wait for transactions", "shardstore/change.go",
		"	if m.Closing {\n		if err := a.settleTx", "	if m.Closing && false {\n		if err := a.settleTx",
		".", "./shardstore TestModel",
	},
	{
		"a released record does not move", "shardstore/survey.go",
		"case (rec.State.Finished() || released) &&", "case rec.State.Finished() &&",
		".", "./shardstore TestKeyForOverAMove",
	},
	{
		"a copy is not known to who finished it", "shardstore/calls.go",
		"kept.Owner == copyOwner(req.Owner, req.Fence) {", "kept.Owner == req.Owner {",
		".", "./shardstore TestCopies",
	},
	{
		"a lock on what is not there", "sqlstore/joint.go",
		"		won, err = j.makeFirst(ctx)\n", "		won, err = j.lookAndMake(ctx)\n",
		"integration", "./tx TestTxJoinedManyKeys",
	},
	{
		"a pass goes on past what has failed", "outbox/pass.go",
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
		"poison that is too large is held for ever", "mqidem/fit.go",
		"	if err == nil || !tooLarge(err) {\n		return err\n	}\n	forms", "	if err != nil || !tooLarge(err) {\n		return err\n	}\n	forms",
		".", "./mqidem TestFit",
	},
	{
		"an empty cookie hides its caller", "httpidem/credentials.go",
		`return plainCookie(v) != "" })`, `return true })`,
		".", "./httpidem TestCookieWithoutAValue",
	},
	{
		"a made-up credential hides the session", "httpidem/account.go",
		"header != \"\" && (c.Cookie", "header == \"?\" && (c.Cookie",
		".", "./httpidem TestFieldsTakeTheConfiguredCredential",
	},
	{
		"what may have worked is forgotten in minutes", "attempt.go",
		"|| a.steps.Load() != nil || mayHaveWorked {", "|| a.steps.Load() != nil || mayHaveWorked && false {",
		".", ". TestKeyForAfterAReleaseThatMayHaveWorked",
	},
	{
		"a late message is passed by", "outbox/dialect.go",
		"if after > 0 && t.d != SQLite {", "if after < 0 && t.d != SQLite {",
		"integration", "./tx TestOutboxOrderOfALateCommit",
	},
	{
		"a part that is away holds up the others", "giveback.go",
		"if last := len(g.ready) - 1; last >= 0 && (!failedIsDue || !g.failedNext) {", "if last := len(g.ready) - 1; last >= 0 && len(g.failed) == 0 {",
		".", ". TestPartThatIsAwayHoldsUpNoOther",
	},
	{
		"a contract runs work again under Refuse", "httpidem/contract.go",
		"	case reruns && given.After5xx == 0:\n", "	case reruns && given.After5xx == 0: // nothing\n		return\n	case reruns && c == nil:\n",
		".", "./httpidem TestContractsThatCannotBeKept",
	},
	{
		"the origin says what is a replay", "httpidem/replay.go",
		"	msg.header(h)\n	h[m.contract.replayed] = yes\n", "	h[m.contract.replayed] = yes\n	msg.header(h)\n",
		".", "./httpidem TestBlackBox",
	},
}
