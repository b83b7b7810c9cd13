package redisstore

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
)

// advice adds to [redisclient.Error.Advice] what only this store knows. It has no refusals from the
// middle of a script, since the scripts write once, at their end.
var advice = map[string]string{
	"NOPERM":   "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, for calls that can be resumed also ZADD, ZCARD, ZREVRANGE, ZRANGEBYSCORE, ZSCORE and ZREM, and the keys and channels of the prefix",
	"RSFORMAT": "the record was written by a newer version",
}

// refusal explains a refusal of the server. The error still is a [redisclient.Error].
func refusal(err error) error {
	var e redisclient.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("redisstore: %w", err)
	}
	what, ok := advice[e.Code()]
	if !ok {
		what = e.Advice()
	}
	if what != "" {
		return fmt.Errorf("redisstore: the server refuses (%s): %w", what, e)
	}
	return fmt.Errorf("redisstore: the server refuses: %w", e)
}
