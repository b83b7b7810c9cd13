package zklock

import (
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/lock"
)

// NumbersOf returns what NewWorkers passes to package idgen.
func NumbersOf(b *Backend) idgen.Numbers { return &numberSource{backend: b, locks: lock.New(b, nil)} }
