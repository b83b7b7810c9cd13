package check

import "slices"

// checks has all checks in the order in which they are done: what is asked first comes first, and
// what disturbs the service comes last.
var checks = []*Check{
	sequentialDuplicate, concurrentDuplicates, newKey,
	otherBody, otherBodyWhileRunning, jsonOrder,
	otherRoute, otherCaller, noCredentials,
	hangUp, halfBody,
	afterClientError, afterTooMany, afterServerError,
	missingKey, emptyKey, quotedKey, doubledKey, longKey, cutKey, keyCase, alikeKeys,
	fidelity, replayMarker, inProgress, contract,
	newerKeys, expiry, restartAfter, restartDuring,
}

// Checks returns all checks, in the order of a report.
func Checks() []*Check { return slices.Clone(checks) }
