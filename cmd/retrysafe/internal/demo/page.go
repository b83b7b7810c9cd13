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

	"github.com/retrysafe/retrysafe/httpidem/browser"
)

//go:embed page
var files embed.FS

// page is the demonstration for people who do not read tables: they press Pay and kill the gateway
// themselves. It shows data from the shop's tables and the gateway's records. It has its own shop
// and gateway, separate from those of the scenes.
type page struct {
	stage   *stage
	token   string // for the gateway's console
	desk    *formDesk
	records *gatewayRecords
	addr    string

	examiner   *examiner
	server     *http.Server
	ctx        context.Context // of all background work
	cancel     context.CancelFunc
	tasks      sync.WaitGroup
	unanswered atomic.Int64 // presses without an answer

	gatewayMu sync.Mutex // one kill or start of the gateway at a time

	mu      sync.Mutex
	current *bill
}

// openPage starts the page with its shop and gateway. dir is for its files.
func openPage(ctx context.Context, dir string, o *options) (*page, error) {
	how, token, err := pageGateway(dir, o.store)
	if err != nil {
		return nil, err
	}
	s, err := openStage(ctx, dir, "page", o, how...)
	if err != nil {
		return nil, err
	}
	l, err := o.listen.listen()
	if err != nil {
		s.kill()
		return nil, err
	}
	p := &page{stage: s, token: token, desk: newFormDesk(s.shop.addr, s.runID), addr: l.Addr().String()}
	p.examiner = newExaminer(func(ctx context.Context, name string) (*stage, func(), error) { return openScenes(ctx, dir, name, o) })
	p.newPayment()
	p.ctx, p.cancel = context.WithCancel(ctx)
	if p.records, err = openRecords(ctx, o.open, s); err != nil {
		return nil, closeFailed(p, l, err)
	}
	p.server = &http.Server{Handler: guardPage(p.routes()), ReadHeaderTimeout: 10 * time.Second}
	p.tasks.Go(func() { _ = p.server.Serve(l) }) // until close
	return p, nil
}

func closeFailed(p *page, l net.Listener, err error) error {
	_ = l.Close()
	p.close()
	return err
}

// close ends the page and its processes.
func (p *page) close() {
	p.cancel()
	if p.server != nil {
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		// A browser may hold a connection on which it never sent a request.
		_ = p.server.Shutdown(soon)
		cancel()
		_ = p.server.Close()
	}
	p.tasks.Wait()
	p.gatewayMu.Lock()
	defer p.gatewayMu.Unlock()
	p.stage.kill()
	p.desk.shutdown()
	if p.records != nil {
		p.records.close()
	}
}

func (p *page) routes() http.Handler {
	assets, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the pattern above is fixed
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(assets))
	mux.HandleFunc("GET /state", p.serveState)
	mux.HandleFunc("GET /events", p.serveEvents)
	mux.HandleFunc("POST /press", p.servePress)
	mux.Handle("POST /new", acceptAfter(func() { p.newPayment() }))
	p.desk.addRoutes(mux)
	mux.Handle("GET /retrysafe.js", browser.Handler())
	mux.Handle("POST /forms/new", acceptAfter(p.desk.resetCounts))
	mux.HandleFunc("POST /forms/attack", func(w http.ResponseWriter, r *http.Request) {
		if err := p.desk.replayForms(r.Context(), "http://"+p.addr); err != nil {
			refuseRequest(w, r, http.StatusBadGateway, "notice.copies", "error", err.Error())
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /examine", func(w http.ResponseWriter, r *http.Request) {
		if !p.examiner.tryBegin() {
			refuseRequest(w, r, http.StatusConflict, "notice.examines")
			return
		}
		p.tasks.Go(func() { p.examiner.runBegun(p.ctx) })
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /examined/{side}", p.examiner.serveReport)
	mux.Handle("POST /gateway/kill", acceptAfter(p.killGateway))
	mux.HandleFunc("POST /gateway/start", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.reviveGateway(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// acceptAfter is a handler that does something which cannot fail.
func acceptAfter(do func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		do()
		w.WriteHeader(http.StatusAccepted)
	})
}

func (p *page) currentBill() *bill {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// newPayment begins a payment with a new key.
func (p *page) newPayment() *bill {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := 1
	if p.current != nil {
		number = p.current.number + 1
	}
	p.current = newBill(number, p.stage.runKey(fmt.Sprint("page-", number)))
	return p.current
}

func (p *page) killGateway() {
	p.gatewayMu.Lock()
	defer p.gatewayMu.Unlock()
	p.stage.gateway.kill()
}

func (p *page) reviveGateway() error {
	p.gatewayMu.Lock()
	defer p.gatewayMu.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err // the page ends, with all that it has started
	}
	if _, up := p.stage.gateway.running(); up {
		return nil
	}
	return p.stage.gateway.start(p.ctx)
}

// listPayments returns the payments of a side from the shop's own table.
func (p *page) listPayments(s *side) ([]payment, error) {
	return listPayments(p.ctx, p.stage.shop.addr, s.request.Scene)
}
