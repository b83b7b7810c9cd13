package demo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/browser"
)

//go:embed page
var files embed.FS

// page is the demonstration for people who do not read tables: they press Pay and kill the gateway
// themselves. What it shows comes from the shop's tables and the gateway's records. It has a shop
// and a gateway of its own, so that the scenes and it do not meet.
type page struct {
	stage   *stage
	desk    *desk
	records *records
	addr    string
	server  *http.Server
	ctx     context.Context // of all that goes on in the background
	cancel  context.CancelFunc
	all     sync.WaitGroup
	waiting atomic.Int64 // presses without an answer

	doors sync.Mutex // one kill or start of the gateway at a time

	mu      sync.Mutex
	current *bill
}

// openPage starts the page and what it plays with. dir is for its files.
func openPage(ctx context.Context, dir string, o *options) (*page, error) {
	// The lease is long enough to see a repeat meet it after a kill, and the wait too short to sit
	// it out.
	s, err := build(dir, "page", o.store, "--in-progress", "wait 1s", "--lease", "6s")
	if err != nil {
		return nil, err
	}
	l, err := o.listen.listen()
	if err != nil {
		return nil, err
	}
	p := &page{stage: s, desk: newDesk(s.shop.addr, s.run), addr: l.Addr().String()}
	p.renew()
	p.ctx, p.cancel = context.WithCancel(ctx)
	if err := s.start(p.ctx); err != nil {
		return nil, closed(p, l, err)
	}
	if p.records, err = openRecords(ctx, o.open, s); err != nil {
		return nil, closed(p, l, err)
	}
	p.server = &http.Server{Handler: guarded(p.routes()), ReadHeaderTimeout: 10 * time.Second}
	p.all.Go(func() { _ = p.server.Serve(l) }) // until close
	return p, nil
}

func closed(p *page, l net.Listener, err error) error {
	_ = l.Close()
	p.close()
	return err
}

// close ends the page and its processes.
func (p *page) close() {
	p.cancel()
	if p.server != nil {
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		// a browser may hold a connection on which it never asked anything
		_ = p.server.Shutdown(soon)
		cancel()
		_ = p.server.Close()
	}
	p.all.Wait()
	p.doors.Lock()
	defer p.doors.Unlock()
	p.stage.kill()
	p.desk.close()
	if p.records != nil {
		p.records.close()
	}
}

func (p *page) routes() http.Handler {
	assets, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name is the one above
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(assets))
	mux.HandleFunc("GET /state", p.state)
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /press", p.press)
	mux.HandleFunc("POST /new", func(w http.ResponseWriter, _ *http.Request) {
		p.renew()
		w.WriteHeader(http.StatusAccepted)
	})
	p.desk.routes(mux)
	mux.Handle("GET /retrysafe.js", browser.Handler())
	mux.HandleFunc("POST /forms/new", func(w http.ResponseWriter, _ *http.Request) {
		p.desk.renew()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /forms/attack", func(w http.ResponseWriter, r *http.Request) {
		if err := p.desk.attack(r.Context(), "http://"+p.addr); err != nil {
			http.Error(w, "the copies could not be counted: "+err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /gateway/kill", func(w http.ResponseWriter, _ *http.Request) {
		p.kill()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /gateway/start", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.revive(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

func (p *page) bill() *bill {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// renew begins a payment with a key of its own.
func (p *page) renew() *bill {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := 1
	if p.current != nil {
		number = p.current.number + 1
	}
	p.current = newBill(number, p.stage.key(fmt.Sprint("page-", number)))
	return p.current
}

func (p *page) kill() {
	p.doors.Lock()
	defer p.doors.Unlock()
	p.stage.gateway.kill()
}

func (p *page) revive() error {
	p.doors.Lock()
	defer p.doors.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err // the page ends, and with it whatever it has started
	}
	if _, up := p.stage.gateway.running(); up {
		return nil
	}
	return p.stage.gateway.start(p.ctx)
}

// paid is what the shop's own table says of a side.
func (p *page) paid(s *side) ([]payment, error) {
	return paid(p.ctx, p.stage.shop.addr, s.request.Scene)
}
