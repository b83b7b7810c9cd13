package admin

// The documents of the API, as the tests decode them.
type (
	DeadCounts  = deadCountsJSON
	DeadLetter  = deadLetterJSON
	DeadMessage = deadMessageJSON
	Detail      = detailJSON
	InDoubt     = inDoubtJSON
	Key         = keyJSON
	Locks       = locksJSON
	Log         = logJSON
	Me          = meJSON
	OfTenant    = ofTenantJSON
	OutboxStats = outboxStatsJSON
	Quota       = quotaJSON
	Record      = recordJSON
	RecordPage  = recordsJSON
	Resolution  = resolutionJSON
	Search      = searchJSON
	Tenant      = tenantJSON
)

// RouteNames returns the method and the path of each route.
func RouteNames() (names []string) {
	for i := range routes {
		names = append(names, routes[i].method+" "+routes[i].path)
	}
	return names
}
