package sqlstore

import "sync"

// seenKeys guesses whether a claim is the first one of its key. A first claim inserts at once. A
// duplicate looks at the record first, which locks nothing. A wrong guess costs one statement.
//
// A key that this store has claimed before is a duplicate's. Any other key is new, unless most of
// the latest claims of such keys were duplicates.
type seenKeys struct {
	mu           sync.Mutex
	newer, older map[recordID]struct{}
	newLately    int // grows with keys that were new, and shrinks with others
}

const (
	// mostSeen is half of how many keys are known at most: about 3 MB.
	mostSeen = 1 << 15
	// mostLately bounds newLately, so that a change of traffic shows soon.
	mostLately = 16
)

// isNew returns the guess for a claim, and counts the key as seen.
func (k *seenKeys) isNew(id recordID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.newer[id]
	if !seen {
		_, seen = k.older[id]
	}
	if seen {
		return false
	}
	if k.newer == nil || len(k.newer) >= mostSeen {
		k.newer, k.older = make(map[recordID]struct{}), k.newer
	}
	k.newer[id] = struct{}{}
	return k.newLately >= 0
}

// was tells what a claim has found for a key that was not seen before.
func (k *seenKeys) was(isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if isNew {
		k.newLately = min(k.newLately+1, mostLately)
	} else {
		k.newLately = max(k.newLately-2, -mostLately)
	}
}
