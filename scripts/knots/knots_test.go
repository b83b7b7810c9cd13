package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestKnots: files of a package can be read one after the other, but for a knot of at most so many.
func TestKnots(t *testing.T) {
	t.Parallel()
	for dir, most := range map[string]int{".": 12, "gateway": 9, "gateway/config": 3, "gateway/internal/route": 2, "gateway/internal/h1server": 5, "gateway/internal/h1client": 2, "sqlstore": 6} {
		p, err := load("../../" + dir)
		assert.NoError(t, err, "load %s", dir)
		if len(p.knot) > most {
			t.Errorf("%s: %d files are in one knot, at most %d may be: %v\ngo run ./scripts/knots -why %s says which uses tie it", dir, len(p.knot), most, p.knot, dir)
		}
	}
}

// layers are the files of the root package, from the bottom to the top. A file uses its own layer
// and those below it.
var layers = []struct {
	name  string
	files []string
}{
	{"vocabulary", []string{
		"answer.go", "cause.go", "codec.go", "codec_json.go", "doc.go", "error_class.go", "errors.go", "key.go", "limits.go", "origin.go", "outcome.go", "policy.go", "progress.go",
		"record.go", "resolution.go", "trace.go", "trace_join.go",
	}},
	{"runtime", []string{
		"call_trace.go", "clock.go", "giveback.go", "lifecycle.go", "options.go", "patience.go", "quota.go", "quota_reservation.go",
		"retry.go", "runtime.go", "sweeper.go", "waiters.go",
	}},
	{"attempt", []string{"attempt.go", "attempt_finish.go", "heartbeat.go", "step.go", "step_journal.go", "step_tx.go"}},
	{"call", []string{
		"acquire.go", "attempt_start.go", "batch.go", "call.go", "call_options.go", "core.go", "do.go", "engine.go", "fingerprint.go",
		"issue.go", "reconcile.go", "replay.go", "tx.go",
	}},
	{"operations", []string{
		"format.go", "operation.go", "rate.go", "reconcile_all.go", "resolve.go", "resumable.go", "secret.go", "worker.go", "worker_recover.go",
	}},
}

func layerOf(file string) int {
	for i, l := range layers {
		if slices.Contains(l.files, file) {
			return i
		}
	}
	return -1
}

// TestLayers: uses in the root package point down.
func TestLayers(t *testing.T) {
	t.Parallel()
	p, err := load("../..")
	assert.NoError(t, err, "load")
	for _, from := range p.files {
		at := layerOf(from)
		if at < 0 {
			t.Errorf("%s: it is in no layer; put it into one of this test", from)
			continue
		}
		for to, names := range p.uses[from] {
			if below := layerOf(to); below > at {
				t.Errorf("%s (%s) uses %v of %s (%s): move the declaration down, or the use up", from, layers[at].name, slices.Sorted(maps.Keys(names)), to, layers[below].name)
			}
		}
	}
}
