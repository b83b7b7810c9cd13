package admin

import (
	"net/http"
	"slices"
)

var (
	auditParameters  = []parameter{{"day", "string", "a date in UTC; absent: today"}, {"namespace", "string", "the log of this one, which the server reaches; absent: the server's own"}, {"before", "integer", "before of the part before"}, {"limit", "integer", "entries in a part, 1 to 1000; default 100"}}
	letterParameters = []parameter{{"why", "string", "only this reason"}, {"consumer", "string", "only this consumer"}, {"limit", "integer", "letters, 1 to 1000; default 100"}}
	lockParameters   = []parameter{{"after", "string", "next of the page before"}, {"limit", "integer", "locks in a page, 1 to 1000; default 100"}}
	outboxParameters = []parameter{{"after", "integer", "place of the last message of the page before"}, {"limit", "integer", "messages, 1 to 1000; default 100"}}
)

// routes has all operations of the API, in the order of its description.
var routes = []route{
	{http.MethodGet, "/me", View, "Who the caller is, and what it may do", nil, nil, meJSON{}, whoAmI},
	{http.MethodGet, "/in-doubt", View, "Count what is in doubt, by cause and age", countParameters, nil, inDoubtJSON{}, countInDoubt},
	{http.MethodGet, "/records", View, "List records", listParameters, nil, recordsJSON{}, listRecords},
	{http.MethodPost, "/records/list", View, "List records by what the body says: caller, key, answer", slices.Concat(listParameters[:2], listParameters[3:]), ofTenantJSON{}, recordsJSON{}, searchRecords},
	{http.MethodPost, "/records/find", View, "Look a record up by its key", nil, keyJSON{}, recordJSON{}, findRecord},
	{http.MethodGet, "/records/search", View, "Search for a hash, in parts of a second", append([]parameter{{"hash", "string", "16 hex digits"}}, listParameters[:7]...), nil, searchJSON{}, searchHash},
	{http.MethodGet, "/records/{ref}", View, "Show a record", nil, nil, detailJSON{}, showRecord},
	{http.MethodPost, "/records/{ref}/reveal", Reveal, "Show a record with what is hidden", nil, lookJSON{}, detailJSON{}, revealRecord},
	{http.MethodPost, "/records/{ref}/resolve", Resolve, "Set the outcome of a record in doubt", nil, resolutionJSON{}, detailJSON{}, resolveRecord},
	{http.MethodPost, "/quotas/find", View, "Read what a tenant uses of its limits", nil, tenantJSON{}, quotaJSON{}, findQuota},
	{http.MethodGet, "/outboxes", View, "Count the messages of each outbox", nil, nil, []outboxStatsJSON{}, listOutboxes},
	{http.MethodGet, "/outboxes/{name}/dead", View, "List messages that were given up", outboxParameters, nil, []deadMessageJSON{}, listDead},
	{http.MethodPost, "/outboxes/{name}/dead/reveal", Reveal, "List messages that were given up, with what is hidden", outboxParameters, lookJSON{}, []deadMessageJSON{}, revealDead},
	{http.MethodGet, "/outboxes/{name}/counts", View, "Count messages that were given up, by topic", nil, nil, deadCountsJSON{}, countDead},
	{http.MethodPost, "/outboxes/{name}/redrive", Resolve, "Make dead messages pending again", nil, Disposal{}, disposedJSON{}, redriveOutbox},
	{http.MethodPost, "/outboxes/{name}/discard", Resolve, "Remove dead messages for good", nil, Disposal{}, disposedJSON{}, discardOutbox},
	{http.MethodGet, "/deadletters", View, "Names of the queues whose dead letters can be seen", nil, nil, []string{}, listQueues},
	{http.MethodGet, "/deadletters/{name}", View, "List dead letters", letterParameters, nil, []deadLetterJSON{}, listLetters},
	{http.MethodPost, "/deadletters/{name}/reveal", Reveal, "List dead letters with what is hidden", letterParameters, lookJSON{}, []deadLetterJSON{}, revealLetters},
	{http.MethodGet, "/deadletters/{name}/counts", View, "Count dead letters by reason", nil, nil, deadCountsJSON{}, countLetters},
	{http.MethodPost, "/deadletters/{name}/redrive", Resolve, "Send dead letters to where they came from", nil, Disposal{}, disposedJSON{}, redriveLetters},
	{http.MethodPost, "/deadletters/{name}/discard", Resolve, "Remove dead letters for good", nil, Disposal{}, disposedJSON{}, discardLetters},
	{http.MethodGet, "/locks", View, "Names of the backends whose locks can be seen", nil, nil, []string{}, listLockers},
	{http.MethodGet, "/locks/{name}", View, "List locks that are held", lockParameters, nil, locksJSON{}, listLocks},
	{http.MethodPost, "/locks/{name}/reveal", Reveal, "List locks that are held, with their names", lockParameters, lookJSON{}, locksJSON{}, revealLocks},
	{http.MethodGet, "/workers", View, "Worker numbers of ids, and who holds them", listParameters[:1], nil, []workerJSON{}, listWorkers},
	{http.MethodGet, "/traffic", View, "Requests of a gateway by route and outcome", nil, nil, flowJSON{}, showTraffic},
	{http.MethodGet, "/audit", View, "The audit log of a day", auditParameters, nil, logJSON{}, readAudit},
}
