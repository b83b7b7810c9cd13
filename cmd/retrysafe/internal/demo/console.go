package demo

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/admin"
)

// pageGateway returns the options of the page's gateway, and a token for its console. With the
// user's store there is none: anyone who can open the page could resolve all that the store has.
//
// The lease is long enough for a duplicate to meet it after a kill. The wait is too short to
// outlast it.
func pageGateway(dir, store string) (how []string, token string, err error) {
	if store != "" {
		return []string{"--retention", "1h", "--in-progress", "wait 1s", "--lease", "6s"}, "", nil
	}
	token = admin.TokenPrefix + rand.Text()
	tokens, config := filepath.Join(dir, "tokens"), filepath.Join(dir, "gateway.yaml")
	for file, text := range map[string]string{
		tokens: fmt.Sprintf("you view,reveal,resolve %x\n", sha256.Sum256([]byte(token))),
		config: fmt.Sprintf("defaults: {in_progress: wait 1s, lease: 6s, retention: 1h}\noperators: {tokens: %q}\n", tokens),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, "", fmt.Errorf("demo: %w", err)
		}
	}
	return []string{"--config", config}, token, nil
}

// consoleURL returns the address of the gateway's console, with the token in the part that a
// browser does not send; empty if there is none.
func (p *page) consoleURL() string {
	if p.stage.admin == "" || p.token == "" {
		return ""
	}
	return "http://" + p.stage.admin + "/#token=" + p.token
}
