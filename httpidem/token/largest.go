package token

import "container/heap"

// account is who tokens are counted for.
type account struct {
	name      string
	tokens    []*issuedToken // in order of time
	heapIndex int            // in largest
}

// tokenCount returns how many tokens are counted; nil has none.
func (a *account) tokenCount() int {
	if a == nil {
		return 0
	}
	return len(a.tokens)
}

// accountHeap has the accounts, first the one that has most tokens; of equal ones, the one whose
// newest token is the newest.
type accountHeap []*account

// addAccount adds an account without tokens.
func (h *accountHeap) addAccount(name string) *account {
	a := &account{name: name}
	heap.Push(h, a)
	return a
}

// fix puts an account into its place after its tokens have changed.
func (h *accountHeap) fix(a *account) { heap.Fix(h, a.heapIndex) }

func (h *accountHeap) remove(a *account) { heap.Remove(h, a.heapIndex) }

// mostTokens returns the number of tokens of the first account.
func (h accountHeap) mostTokens() int {
	if len(h) == 0 {
		return 0
	}
	return h[0].tokenCount()
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].

func (h accountHeap) Len() int { return len(h) }

func (h accountHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.tokenCount() != b.tokenCount() || a.tokenCount() == 0 {
		return a.tokenCount() > b.tokenCount()
	}
	return a.tokens[a.tokenCount()-1].at.After(b.tokens[b.tokenCount()-1].at)
}

func (h accountHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *accountHeap) Push(x any) {
	a := x.(*account) //nolint:errcheck,forcetypeassert // add gives it
	a.heapIndex = len(*h)
	*h = append(*h, a)
}

func (h *accountHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
