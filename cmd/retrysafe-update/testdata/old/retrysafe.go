// Package retrysafe has what options of v0.1.0 need.
package retrysafe

type (
	Engine struct{}
	Policy struct{ Wait int64 }
	Rate   struct{ PerSecond float64 }
)
