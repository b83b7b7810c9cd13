package redisstore

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
)

// advice says of each refusal of the server what it means here. Those of a script that had begun are not among them: the scripts write
// once, at their end.
var advice = map[string]string{
	"OOM":         "its memory is full; give it more (maxmemory), or keep answers for a shorter time",
	"READONLY":    "this server is a replica; name the primary, or let Sentinel or Cluster name it",
	"LOADING":     "it is loading its data after a start",
	"CLUSTERDOWN": "the cluster has lost a part of its slots",
	"TRYAGAIN":    "the key's slot is being moved",
	"MASTERDOWN":  "the replica has lost its primary",
	"NOREPLICAS":  "fewer replicas are well than min-replicas-to-write asks for",
	"MISCONF":     "it cannot write its snapshot to disk; look at its log",
	"NOAUTH":      "it wants a password",
	"WRONGPASS":   "user or password are wrong",
	"NOPERM":      "the user may not run this; it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, and the keys and channels of the prefix",
	"BUSY":        "another script has been running for too long",
	"WRONGTYPE":   "the key holds something that this store has not written; choose another Prefix",
	"RSFORMAT":    "the record was written by a newer version",
}

// refusal explains what the server refused. The error still is a [redisclient.Error].
func refusal(err error) error {
	var e redisclient.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("redisstore: %w", err)
	}
	if what, ok := advice[e.Code()]; ok {
		return fmt.Errorf("redisstore: the server refuses (%s): %w", what, e)
	}
	return fmt.Errorf("redisstore: the server refuses: %w", e)
}
