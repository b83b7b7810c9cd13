package zklock

import (
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/lock"
)

// NumbersOf is what NewWorkers gives to package idgen.
func NumbersOf(b *Backend) idgen.Numbers { return &numbers{b: b, locks: lock.New(b, nil)} }
