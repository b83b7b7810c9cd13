package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
)

// duration is a time above zero.
type duration struct{ d time.Duration }

func (v *duration) UnmarshalYAML(n ast.Node) (err error) {
	v.d, err = parseTimeNode(n, "a time such as 500ms, 30s, 24h or 7d")
	return err
}

// retention is a time above zero, or forever.
type retention struct{ d time.Duration }

func (v *retention) UnmarshalYAML(n ast.Node) (err error) {
	if text, _ := scalarText(n, ""); text == "forever" {
		v.d = retrysafe.Forever
		return nil
	}
	v.d, err = parseTimeNode(n, "a time such as 30s, 24h or 7d, or forever")
	return err
}

// parseTimeNode parses a node that is a time above zero.
func parseTimeNode(n ast.Node, want string) (time.Duration, error) {
	text, err := scalarText(n, want)
	if err != nil {
		return 0, err
	}
	d, err := parseTime(text)
	switch {
	case err != nil:
		return 0, errorAtNode(n, "%q is no time; write %s", text, want)
	case d <= 0:
		return 0, errorAtNode(n, "%q is not more than zero; write %s", text, want)
	}
	return d, nil
}

const (
	day      = 24 * time.Hour
	mostDays = int64(retrysafe.Forever / day)
)

// parseTime parses a time as [time.ParseDuration] does, and whole days, such as 7d.
func parseTime(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > mostDays || n < -mostDays {
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	return time.Duration(n) * day, nil
}
