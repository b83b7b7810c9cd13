package redisstore

import "github.com/retrysafe/retrysafe/internal/redisnode"

// refusalAdvice adds to the advice for any script what only this store knows. It has no refusals
// from the middle of a script: what a script changes in an index comes before what it writes.
var refusalAdvice = map[string]string{
	"NOPERM":   "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, ZADD, ZREM, for lists also ZSCORE and ZRANGEBYLEX, for calls that can be resumed ZCARD, ZREVRANGE, ZRANGEBYSCORE and ZSCORE, and the keys and channels of the prefix",
	"RSFORMAT": "the record was written by a newer version",
}

// explainRefusal explains a refusal of the server. The error still is a redisclient.Error.
func explainRefusal(err error) error {
	return redisnode.Refusal("redisstore", refusalAdvice, err)
}
