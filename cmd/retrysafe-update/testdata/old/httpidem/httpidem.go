// Package httpidem has the options of v0.1.0.
package httpidem

import (
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

type (
	KeyMode    uint8
	After5xx   uint8
	KeepAnswer uint8
	Middleware struct{}
	Options    struct {
		Tenant      func(*http.Request) (string, error)
		Account     func(*http.Request) string
		Policy      retrysafe.Policy
		Key         KeyMode
		FormKey     bool
		Rule        fingerprint.Rule
		Fields      []string
		Rate        retrysafe.Rate
		KeyHeader   []string
		Methods     []string
		Operation   func(*http.Request) string
		After5xx    After5xx
		MaxBody     int64
		BodyTime    time.Duration
		MinKey      int
		KeepAnswer  KeepAnswer
		KeepCookies bool
		Succeed     StaticAnswer
		Docs        string
	}
	StaticAnswer struct{ Status int }
)

const (
	Required     KeyMode    = 2
	Fields       KeyMode    = 6
	KeepNever    KeepAnswer = 2
	After5xxKeep After5xx   = 2
)

func Global(*http.Request) (string, error) { return "", nil }

func New(_ *retrysafe.Engine, _ *Options) *Middleware { return nil }
