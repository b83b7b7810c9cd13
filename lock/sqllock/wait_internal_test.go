package sqllock

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestReleasesAreCalled(t *testing.T) {
	t.Parallel()
	var c releaseSignals
	one, leave := c.subscribe("x")
	two, _ := c.subscribe("x")
	other, _ := c.subscribe("y")
	leave()
	c.notify("x")
	<-one
	<-two
	select {
	case <-other:
		t.Error("another name was called")
	default:
	}
	again, leave := c.subscribe("x") // the next release
	select {
	case <-again:
		t.Error("called before the release")
	default:
	}
	leave()
	assert.Equal(t, len(c.names), 1, "names that somebody waits for")
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{"Table": {Table: `a"b`}, "Remember": {Remember: 1}} {
		_, err := checkedOptions(&o, SQLite)
		assert.True(t, err != nil, "refused")
		assert.Contains(t, err.Error(), want, "why")
	}
	_, err := checkedOptions(nil, 9)
	assert.Contains(t, err.Error(), "dialect 9", "why")
}
