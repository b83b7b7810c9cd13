package redisstore

import (
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
)

// advice adds to the advice for any script what only this store knows. It has no refusals from the
// middle of a script: what a script changes in an index comes before what it writes.
var advice = map[string]string{
	"NOPERM":   "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, ZADD, ZREM, for lists also ZSCORE and ZRANGEBYLEX, for calls that can be resumed ZCARD, ZREVRANGE, ZRANGEBYSCORE and ZSCORE, and the keys and channels of the prefix",
	"RSFORMAT": "the record was written by a newer version",
}

// refusal explains a refusal of the server. The error still is a redisclient.Error.
func refusal(err error) error {
	if e, ok := errors.AsType[redisclient.Error](err); ok && forbidden(string(e)) {
		return redisnode.Refusal("redisstore", map[string]string{e.Code(): advice["NOPERM"]}, err)
	}
	return redisnode.Refusal("redisstore", advice, err)
}

// forbidden reports whether a script was refused one of its commands. The text depends on the
// version of the server.
func forbidden(text string) bool {
	return strings.Contains(text, "script can't run this command") || strings.Contains(text, "ACL failure in script")
}
