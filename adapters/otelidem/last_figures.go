package otelidem

import (
	"context"
	"sync"
	"time"
)

// lastFigures are figures that a store or a database is asked for when metrics are collected, at
// most every ten seconds. While it does not answer, they stay as they were.
type lastFigures[T any] struct {
	ask func(context.Context) (T, error)

	mu        sync.Mutex
	askedAt   time.Time
	countedAt time.Time // when it last answered, or when the metrics were added
	last      T
	known     bool // it has answered
}

func newLastFigures[T any](ask func(context.Context) (T, error)) *lastFigures[T] {
	return &lastFigures[T]{ask: ask, countedAt: time.Now()}
}

// read returns the last figures, and how old they are.
func (l *lastFigures[T]) read(ctx context.Context) (last T, since time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.askedAt) > 10*time.Second {
		l.askedAt = time.Now()
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if got, err := l.ask(ctx); err == nil {
			l.last, l.known, l.countedAt = got, true, time.Now()
		}
	}
	return l.last, time.Since(l.countedAt), l.known
}

// growOlder returns an age that was found some time ago. What cannot be read grows older all the
// same; zero means that there is nothing.
func growOlder(age, since time.Duration) time.Duration {
	if age <= 0 {
		return age
	}
	return age + since
}
