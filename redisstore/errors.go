package redisstore

import "github.com/retrysafe/retrysafe/internal/redisnode"

// advice adds to the advice for any script what only this store knows. It has no refusals from the
// middle of a script, since the scripts write once, at their end.
var advice = map[string]string{
	"NOPERM":   "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, for calls that can be resumed also ZADD, ZCARD, ZREVRANGE, ZRANGEBYSCORE, ZSCORE and ZREM, and the keys and channels of the prefix",
	"RSFORMAT": "the record was written by a newer version",
}

// refusal explains a refusal of the server. The error still is a redisclient.Error.
func refusal(err error) error {
	return redisnode.Refusal("redisstore", advice, err)
}
