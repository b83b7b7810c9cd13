package redisstore

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
)

// advice is what [redisclient.Error.Advice] cannot know. Refusals of a script that had begun are
// not among them: the scripts write once, at their end.
var advice = map[string]string{
	"NOPERM":   "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, for calls that can be resumed also ZADD, ZCARD, ZREVRANGE, ZRANGEBYSCORE, ZSCORE and ZREM, and the keys and channels of the prefix",
	"RSFORMAT": "the record was written by a newer version",
}

// refusal explains what the server refused. The error still is a [redisclient.Error].
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
