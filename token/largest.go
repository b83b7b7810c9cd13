package token

import "container/heap"

// account is who tokens are counted for.
type account struct {
	name   string
	issues []*issue // in order of time
	at     int      // in largest
}

// size returns how many tokens are counted; nil has none.
func (a *account) size() int {
	if a == nil {
		return 0
	}
	return len(a.issues)
}

// largest has the accounts, first the one that has most tokens; of equal ones, the one whose newest
// token is the newest.
type largest []*account

// add adds an account without tokens.
func (h *largest) add(name string) *account {
	a := &account{name: name}
	heap.Push(h, a)
	return a
}

// changed puts an account into its place after its tokens have changed.
func (h *largest) changed(a *account) { heap.Fix(h, a.at) }

func (h *largest) remove(a *account) { heap.Remove(h, a.at) }

// most returns the number of tokens of the first account.
func (h largest) most() int {
	if len(h) == 0 {
		return 0
	}
	return h[0].size()
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].

func (h largest) Len() int { return len(h) }

func (h largest) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.size() != b.size() || a.size() == 0 {
		return a.size() > b.size()
	}
	return a.issues[a.size()-1].at.After(b.issues[b.size()-1].at)
}

func (h largest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *largest) Push(x any) {
	a := x.(*account) //nolint:errcheck,forcetypeassert // add gives it
	a.at = len(*h)
	*h = append(*h, a)
}

func (h *largest) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
