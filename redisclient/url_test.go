package redisclient_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://127.0.0.1":                         "{1 false [127.0.0.1:6379]    0}",
		"redis://127.0.0.1:7000/3":                  "{1 false [127.0.0.1:7000]    3}",
		"rediss://ann:p%40ss%2Fword@cache.example/": "{1 true [cache.example:6379] ann p@ss/word  0}",
		"redis://:secret@[::1]:6380":                "{1 false [[::1]:6380]  secret  0}",
		"redis://[::1]":                             "{1 false [[::1]:6379]    0}",
		"redis+sentinel://a,b:26380/primary/2":      "{2 false [a:26379 b:26380]   primary 2}",
		"rediss+cluster://u:p@a:1,b:2":              "{3 true [a:1 b:2] u p  0}",
		"redis://":                                  "no host and port",
		"redis://a:port":                            "no host and port",
		"redis://a,b":                               "several servers",
		"redis://a/b":                               "database",
		"redis+cluster://a/1":                       "database",
		"redis+sentinel://a":                        "name of the primary",
		"redis+ring://a":                            "nothing else is known",
		"http://a":                                  "write the address like",
		"redis:a":                                   "write the address like",
		"redis://a?db=1":                            "leave out options",
		"redis://ann:sec%zzret@a":                   "percent-encoded",
		"redis://ann:sec/ret@a":                     "percent-encoded",
	} {
		a, err := redisclient.ParseURL(text)
		if err != nil {
			assert.Contains(t, err.Error(), want, "%s", text)
			assert.True(t, !strings.Contains(err.Error(), "ret"), "%s: no password in %v", text, err)
			continue
		}
		assert.Equal(t, fmt.Sprint(*a), want, "%s", text)
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("rediss+sentinel://ann:p%40@[::1]:1,b/name/1")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := redisclient.ParseURL(text)
		if err == nil && (a.Mode == 0 || len(a.Hosts) == 0 || a.DB < 0) {
			t.Fatalf("%q: %+v", text, a)
		}
	})
}

func TestErrorCode(t *testing.T) {
	t.Parallel()
	assert.Equal(t, redisclient.Error("OOM command not allowed").Code(), "OOM", "code")
	assert.Equal(t, redisclient.Error("ERR").Error(), "redis: ERR", "text")
	for _, text := range []string{
		"ERR The user executing the script can't run this command or subcommand script: 219b, on @user_script:1.",
		"ERR ACL failure in script: User ann has no permissions to run the 'set' command script: 219b, on @user_script:1.",
		"NOPERM this user has no permissions to run the 'eval' command",
	} {
		assert.Equal(t, redisclient.Error(text).Code(), "NOPERM", "code of %s", text)
	}
}
