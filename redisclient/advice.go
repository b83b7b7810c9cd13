package redisclient

// advice explains the server's refusals, for any script.
var advice = map[string]string{
	"OOM":         "its memory is full; give it more (maxmemory), or keep things for a shorter time",
	"READONLY":    "this server is a replica; name the primary, or let Sentinel or Cluster name it",
	"LOADING":     "it is loading its data after a start",
	"CLUSTERDOWN": "the cluster has lost a part of its slots",
	"TRYAGAIN":    "the key's slot is being moved",
	"MASTERDOWN":  "the replica has lost its primary",
	"NOREPLICAS":  "fewer replicas are well than min-replicas-to-write asks for",
	"MISCONF":     "it cannot write its snapshot to disk; look at its log",
	"NOAUTH":      "it wants a password; put it into the URL, redis://USER:PASSWORD@HOST:PORT, which RETRYSAFE_STORE can hold",
	"WRONGPASS":   "user or password are wrong",
	"BUSY":        "another script has been running for too long",
	"WRONGTYPE":   "the key holds something that was not written here; choose another Prefix",
}

// Advice says what the refusal means and what to do. It is empty if there is nothing to add to the
// server's text.
func (e Error) Advice() string { return advice[e.Code()] }
