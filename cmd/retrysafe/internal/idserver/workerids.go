package idserver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/idgen"
)

// workerIDs makes ids with a worker number, and claims another number when it loses one.
type workerIDs struct {
	workers *idgen.Workers
	log     *slog.Logger
	current atomic.Pointer[numberInUse]
	lost    atomic.Int64 // lost numbers so far

	life       context.Context
	stop       context.CancelFunc
	reclaiming sync.WaitGroup
}

// numberInUse is a worker number in use.
type numberInUse struct {
	*idgen.Buffered
	ids  *idgen.Snowflake
	held *idgen.Held
}

func (m *numberInUse) NextN(ctx context.Context, n int) ([]idgen.ID, error) {
	return m.ids.NextN(ctx, n)
}

func newWorkerIDs(ctx context.Context, o *Options) (*workerIDs, error) {
	m := &workerIDs{workers: idgen.NewWorkers(o.Store, o.Workers), log: o.Log}
	if err := m.claimNumber(ctx); err != nil {
		return nil, err
	}
	m.life, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.reclaiming.Go(m.reclaimLost)
	return m, nil
}

func (m *workerIDs) claimNumber(ctx context.Context) error {
	held, err := m.workers.Claim(ctx)
	if err != nil {
		return err
	}
	ids, err := idgen.NewSnowflake(held, nil)
	if err != nil {
		_ = held.Release(context.WithoutCancel(ctx)) // otherwise it expires
		return err
	}
	m.current.Store(&numberInUse{idgen.NewBuffered(ids), ids, held})
	return nil
}

// reclaimLost claims a number when one is lost. Until it has one, only ids whose times were
// reserved before can be made.
func (m *workerIDs) reclaimLost() {
	for {
		select {
		case <-m.current.Load().held.Done():
		case <-m.life.Done():
			return
		}
		m.lost.Add(1)
		m.log.Warn("ids: the worker number was lost: the store has not answered for a lease, or this process was stopped; another one is claimed")
		for {
			err := m.claimNumber(m.life)
			if err == nil {
				m.log.Info("ids: there is a worker number again", "worker", m.current.Load().held.String())
				break
			}
			if m.life.Err() != nil {
				return
			}
			m.log.Error("ids: no worker number; it is tried again in a second", "error", err.Error())
			if backoff.Pause(m.life, time.Second) != nil {
				return
			}
		}
	}
}

func (m *workerIDs) hasNumber() bool {
	select {
	case <-m.current.Load().held.Done():
		return false
	default:
		return true
	}
}

func (m *workerIDs) close(ctx context.Context) error {
	m.stop()
	m.reclaiming.Wait()
	if !m.hasNumber() {
		return nil
	}
	return m.current.Load().held.Release(ctx)
}
